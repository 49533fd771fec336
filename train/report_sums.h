// SPDX-License-Identifier: Apache-2.0
// The SHA-256 of a run's report, which its `end` event records: a report that was edited is told from the run's own.
#ifndef FINETUNED_TRAIN_REPORT_SUMS_H
#define FINETUNED_TRAIN_REPORT_SUMS_H

#include "base/status.h"
#include "base/text.h"
#include "train/history.h"

// The object of the event, {"report.json": "…", "report.md": "…"}, of the files as they are in `folder`.
enum status report_sums_print(struct text *out, const char *folder);
// STATUS_DATA: one of them is not what was recorded (of older runs nothing is). Files that are missing are passed over.
enum status report_sums_check(const struct history_report *told, const char *folder);

#endif
