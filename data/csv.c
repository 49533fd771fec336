// SPDX-License-Identifier: Apache-2.0
// One pass, a field at a time. Fields point into the input; only those with doubled quotes are copied.
#include "data/csv.h"

#include "base/pulse.h"
#include "data/row.h"

#include <stdlib.h>
#include <string.h>

void csv_init(struct csv *out, const char *path, char separator, const char *bytes, size_t size) {
    *out = (struct csv){.path = path, .at = bytes, .end = size ? bytes + size : bytes, .separator = separator};
    out->line_at = 1;
    if (size >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0)
        out->at += 3;
}

void csv_release(struct csv *csv) {
    free(csv->fields);
    free(csv->storage);
    *csv = (struct csv){0};
}

// The field from `begin` on is not what the grammar says.
static enum status field_refuse(const struct csv *csv, const char *begin, const char *what) {
    char show[ROW_SHOW];
    size_t left = (size_t)(csv->end - begin), size = 0;
    while (size < left && begin[size] != '\n')
        size++;
    return status_set(STATUS_DATA, "%s:%zu: field %zu, %s: %s", csv->path, csv->line, csv->n + 1,
                      row_show(show, begin, size), what);
}

static enum status field_add(struct csv *csv, const char *at, size_t size) {
    if (csv->n == csv->room) {
        size_t room = csv->room ? 2 * csv->room : 16;
        struct csv_field *grown = realloc(csv->fields, room * sizeof *grown);
        if (!grown)
            return status_set(STATUS_SYSTEM, "%s: no memory for %zu fields", csv->path, room);
        csv->fields = grown;
        csv->room = room;
    }
    csv->fields[csv->n++] = (struct csv_field){at, size};
    return STATUS_OK;
}

// At the end of the input, of the line or of a field: CRLF counts only as a whole.
static bool field_ends(const struct csv *csv, const char *at) {
    return at == csv->end || *at == csv->separator || *at == '\n' ||
           (*at == '\r' && csv->end - at > 1 && at[1] == '\n');
}

static enum status field_plain(struct csv *csv) {
    const char *begin = csv->at, *at = begin;
    for (; !field_ends(csv, at); at++) {
        if (*at == '\r')
            return field_refuse(csv, begin,
                                "a carriage return without a newline; lines end in \\n or \\r\\n, and a text that "
                                "holds one must stand in double quotes");
        if (*at == '"' && csv->separator == ',')
            return field_refuse(csv, begin,
                                "a double quote in a field that does not begin with one; put the field in double "
                                "quotes and double those inside it");
    }
    csv->at = at;
    return field_add(csv, begin, (size_t)(at - begin));
}

// Copies [begin, end) with "" as ".
static enum status field_undouble(struct csv *csv, const char *begin, const char *end) {
    if (!csv->storage && !(csv->storage = malloc((size_t)(csv->end - begin))))
        return status_set(STATUS_SYSTEM, "%s: no memory for %zu bytes", csv->path, (size_t)(csv->end - begin));
    char *to = csv->storage + csv->used, *at = to;
    while (begin < end) {
        const char *quote = memchr(begin, '"', (size_t)(end - begin));
        size_t size = (size_t)((quote ? quote + 1 : end) - begin);
        memcpy(at, begin, size);
        at += size;
        begin += size + (quote != NULL);
    }
    csv->used += (size_t)(at - to);
    return field_add(csv, to, (size_t)(at - to));
}

// csv->at is behind the opening quote.
static enum status field_quoted(struct csv *csv) {
    const char *begin = csv->at, *at = begin;
    bool doubled = false;
    for (;; at += 2, doubled = true) {
        at = memchr(at, '"', (size_t)(csv->end - at));
        if (!at)
            return field_refuse(csv, begin - 1, "a double quote that is never closed");
        if (csv->end - at == 1 || at[1] != '"')
            break;
    }
    if (!field_ends(csv, at + 1))
        return field_refuse(csv, begin - 1,
                            "text behind the closing double quote; a double quote inside a quoted field is written "
                            "twice");
    for (const char *c = begin; (c = memchr(c, '\n', (size_t)(at - c))); c++)
        csv->line_at++;
    csv->at = at + 1;
    return doubled ? field_undouble(csv, begin, at) : field_add(csv, begin, (size_t)(at - begin));
}

// A line end at csv->at, if there is one.
static bool line_end(struct csv *csv) {
    if (csv->at == csv->end || (*csv->at != '\n' && *csv->at != '\r') || !field_ends(csv, csv->at))
        return false;
    csv->at += *csv->at == '\r' ? 2 : 1;
    csv->line_at++;
    return true;
}

enum status csv_next(struct csv *csv, bool *end) {
    while (line_end(csv))
        ;
    pulse_beat();
    csv->n = 0;
    csv->line = csv->line_at;
    *end = csv->at == csv->end;
    if (*end)
        return STATUS_OK;
    for (;;) {
        bool quoted = csv->at < csv->end && *csv->at == '"';
        csv->at += quoted;
        TRY(quoted ? field_quoted(csv) : field_plain(csv));
        if (csv->at == csv->end || line_end(csv))
            return STATUS_OK;
        csv->at++; // the separator
    }
}
