// SPDX-License-Identifier: Apache-2.0
#include "data/columns.h"

#include "base/log.h"
#include "base/text.h"
#include "data/label_index.h"
#include "data/records.h"
#include "data/row.h"
#include "data/source_parts.h"
#include "data/tweet_eval.h"

#include <stdlib.h>
#include <string.h>

static const char *const endings[] = {[SOURCE_CSV] = "csv", [SOURCE_TSV] = "tsv", [SOURCE_JSONL] = "jsonl"};

static char *split_path(const struct source_spec *spec, enum source_split split) {
    return text_format("%s/%s.%s", spec->dir, split_names[split], endings[spec->format]);
}

bool columns_has(const struct source_spec *spec, enum source_split split) {
    char *path = split_path(spec, split);
    bool has = path && file_named(path); // a link that leads nowhere is refused when it is read
    free(path);
    return has;
}

// "; the folder has validation.csv mapping.txt", up to some of them.
static void folder_add(struct text *out, const char *dir) {
    char **names = NULL;
    size_t n = 0;
    if (file_list(&names, &n, dir) != STATUS_OK)
        return;
    text_puts(out, n ? "; the folder has" : "; the folder is empty");
    for (size_t i = 0; i < n && i < 12; i++)
        text_printf(out, " %.60s", names[i]);
    text_puts(out, n > 12 ? " …" : "");
    file_list_free(names, n);
}

static enum status split_missing(const struct source_spec *spec, enum source_split split) {
    struct text hint = {0};
    char *below = text_format("%s/%s", spec->dir, spec->task ? spec->task : "");
    struct source_spec inner = {.format = spec->format, .dir = below};
    if (!file_is_folder(spec->dir))
        text_puts(&hint, ": no such folder");
    else if (below && columns_has(&inner, split))
        text_printf(&hint, ": the %s split is missing; did you mean data.dir %s?", split_names[split], below);
    else {
        text_printf(&hint, ": the %s split is missing: there is no %s.%s", split_names[split], split_names[split],
                    endings[spec->format]);
        folder_add(&hint, spec->dir);
    }
    enum status status = status_set(STATUS_DATA, "data.dir: %s%s", spec->dir, hint.failed || !hint.at ? "" : hint.at);
    text_release(&hint);
    free(below);
    return status;
}

// ---- rows

