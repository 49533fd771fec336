// SPDX-License-Identifier: Apache-2.0
#include "data/labels.h"

#include "base/file.h"
#include "base/text.h"
#include "data/row.h"

#include <stdlib.h>
#include <string.h>

void labels_release(struct labels *labels) {
    for (uint32_t i = 0; i < labels->n; i++)
        free(labels->names[i]);
    free(labels->names);
    *labels = (struct labels){0};
}

int32_t labels_find(const struct labels *labels, const char *name) {
    for (uint32_t i = 0; i < labels->n; i++)
        if (strcmp(labels->names[i], name) == 0)
            return (int32_t)i;
    return -1;
}

bool labels_equal(const struct labels *a, const struct labels *b) {
    if (a->n != b->n)
        return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (strcmp(a->names[i], b->names[i]) != 0)
            return false;
    return true;
}

enum status labels_add(struct labels *labels, const char *name) {
    if (labels_find(labels, name) >= 0)
        return status_set(STATUS_DATA, "labels: \"%s\" occurs twice", name);
    if (labels->n >= LABELS_MAX)
        return status_set(STATUS_DATA, "labels: more than %d", LABELS_MAX);
    char **grown = realloc(labels->names, ((size_t)labels->n + 1) * sizeof *grown);
    if (!grown)
        return status_set(STATUS_SYSTEM, "labels: no memory");
    labels->names = grown;
    char *copy = strdup(name);
    if (!copy)
        return status_set(STATUS_SYSTEM, "labels: no memory");
    labels->names[labels->n++] = copy;
    return STATUS_OK;
}

enum status labels_read(struct labels *out, const char *path) {
    char *bytes;
    size_t size;
    *out = (struct labels){0};
    TRY(file_read(&bytes, &size, path, LABELS_FILE_MAX));
    enum status status = labels_parse(out, path, bytes, size);
    free(bytes);
    return status;
}

// The second column of a row: [begin, begin + size).
static enum status name_check(const char *path, size_t line, const struct row *row, const char **begin, size_t *size) {
    char show[ROW_SHOW];
    const char *tab = memchr(row->at, '\t', row->size);
    if (!tab)
        return status_set(STATUS_DATA, "%s:%zu: %s is not a line \"id<TAB>name\"", path, line,
                          row_show(show, row->at, row->size));
    const char *end = row->at + row->size;
    const char *next = memchr(tab + 1, '\t', (size_t)(end - tab - 1));
    *begin = tab + 1;
    *size = (size_t)((next ? next : end) - *begin);
    if (*size == 0)
        return status_set(STATUS_DATA, "%s:%zu: the label's name is empty", path, line);
    if (*size > LABELS_NAME_MAX || memchr(*begin, '\0', *size))
        return status_set(STATUS_DATA, "%s:%zu: the label's name is longer than %d bytes or holds a NUL", path, line,
                          LABELS_NAME_MAX);
    return STATUS_OK;
}

static enum status mapping_add(struct labels *out, const char *path, size_t line, const struct row *row) {
    char show[ROW_SHOW];
    const char *name = NULL;
    size_t size = 0;
    uint32_t id;
    if (row->size && row->at[row->size - 1] == '\r')
        return status_set(STATUS_DATA, "%s:%zu: the line ends in CRLF (\\r\\n); write the file with \\n alone", path,
                          line);
    TRY(name_check(path, line, row, &name, &size));
    if (!row_decimal(row->at, (size_t)(name - 1 - row->at), out->n - 1, &id))
        return status_set(STATUS_DATA, "%s:%zu: the label's id is %s; the %u labels have the ids 0 to %u", path, line,
                          row_show(show, row->at, (size_t)(name - 1 - row->at)), out->n, out->n - 1);
    if (out->names[id])
        return status_set(STATUS_DATA, "%s:%zu: id %u occurs twice", path, line, id);
    if (!(out->names[id] = strndup(name, size)))
        return status_set(STATUS_SYSTEM, "%s: no memory", path);
    return STATUS_OK;
}

static int name_compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Every id has its name by now: as many rows as ids, none twice.
static enum status names_differ(const struct labels *labels, const char *path) {
    char **sorted = malloc(labels->n * sizeof *sorted);
    if (!sorted)
        return status_set(STATUS_SYSTEM, "%s: no memory", path);
    memcpy(sorted, labels->names, labels->n * sizeof *sorted);
    qsort(sorted, labels->n, sizeof *sorted, name_compare);
    enum status status = STATUS_OK;
    for (uint32_t i = 1; i < labels->n && status == STATUS_OK; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0) {
            char show[ROW_SHOW];
            status = status_set(STATUS_DATA, "%s: the name %s occurs twice", path,
                                row_show(show, sorted[i], strlen(sorted[i])));
        }
    free(sorted);
    return status;
}

enum status labels_parse(struct labels *out, const char *path, const char *bytes, size_t size) {
    *out = (struct labels){0};
    while (size > 1 && bytes[size - 1] == '\n' && bytes[size - 2] == '\n')
        size--;
    size_t bad = utf8_check(bytes, size), rows = row_count(bytes, size), line = 0;
    if (bad < size) {
        for (size_t i = 0; i < bad; i++)
            line += bytes[i] == '\n';
        return status_set(STATUS_DATA, "%s:%zu: invalid UTF-8 at byte %zu (0x%02x) of the file", path, line + 1, bad,
                          (unsigned char)bytes[bad]);
    }
    if (rows == 0 || rows > LABELS_MAX)
        return status_set(STATUS_DATA, "%s: %zu labels; a mapping has 1 to %d", path, rows, LABELS_MAX);
    if (!(out->names = calloc(rows, sizeof *out->names)))
        return status_set(STATUS_SYSTEM, "%s: no memory", path);
    out->n = (uint32_t)rows;
    enum status status = STATUS_OK;
    struct row row = row_first(bytes, size);
    while (status == STATUS_OK && row_next(&row))
        status = mapping_add(out, path, ++line, &row);
    if (status == STATUS_OK)
        status = names_differ(out, path);
    if (status != STATUS_OK)
        labels_release(out);
    return status;
}
