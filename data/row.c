// SPDX-License-Identifier: Apache-2.0
#include "data/row.h"

#include "base/pulse.h"

#include <stdio.h>
#include <string.h>

struct row row_first(const char *bytes, size_t size) {
    return (struct row){.next = bytes, .end = size ? bytes + size : bytes};
}

bool row_next(struct row *row) {
    if (row->next == row->end)
        return false;
    pulse_beat();
    const char *newline = memchr(row->next, '\n', (size_t)(row->end - row->next));
    row->at = row->next;
    row->size = (size_t)((newline ? newline : row->end) - row->at);
    row->next = newline ? newline + 1 : row->end;
    return true;
}

size_t row_count(const char *bytes, size_t size) {
    size_t n = 0;
    struct row row = row_first(bytes, size);
    while (row_next(&row))
        n++;
    return n;
}

bool row_decimal(const char *bytes, size_t size, uint32_t max, uint32_t *out) {
    uint64_t value = 0;
    if (size == 0 || size > 10 || (size > 1 && bytes[0] == '0'))
        return false;
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] < '0' || bytes[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(bytes[i] - '0');
    }
    if (value > max)
        return false;
    *out = (uint32_t)value;
    return true;
}

const char *row_show(char out[ROW_SHOW], const char *bytes, size_t size) {
    const size_t most = 40;
    size_t n = 0;
    out[n++] = '"';
    for (size_t i = 0; i < size && i < most; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        if (byte >= 0x20 && byte < 0x7f)
            out[n++] = (char)byte;
        else
            n += (size_t)snprintf(out + n, 5, "\\x%02x", byte);
    }
    snprintf(out + n, ROW_SHOW - n, "\"%s", size > most ? " (cut)" : "");
    return out;
}
