// SPDX-License-Identifier: Apache-2.0
// The first byte says what separates fields; the rest is the file. What was read is written with every field in quotes
// and read again: the same fields, which lie in the order of the input and are never longer than it.
#include "base/text.h"
#include "data/csv.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void field_write(struct text *out, const struct csv_field *field) {
    text_puts(out, "\"");
    for (size_t i = 0; i < field->size; i++)
        text_add(out, field->at[i] == '"' ? "\"\"" : field->at + i, field->at[i] == '"' ? 2 : 1);
    text_puts(out, "\"");
}

// All of it as strict CSV; the number of fields.
static size_t file_write(struct text *out, const char *bytes, size_t size, char separator, char out_separator) {
    struct csv csv;
    bool end = false;
    size_t fields = 0, last = 0;
    csv_init(&csv, "fuzz", separator, bytes, size);
    while (csv_next(&csv, &end) == STATUS_OK && !end) {
        if (csv.n == 0 || csv.line <= last)
            abort();
        last = csv.line;
        for (size_t i = 0; i < csv.n; i++, fields++) {
            text_add(out, &out_separator, i > 0);
            field_write(out, &csv.fields[i]);
        }
        text_puts(out, "\n");
    }
    csv_release(&csv);
    return fields;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct text once = {0}, twice = {0};
    if (size == 0)
        return 0;
    char separator = data[0] & 1 ? ',' : '\t';
    size_t fields = file_write(&once, (const char *)data + 1, size - 1, separator, ',');
    if (file_write(&twice, once.at, once.size, ',', ',') != fields || once.size != twice.size)
        abort();
    if (once.size && memcmp(once.at, twice.at, once.size) != 0)
        abort();
    text_release(&once);
    text_release(&twice);
    return 0;
}
