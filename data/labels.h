// SPDX-License-Identifier: Apache-2.0
// The labels of a task: names by id. One mapping for the whole run: the data's.
#ifndef FINETUNED_DATA_LABELS_H
#define FINETUNED_DATA_LABELS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LABELS_MAX 1000      // of data: scores hold, and events and reports print, a square of so many numbers
#define LABELS_NAME_MAX 1024 // bytes of a name
#define LABELS_FILE_MAX ((size_t)1 << 24) // bytes of a mapping

struct labels {
    char **names; // [n]
    uint32_t n;
};

void labels_release(struct labels *labels);
// Adds a name; STATUS_DATA if it is there already.
enum status labels_add(struct labels *labels, const char *name);
// Its id, or -1.
int32_t labels_find(const struct labels *labels, const char *name);
// The same names by the same ids.
bool labels_equal(const struct labels *a, const struct labels *b);

// TweetEval's mapping.txt: lines "id<TAB>name[<TAB>…]", ids 0..n-1 in any order, last line may lack its newline. Blank
// lines behind the last one are passed over; \r\n is refused. STATUS_DATA with file:line and the value.
enum status labels_read(struct labels *out, const char *path);
// The same from bytes; `path` is for messages.
enum status labels_parse(struct labels *out, const char *path, const char *bytes, size_t size);

#endif
