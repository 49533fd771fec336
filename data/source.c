// SPDX-License-Identifier: Apache-2.0
#include "data/source.h"

#include "base/file.h"
#include "base/text.h"
#include "data/columns.h"
#include "data/row.h"
#include "data/source_parts.h"
#include "data/squad.h"
#include "data/tweet_eval.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *const split_names[SPLITS] = {"train", "val", "test"};

static enum status format_unknown(enum source_format format) {
    return status_set(STATUS_ARGUMENT, "data.format: no such format (%d)", (int)format);
}

enum status source_labels(struct labels *out, const struct source_spec *spec) {
    *out = (struct labels){0};
    switch (spec->format) {
    case SOURCE_TWEET_EVAL:
        return tweet_eval_labels(out, spec->dir, spec->task);
    case SOURCE_CSV:
    case SOURCE_TSV:
    case SOURCE_JSONL:
        return columns_labels(out, spec);
    case SOURCE_SQUAD:
        return STATUS_OK; // answers, not labels
    }
    return format_unknown(spec->format);
}

static bool folders_have(const struct source_spec *spec, enum source_split split) {
    struct tweet_eval_folders folders;
    if (tweet_eval_folders_find(&folders, spec->dir, spec->task) != STATUS_OK)
        return false;
    bool has = true;
    for (size_t i = 0; i < folders.n; i++)
        has = has && tweet_eval_has(folders.at[i], split);
    tweet_eval_folders_release(&folders);
    return has;
}

bool source_has(const struct source_spec *spec, enum source_split split) {
    switch (spec->format) {
    case SOURCE_TWEET_EVAL:
        return folders_have(spec, split);
    case SOURCE_CSV:
    case SOURCE_TSV:
    case SOURCE_JSONL:
        return columns_has(spec, split);
    case SOURCE_SQUAD:
        return squad_has(spec->dir, split);
    }
    return false;
}

enum status source_check_utf8(const char *path, const char *bytes, size_t size) {
    size_t bad = utf8_check(bytes, size), line = 1, start = 0;
    if (bad == size)
        return STATUS_OK;
    if (bad == 0 && size > 1 && (memcmp(bytes, "\xff\xfe", 2) == 0 || memcmp(bytes, "\xfe\xff", 2) == 0))
        return status_set(STATUS_DATA, "%s:1: invalid UTF-8: the file is UTF-16; save it as UTF-8", path);
    for (size_t i = 0; i < bad; i++)
        if (bytes[i] == '\n') {
            line++;
            start = i + 1;
        }
    return status_set(STATUS_DATA, "%s:%zu: invalid UTF-8: byte 0x%02x in column %zu (bytes, from 1)", path, line,
                      (unsigned char)bytes[bad], bad - start + 1);
}

static enum status text_check(const char *path, const char *text, size_t size) {
    size_t line = 0;
    struct row row = row_first(text, size);
    TRY(source_check_utf8(path, text, size));
    while (row_next(&row)) {
        line++;
        if (row.size > SOURCE_TEXT_MAX)
            return status_set(STATUS_DATA, "%s:%zu: a text of %zu bytes; %zu are the most", path, line, row.size,
                              SOURCE_TEXT_MAX);
    }
    if (line > SOURCE_ROWS_MAX)
        return status_set(STATUS_DATA, "%s: %zu rows; %u are the most", path, line, SOURCE_ROWS_MAX);
    return STATUS_OK;
}

static enum status label_refuse(const char *path, size_t line, const struct row *row, uint32_t n_labels) {
    char show[ROW_SHOW];
    row_show(show, row->at, row->size);
    if (row->size && row->at[row->size - 1] == '\r')
        return status_set(STATUS_DATA,
                          "%s:%zu: label %s: the line ends in CRLF (\\r\\n); write the file with \\n alone", path, line,
                          show);
    return status_set(STATUS_DATA,
                      "%s:%zu: label %s is not one of the mapping's %u ids, 0 to %u, written in plain digits", path,
                      line, show, n_labels, n_labels - 1);
}

static enum status label_next(struct row *row, size_t *line, const char *path, uint32_t n_labels, int32_t *out) {
    uint32_t id;
    row_next(row);
    ++*line;
    if (!row_decimal(row->at, row->size, n_labels - 1, &id))
        return label_refuse(path, *line, row, n_labels);
    *out = (int32_t)id;
    return STATUS_OK;
}

// Both counts, and the usual reason: a blank row at the end of one of them.
static enum status lengths_differ(const char *text_path, size_t texts, const char *label_path, size_t ids,
                                  const char *bytes, size_t size) {
    bool blank = size > 1 && bytes[size - 1] == '\n' && bytes[size - 2] == '\n';
    return status_set(STATUS_DATA, "%s has %zu rows, %s has %zu: each text needs one label%s", text_path, texts,
                      label_path, ids, blank ? " (the last row of labels is blank)" : "");
}