// The label's id; -1 if the record has none.
static enum status label_of(int32_t *out, const struct label_index *index, const struct records *records,
                            const struct record *record) {
    char show[ROW_SHOW], value[LABELS_NAME_MAX + 1];
    *out = -1;
    if (record->label.size == 0)
        return STATUS_OK;
    *out = label_index_find(index, record->label.at, record->label.size);
    if (*out >= 0)
        return STATUS_OK;
    snprintf(value, sizeof value, "%.*s", (int)(record->label.size < LABELS_NAME_MAX ? record->label.size : 0),
             record->label.at);
    const char *near = text_nearest(value, (const char *const *)index->labels.names, index->labels.n);
    struct text known = {0};
    for (uint32_t i = 0; i < index->labels.n && i < 12; i++)
        text_printf(&known, " %.40s", index->labels.names[i]);
    enum status status = status_set(
        STATUS_DATA, "%s:%zu: label %s is not one of the %u labels:%s%s%s%s%s", records->path, record->line,
        row_show(show, record->label.at, record->label.size), index->labels.n, known.failed ? "" : text_string(&known),
        index->labels.n > 12 ? " …" : "", near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    text_release(&known);
    return status;
}

static enum status row_add(struct source *out, size_t *room, const struct record *record, int32_t label,
                           const char *path) {
    if (out->n == *room) {
        size_t more = *room ? *room : 256;
        TRY(source_grow(out, more));
        *room += more;
    }
    out->rows[out->n++] = (struct example){.text = record->text.at,
                                           .text_size = record->text.size,
                                           .pair = record->pair.at,
                                           .pair_size = record->pair.size,
                                           .label = label,
                                           .file = path,
                                           .line = (uint32_t)record->line};
    return STATUS_OK;
}

enum status columns_parse(struct source *out, enum source_format format, const struct source_columns *columns,
                          const char *path, const char *bytes, size_t size, const struct labels *labels, bool ids) {
    struct source_columns wanted = *columns;
    struct label_index index = {0};
    struct records records = {0};
    struct record record;
    size_t room = out->n;
    bool end = false;
    enum status status;
    if (!labels)
        wanted.label = NULL;
    TRY_GOTO(label_index_open(&index, labels), done);
    index.names_only = index.names_only || !ids;
    TRY_GOTO(records_open(&records, format, &wanted, path, bytes, size), done);
    for (;;) {
        int32_t label;
        TRY_GOTO(records_next(&records, &record, &end), done);
        if (end)
            break;
        TRY_GOTO(label_of(&label, &index, &records, &record), done);
        TRY_GOTO(row_add(out, &room, &record, label, path), done);
    }
done:
    out->storage = records_take(&records);
    records_close(&records);
    label_index_close(&index);
    return status;
}

static enum status file_parse(struct source *out, const char *name, enum source_format format,
                              const struct source_columns *columns, char *path, const struct labels *labels, bool ids) {
    const struct file_map *map = NULL;
    enum status status = source_init(out, name, 1);
    if (status != STATUS_OK) {
        free(path);
        return status;
    }
    TRY(source_hold(out, path, &map));
    return columns_parse(out, format, columns, out->paths[0], map->at, map->size, labels, ids);
}

enum status columns_read_file(struct source *out, enum source_format format, const struct source_columns *columns,
                              const char *path, const struct labels *labels) {
    return file_parse(out, "file", format, columns, strdup(path), labels, true);
}

enum status columns_read(struct source *out, const struct source_spec *spec, enum source_split split,
                         const struct labels *labels) {
    const char *task = spec->task ? spec->task : endings[spec->format];
    if (!tweet_eval_task_plain(task))
        return status_set(STATUS_USAGE, "data.task \"%s\": not a name", task);
    if (!columns_has(spec, split))
        return split_missing(spec, split);
    char *mapping = path_join(spec->dir, "mapping.txt");
    enum status status = mapping ? file_parse(out, task, spec->format, &spec->columns, split_path(spec, split), labels,
                                              file_named(mapping))
                                 : status_set(STATUS_SYSTEM, "data: no memory");
    free(mapping);
    TRY(status);
    if (out->n == 0)
        return status_set(STATUS_DATA, "%s: the %s split has no rows", out->paths[0], split_names[split]);
    return STATUS_OK;
}

// ---- labels

#define ROWS_FEW 20 // too few rows to judge their labels by number

// What the values in train say about the column.
static enum status labels_judge(const struct labels *labels, size_t rows, const char *path, const char *column) {
    if (labels->n == 0)
        return status_set(STATUS_DATA, "%s: no row has a label in \"%.80s\" (data.columns.label)", path, column);
    if (labels->n == 1)
        return status_set(STATUS_DATA,
                          "%s: all rows have the same label, \"%.80s\": there is nothing to tell apart; is \"%.80s\" "
                          "the right column (data.columns.label)?",
                          path, labels->names[0], column);
    if (labels->n == rows && rows > ROWS_FEW)
        return status_set(STATUS_DATA,
                          "%s: each of the %zu rows has a label of its own: \"%.80s\" is not a column of classes; set "
                          "data.columns.label",
                          path, rows, column);
    if (labels->n > rows / 2 && rows > ROWS_FEW)
        log_warn("data: %s: %u different labels in %zu rows: is \"%.80s\" a column of classes?", path, labels->n, rows,
                 column);
    return STATUS_OK;
}

// The different labels of a file, sorted.
static enum status labels_collect(struct labels *out, const struct source_spec *spec, const char *path,
                                  const struct file_map *map) {
    struct source_columns columns = spec->columns;
    struct label_index index = {0};
    struct records records = {0};
    struct record record;
    size_t rows = 0;
    bool end = false;
    enum status status;
    columns.label = columns.label ? columns.label : "label";
    columns.label_must = true;
    TRY_GOTO(label_index_open(&index, NULL), done);
    TRY_GOTO(records_open(&records, spec->format, &columns, path, map->at, map->size), done);
    for (;;) {
        TRY_GOTO(records_next(&records, &record, &end), done);
        if (end)
            break;
        if (record.label.size == 0)
            continue;
        status = label_index_add(&index, record.label.at, record.label.size);
        if (status != STATUS_OK) {
            char show[ROW_SHOW];
            status = status_add(status, "%s:%zu: label %s", path, record.line,
                                row_show(show, record.label.at, record.label.size));
            goto done;
        }
        rows++;
    }
    label_index_sorted(&index, out);
    status = labels_judge(out, rows, path, columns.label);
done:
    records_close(&records);
    label_index_close(&index);
    return status;
}

static enum status labels_of_train(struct labels *out, const struct source_spec *spec) {
    struct file_map map;
    if (!columns_has(spec, SPLIT_TRAIN))
        return split_missing(spec, SPLIT_TRAIN);
    char *path = split_path(spec, SPLIT_TRAIN);
    enum status status = path ? file_map_open(&map, path) : status_set(STATUS_SYSTEM, "data: no memory");
    if (status == STATUS_OK) {
        status = labels_collect(out, spec, path, &map);
        file_map_close(&map);
    }
    if (status != STATUS_OK)
        labels_release(out);
    free(path);
    return status;
}

enum status columns_labels(struct labels *out, const struct source_spec *spec) {
    char *path = path_join(spec->dir, "mapping.txt");
    enum status status;
    if (!path)
        return status_set(STATUS_SYSTEM, "data: no memory");
    status = file_named(path) ? labels_read(out, path) : labels_of_train(out, spec);
    free(path);
    return status;
}
