// SPDX-License-Identifier: Apache-2.0
#include "data/records.h"

#include "base/text.h"
#include "data/row.h"
#include "data/source_parts.h"

#include <stdlib.h>
#include <string.h>

static const char *const column_keys[COLUMNS] = {"data.columns.text", "data.columns.pair", "data.columns.label"};

// "<path>[:<line>]: there is no column "x" (data.columns.text); the columns are a b c; did you mean b?"
static enum status column_missing(const struct records *records, size_t line, int column, const char *const *names,
                                  size_t n) {
    struct text out = {0};
    char show[ROW_SHOW];
    const char *near = text_nearest(records->names[column], names, n);
    text_puts(&out, records->path);
    if (line)
        text_printf(&out, ":%zu", line);
    text_printf(&out, ": there is no %s \"%.80s\" (%s); there %s", line ? "key" : "column", records->names[column],
                column_keys[column], n == 1 ? "is" : "are");
    for (size_t i = 0; i < n && i < 20; i++)
        text_printf(&out, " %s", row_show(show, names[i], strlen(names[i])));
    if (n == 1 && !line && strpbrk(names[0], ";\t|"))
        text_puts(&out, "; csv is separated by commas, tsv by tabs");
    else if (near)
        text_printf(&out, "; did you mean %.80s?", near);
    enum status status = status_set(STATUS_DATA, "%s", out.failed ? "no memory" : out.at);
    text_release(&out);
    return status;
}

// ---- csv, tsv

// Which field of the header is the column: SIZE_MAX if none.
static enum status header_find(struct records *records, int column, const char *const *names) {
    const char *wanted = records->names[column];
    records->at[column] = SIZE_MAX;
    for (size_t i = 0; wanted && i < records->n; i++) {
        if (strcmp(names[i], wanted) != 0)
            continue;
        if (records->at[column] != SIZE_MAX)
            return status_set(STATUS_DATA, "%s: two columns are named \"%.80s\" (%s)", records->path, wanted,
                              column_keys[column]);
        records->at[column] = i;
    }
    return wanted && records->must[column] && records->at[column] == SIZE_MAX
               ? column_missing(records, 0, column, names, records->n)
               : STATUS_OK;
}

static enum status header_names(struct records *records) {
    char **names = calloc(records->n, sizeof *names);
    enum status status = names ? STATUS_OK : status_set(STATUS_SYSTEM, "%s: no memory", records->path);
    for (size_t i = 0; status == STATUS_OK && i < records->n; i++)
        if (!(names[i] = strndup(records->csv.fields[i].at, records->csv.fields[i].size)))
            status = status_set(STATUS_SYSTEM, "%s: no memory", records->path);
    for (int column = 0; column < COLUMNS && status == STATUS_OK; column++)
        status = header_find(records, column, (const char *const *)names);
    for (size_t i = 0; names && i < records->n; i++)
        free(names[i]);
    free(names);
    return status;
}

static enum status header_read(struct records *records, const char *bytes, size_t size) {
    bool end;
    csv_init(&records->csv, records->path, records->format == SOURCE_TSV ? '\t' : ',', bytes, size);
    TRY(csv_next(&records->csv, &end));
    if (end)
        return status_set(STATUS_DATA, "%s: the file is empty; its first line is a header with the columns' names",
                          records->path);
    records->n = records->csv.n;
    return header_names(records);
}

static struct cell field_cell(const struct records *records, int column) {
    size_t at = records->at[column];
    return at == SIZE_MAX ? (struct cell){0} : (struct cell){records->csv.fields[at].at, records->csv.fields[at].size};
}

static enum status csv_record(struct records *records, struct record *out, bool *end) {
    struct csv *csv = &records->csv;
    TRY(csv_next(csv, end));
    if (*end)
        return STATUS_OK;
    if (csv->n != records->n) {
        char show[ROW_SHOW];
        return status_set(STATUS_DATA,
                          "%s:%zu: %zu field%s, but the header has %zu (the last is %s); a field that holds a %s, a "
                          "newline or begins with a double quote must stand in double quotes",
                          records->path, csv->line, csv->n, csv->n == 1 ? "" : "s", records->n,
                          row_show(show, csv->fields[csv->n - 1].at, csv->fields[csv->n - 1].size),
                          csv->separator == ',' ? "comma" : "tab");
    }
    *out = (struct record){field_cell(records, COLUMN_TEXT), field_cell(records, COLUMN_PAIR),
                           field_cell(records, COLUMN_LABEL), csv->line};
    return STATUS_OK;
}

// ---- jsonl