enum status source_grow(struct source *out, size_t more) {
    if (more > SOURCE_ROWS_MAX - out->n)
        return status_set(STATUS_DATA, "more than %u rows in a split", SOURCE_ROWS_MAX);
    struct example *grown = realloc(out->rows, (out->n + more) * sizeof *grown);
    if (!grown && out->n + more > 0)
        return status_set(STATUS_SYSTEM, "no memory for %zu examples", out->n + more);
    out->rows = grown;
    return STATUS_OK;
}

enum status source_parse(struct source *out, const char *text_path, const char *text, size_t text_size,
                         const char *label_path, const char *ids, size_t ids_size, uint32_t n_labels) {
    if (n_labels == 0)
        return status_set(STATUS_ARGUMENT, "source: a mapping without labels");
    TRY(text_check(text_path, text, text_size));
    size_t n = row_count(text, text_size), n_ids = row_count(ids, ids_size), line = 0;
    if (n != n_ids)
        return lengths_differ(text_path, n, label_path, n_ids, ids, ids_size);
    if (n == 0)
        return STATUS_OK;
    TRY(source_grow(out, n));
    struct row row = row_first(text, text_size), label = row_first(ids, ids_size);
    for (size_t i = 0; i < n; i++) {
        struct example *example = &out->rows[out->n + i];
        row_next(&row);
        *example = (struct example){.text = row.at, .text_size = row.size, .file = text_path, .line = (uint32_t)i + 1};
        TRY(label_next(&label, &line, label_path, n_labels, &example->label));
    }
    out->n += n;
    return STATUS_OK;
}

enum status source_init(struct source *out, const char *name, size_t files) {
    *out = (struct source){.name = strdup(name)};
    out->maps = calloc(files, sizeof *out->maps);
    out->paths = calloc(files, sizeof *out->paths);
    if (!out->name || !out->maps || !out->paths)
        return status_set(STATUS_SYSTEM, "source: no memory");
    for (char *at = out->name; *at; at++)
        if (*at == '/')
            *at = '-';
    return STATUS_OK;
}

enum status source_hold(struct source *source, char *path, const struct file_map **out) {
    if (!path)
        return status_set(STATUS_SYSTEM, "source: no memory");
    source->paths[source->n_paths++] = path;
    struct file_map *map = &source->maps[source->n_maps];
    TRY(file_map_open(map, path));
    source->n_maps++;
    *out = map;
    return STATUS_OK;
}

static enum status folder_read(struct source *source, const char *folder, enum source_split split, uint32_t n_labels) {
    const struct file_map *text = NULL, *ids = NULL;
    if (!tweet_eval_has(folder, split))
        return tweet_eval_missing(folder, split);
    TRY(source_hold(source, tweet_eval_path(folder, split, "text"), &text));
    const char *text_path = source->paths[source->n_paths - 1];
    TRY(source_hold(source, tweet_eval_path(folder, split, "labels"), &ids));
    return source_parse(source, text_path, text->at, text->size, source->paths[source->n_paths - 1], ids->at, ids->size,
                        n_labels);
}

static enum status folders_read(struct source *source, const struct tweet_eval_folders *folders, const char *task,
                                enum source_split split, uint32_t n_labels) {
    TRY(source_init(source, task, 2 * folders->n));
    for (size_t i = 0; i < folders->n; i++)
        TRY(folder_read(source, folders->at[i], split, n_labels));
    if (source->n == 0)
        return status_set(STATUS_DATA, "%s: the %s split has no rows", source->paths[0], split_names[split]);
    return STATUS_OK;
}

static enum status task_read(struct source *out, const struct source_spec *spec, enum source_split split,
                             const struct labels *labels) {
    struct tweet_eval_folders folders;
    TRY(tweet_eval_folders_find(&folders, spec->dir, spec->task));
    enum status status = folders_read(out, &folders, spec->task, split, labels->n);
    tweet_eval_folders_release(&folders);
    return status;
}

static enum status split_read(struct source *out, const struct source_spec *spec, enum source_split split,
                              const struct labels *labels) {
    switch (spec->format) {
    case SOURCE_TWEET_EVAL:
        return task_read(out, spec, split, labels);
    case SOURCE_CSV:
    case SOURCE_TSV:
    case SOURCE_JSONL:
        return columns_read(out, spec, split, labels);
    case SOURCE_SQUAD:
        return squad_read(out, spec->task, squad_path(spec->dir, split), split == SPLIT_TRAIN);
    }
    return format_unknown(spec->format);
}

enum status source_read(struct source *out, const struct source_spec *spec, enum source_split split,
                        const struct labels *labels) {
    *out = (struct source){0};
    enum status status = split_read(out, spec, split, labels);
    if (status != STATUS_OK)
        source_close(out);
    return status;
}

