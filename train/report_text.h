// SPDX-License-Identifier: Apache-2.0
// report.json as Markdown. Every key may lack: an older report, or one that somebody edited, is shown as far as it
// goes.
#ifndef FINETUNED_TRAIN_REPORT_TEXT_H
#define FINETUNED_TRAIN_REPORT_TEXT_H

#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>

// <folder>/report.json; json_decref it. STATUS_DATA: missing, or not a JSON object.
enum status report_read(json_t **out, const char *folder);

// All of report.md.
void report_markdown(struct text *out, const json_t *report);
// "<marks> test: macro_f1 0.8800", scores in a line, by class, and the confusion matrix, of one split.
void report_split_markdown(struct text *out, const char *marks, const char *name, const json_t *split);
// A split's scores in a line, the official one first: "macro_f1 0.8800, accuracy 0.8912".
void report_scores(struct text *out, const json_t *split);
// Whether the number under this key of a split counts something, where the others are scores.
bool report_is_count(const char *key);
// A table of evaluations; nothing if there are none.
void report_history_markdown(struct text *out, const json_t *history);
// A table of keys and values: an object whose values are strings.
void report_keys_markdown(struct text *out, const json_t *keys);

// What stands at a path of keys ("last", "val", NULL), NULL if there is nothing.
const json_t *report_at(const json_t *report, ...) __attribute__((sentinel));

#endif
