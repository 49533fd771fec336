// SPDX-License-Identifier: Apache-2.0
// Rows of a text file in memory: `\n`-terminated lines, plus a last one without `\n` if it is not empty. Nothing else
// ends a row. And how a row's value is shown in a message.
#ifndef FINETUNED_DATA_ROW_H
#define FINETUNED_DATA_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct row {
    const char *at; // its bytes, without the `\n`
    size_t size;
    const char *next; // internal: where the next row starts
    const char *end;
};

// For loops: struct row row = row_first(bytes, size); while (row_next(&row)) …
struct row row_first(const char *bytes, size_t size);
bool row_next(struct row *row);
size_t row_count(const char *bytes, size_t size);

// A canonical decimal number (no sign, blank or leading zero) up to `max`.
bool row_decimal(const char *bytes, size_t size, uint32_t max, uint32_t *out);

// The value as it may stand in a message: in double quotes, at most 40 bytes of it, what is not printable ASCII as
// \xNN.
#define ROW_SHOW 176
const char *row_show(char out[ROW_SHOW], const char *bytes, size_t size);

#endif