// Lines of text, all unlabelled.
static enum status lines_read(struct source *out, const char *path) {
    const struct file_map *map = NULL;
    TRY(source_init(out, "file", 1));
    TRY(source_hold(out, strdup(path), &map));
    TRY(text_check(path, map->at, map->size));
    size_t n = row_count(map->at, map->size);
    TRY(source_grow(out, n));
    struct row row = row_first(map->at, map->size);
    for (; out->n < n && row_next(&row); out->n++)
        out->rows[out->n] = (struct example){
            .text = row.at, .text_size = row.size, .label = -1, .file = out->paths[0], .line = (uint32_t)out->n + 1};
    return STATUS_OK;
}

static bool ends_in(const char *path, const char *ending) {
    size_t size = strlen(path), n = strlen(ending);
    return size > n && strcasecmp(path + size - n, ending) == 0;
}

static enum status any_read(struct source *out, const struct source_spec *spec, const char *path,
                            const struct labels *labels) {
    static const char *const endings[] = {
        [SOURCE_CSV] = ".csv", [SOURCE_TSV] = ".tsv", [SOURCE_JSONL] = ".jsonl", [SOURCE_SQUAD] = ".json"};
    enum source_format format = spec->format;
    for (enum source_format by_name = SOURCE_CSV; format == SOURCE_TWEET_EVAL && by_name <= SOURCE_SQUAD; by_name++)
        if (ends_in(path, endings[by_name]))
            format = by_name;
    switch (format) {
    case SOURCE_TWEET_EVAL:
        return lines_read(out, path);
    case SOURCE_CSV:
    case SOURCE_TSV:
    case SOURCE_JSONL:
        return columns_read_file(out, format, &spec->columns, path, labels);
    case SOURCE_SQUAD:
        return squad_read(out, "file", strdup(path), false);
    }
    return format_unknown(format);
}

enum status source_read_file(struct source *out, const struct source_spec *spec, const char *path,
                             const struct labels *labels) {
    *out = (struct source){0};
    enum status status = any_read(out, spec, path, labels);
    if (status != STATUS_OK)
        source_close(out);
    return status;
}

void source_close(struct source *source) {
    for (size_t i = 0; i < source->n_maps; i++)
        file_map_close(&source->maps[i]);
    for (size_t i = 0; i < source->n_paths; i++)
        free(source->paths[i]);
    free(source->maps);
    free(source->paths);
    free(source->rows);
    free(source->storage);
    free(source->name);
    *source = (struct source){0};
}

static void answers_hash(const struct example *example, struct hash_stream *hash) {
    hash_add_string(hash, example->id);
    hash_add(hash, &example->n_answers, sizeof example->n_answers);
    for (uint32_t i = 0; i < example->n_answers; i++) {
        const struct source_answer *answer = &example->answers[i];
        uint64_t head[3] = {answer->begin, answer->end, answer->size};
        hash_add(hash, head, sizeof head);
        hash_add(hash, answer->text, answer->size);
    }
}

void source_hash(const struct source *source, struct hash_stream *hash) {
    uint64_t n = source->n;
    hash_add(hash, &n, sizeof n);
    for (size_t i = 0; i < source->n; i++) {
        const struct example *example = &source->rows[i];
        // Sizes first, so that neighbours can't run into one another; no pair is not an empty pair.
        uint64_t head[3] = {example->text_size, example->pair ? example->pair_size + 1 : 0,
                            (uint64_t)(int64_t)example->label};
        hash_add(hash, head, sizeof head);
        hash_add(hash, example->text, example->text_size);
        if (example->pair)
            hash_add(hash, example->pair, example->pair_size);
        if (example->id)
            answers_hash(example, hash);
    }
}

enum status source_label_parse(int32_t **out, size_t *n, const char *path, const char *bytes, size_t size,
                               uint32_t n_labels) {
    size_t rows = row_count(bytes, size), line = 0;
    struct row row = row_first(bytes, size);
    enum status status = STATUS_OK;
    int32_t *ids = calloc(rows ? rows : 1, sizeof *ids);
    *out = NULL;
    *n = 0;
    if (!ids)
        return status_set(STATUS_SYSTEM, "%s: no memory", path);
    for (size_t i = 0; i < rows && status == STATUS_OK; i++)
        status = label_next(&row, &line, path, n_labels ? n_labels : LABELS_MAX, &ids[i]);
    if (status != STATUS_OK) {
        free(ids);
        return status;
    }
    *out = ids;
    *n = rows;
    return STATUS_OK;
}

enum status source_label_file(int32_t **out, size_t *n, const char *path, uint32_t n_labels) {
    struct file_map map;
    *out = NULL;
    *n = 0;
    TRY(file_map_open(&map, path));
    enum status status = source_label_parse(out, n, path, map.at, map.size, n_labels);
    file_map_close(&map);
    return status;
}