// Values live as long as `storage`, which has room for the whole file: no value is longer than its JSON.
static struct cell value_keep(struct records *records, const char *at, size_t size) {
    char *to = records->storage + records->used;
    memcpy(to, at, size);
    records->used += size;
    return (struct cell){to, size};
}

static enum status value_refuse(const struct records *records, int column, const json_t *value, const char *allowed) {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    char show[ROW_SHOW];
    enum status status =
        status_set(STATUS_DATA, "%s:%zu: \"%.80s\" is %s, must be %s", records->path, records->jsonl.line,
                   records->names[column], text ? row_show(show, text, strlen(text)) : "too large", allowed);
    free(text);
    return status;
}

static enum status key_missing(const struct records *records, int column) {
    const char *names[20], *key;
    size_t n = 0;
    json_t *value;
    json_object_foreach(records->jsonl.object, key, value) {
        if (n < sizeof names / sizeof *names)
            names[n++] = key;
    }
    return column_missing(records, records->jsonl.line, column, names, n);
}

static enum status value_text(struct records *records, int column, struct cell *out) {
    const json_t *value = json_object_get(records->jsonl.object, records->names[column]);
    *out = (struct cell){0};
    if (!records->names[column])
        return STATUS_OK;
    if (!value)
        return records->must[column] ? key_missing(records, column) : STATUS_OK;
    if (column == COLUMN_LABEL && json_is_null(value))
        return STATUS_OK;
    if (column == COLUMN_LABEL && json_is_integer(value)) {
        char digits[32];
        int size = snprintf(digits, sizeof digits, "%lld", (long long)json_integer_value(value));
        *out = value_keep(records, digits, (size_t)size);
        return STATUS_OK;
    }
    if (!json_is_string(value))
        return value_refuse(records, column, value,
                            column == COLUMN_LABEL ? "a string, an integer or null" : "a string");
    *out = value_keep(records, json_string_value(value), json_string_length(value));
    return STATUS_OK;
}

static enum status jsonl_record(struct records *records, struct record *out, bool *end) {
    TRY(jsonl_next(&records->jsonl, end));
    if (*end)
        return STATUS_OK;
    out->line = records->jsonl.line;
    TRY(value_text(records, COLUMN_TEXT, &out->text));
    TRY(value_text(records, COLUMN_PAIR, &out->pair));
    return value_text(records, COLUMN_LABEL, &out->label);
}

// ---- both

// A text that is its own label would be learned by heart.
static enum status names_differ(const struct records *records) {
    for (int a = 0; a < COLUMNS; a++)
        for (int b = a + 1; b < COLUMNS; b++)
            if (records->names[a] && records->names[b] && strcmp(records->names[a], records->names[b]) == 0)
                return status_set(STATUS_USAGE, "%s and %s both name the column \"%.80s\"", column_keys[a],
                                  column_keys[b], records->names[a]);
    return STATUS_OK;
}

enum status records_open(struct records *out, enum source_format format, const struct source_columns *columns,
                         const char *path, const char *bytes, size_t size) {
    *out = (struct records){.format = format,
                            .path = path,
                            .names = {columns->text ? columns->text : "text", columns->pair, columns->label},
                            .must = {true, true, columns->label_must}};
    TRY(names_differ(out));
    TRY(source_check_utf8(path, bytes, size));
    if (format != SOURCE_JSONL)
        return header_read(out, bytes, size);
    jsonl_init(&out->jsonl, path, bytes, size);
    out->storage = malloc(size ? size : 1);
    return out->storage ? STATUS_OK : status_set(STATUS_SYSTEM, "%s: no memory for %zu bytes", path, size);
}

void records_close(struct records *records) {
    csv_release(&records->csv);
    jsonl_release(&records->jsonl);
    free(records->storage);
    *records = (struct records){0};
}

char *records_take(struct records *records) {
    char **storage = records->format == SOURCE_JSONL ? &records->storage : &records->csv.storage, *taken = *storage;
    *storage = NULL;
    return taken;
}

static enum status size_check(const struct records *records, int column, const struct record *record,
                              const struct cell *cell) {
    if (cell->size <= SOURCE_TEXT_MAX)
        return STATUS_OK;
    return status_set(STATUS_DATA, "%s:%zu: \"%.80s\" has %zu bytes; %zu are the most", records->path, record->line,
                      records->names[column], cell->size, SOURCE_TEXT_MAX);
}

enum status records_next(struct records *records, struct record *out, bool *end) {
    *out = (struct record){0};
    TRY(records->format == SOURCE_JSONL ? jsonl_record(records, out, end) : csv_record(records, out, end));
    if (*end)
        return STATUS_OK;
    TRY(size_check(records, COLUMN_TEXT, out, &out->text));
    return size_check(records, COLUMN_PAIR, out, &out->pair);
}
