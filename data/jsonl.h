// SPDX-License-Identifier: Apache-2.0
// JSON Lines, a pure function of bytes: one JSON object a line, duplicate keys refused, strings may hold NUL. A line
// ends in LF or CRLF; one of blanks alone is no record; a U+FEFF before the first line is passed over.
#ifndef FINETUNED_DATA_JSONL_H
#define FINETUNED_DATA_JSONL_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#define JSONL_LINE_MAX ((size_t)64 * 1024 * 1024) // bytes of a line

struct jsonl {
    json_t *object; // the line that jsonl_next read last
    size_t line;    // its number, from 1
    // internal
    const char *path, *at, *end;
};

// The input stays the caller's; `path` is for messages.
void jsonl_init(struct jsonl *out, const char *path, const char *bytes, size_t size);
void jsonl_release(struct jsonl *jsonl);

// The next object; *end where there is none. STATUS_DATA with file:line and what is wrong with it.
enum status jsonl_next(struct jsonl *jsonl, bool *end);

#endif
