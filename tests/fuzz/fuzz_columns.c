// SPDX-License-Identifier: Apache-2.0
// A file of columns as a source: the first byte says the format and whether there are pairs, the rest is the file. Rows
// are UTF-8, their labels ids, their texts inside the input or the source's storage; written as JSON Lines and read
// again they are the same.
#include "base/text.h"
#include "data/columns.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void row_check(const struct example *row) {
    if (row->label < -1 || row->label > 1 || row->line == 0)
        abort();
    if (utf8_check(row->text, row->text_size) != row->text_size)
        abort();
    if (row->pair && utf8_check(row->pair, row->pair_size) != row->pair_size)
        abort();
}

static void row_write(struct text *out, const struct example *row, const struct labels *labels) {
    json_t *object = json_object();
    json_object_set_new(object, "text", json_stringn(row->text, row->text_size));
    if (row->pair)
        json_object_set_new(object, "pair", json_stringn(row->pair, row->pair_size));
    if (row->label >= 0)
        json_object_set_new(object, "label", json_string(labels->names[row->label]));
    char *line = json_dumps(object, JSON_COMPACT);
    text_puts(out, line ? line : "");
    text_puts(out, "\n");
    free(line);
    json_decref(object);
}

static void again(const struct source *source, const struct source_columns *columns, const struct labels *labels) {
    struct text text = {0};
    struct source read = {0};
    for (size_t i = 0; i < source->n; i++) {
        row_check(&source->rows[i]);
        row_write(&text, &source->rows[i], labels);
    }
    if (columns_parse(&read, SOURCE_JSONL, columns, "again", text.at, text.size, labels, false) != STATUS_OK)
        abort();
    if (read.n != source->n)
        abort();
    for (size_t i = 0; i < read.n; i++) {
        const struct example *a = &source->rows[i], *b = &read.rows[i];
        if (a->label != b->label || a->text_size != b->text_size || a->pair_size != b->pair_size ||
            !a->pair != !b->pair)
            abort();
        if (memcmp(a->text, b->text, a->text_size) != 0 || (a->pair && memcmp(a->pair, b->pair, a->pair_size) != 0))
            abort();
    }
    source_close(&read);
    text_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const enum source_format formats[] = {SOURCE_JSONL, SOURCE_CSV, SOURCE_TSV, SOURCE_JSONL};
    char joy[] = "joy", sad[] = "sad", *names[] = {joy, sad};
    struct labels labels = {names, 2};
    struct source source = {0};
    if (size == 0)
        return 0;
    struct source_columns columns = {"text", data[0] & 4 ? "pair" : NULL, "label", false};
    if (columns_parse(&source, formats[data[0] & 3], &columns, "fuzz", (const char *)data + 1, size - 1, &labels,
                      data[0] & 8) == STATUS_OK)
        again(&source, &columns, &labels);
    source_close(&source);
    return 0;
}
