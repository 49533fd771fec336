// SPDX-License-Identifier: Apache-2.0
// A text file and its label file: the input up to the first byte 0xfe is text, what is behind it labels. What is taken
// covers the text's bytes exactly: rows joined by newlines are the file.
#include "data/source.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void rows_check(const struct source *source, const char *text, size_t size) {
    const char *at = text, *end = text + size;
    for (size_t i = 0; i < source->n; i++) {
        const struct example *row = &source->rows[i];
        if (row->text != at || row->text_size > (size_t)(end - at) || memchr(row->text, '\n', row->text_size))
            abort();
        if (row->label < 0 || row->label > 2 || row->line != i + 1)
            abort();
        at += row->text_size;
        if (at < end && *at++ != '\n')
            abort();
    }
    if (at != end)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *cut = size ? memchr(data, 0xfe, size) : NULL;
    size_t text_size = cut ? (size_t)(cut - data) : size;
    const char *text = (const char *)data, *ids = cut ? (const char *)cut + 1 : NULL;
    struct source source = {0};
    if (source_parse(&source, "text", text, text_size, "labels", ids, cut ? size - text_size - 1 : 0, 3) == STATUS_OK)
        rows_check(&source, text, text_size);
    source_close(&source);
    return 0;
}
