// SPDX-License-Identifier: Apache-2.0
// Two walks over the parsed file: the first checks its form and counts, the second copies into one block of memory (all
// answers, then all strings) and checks the answers.
#include "data/squad.h"

#include "base/file.h"
#include "base/pulse.h"
#include "base/text.h"
#include "data/row.h"
#include "data/source_parts.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct squad {
    const char *path;
    bool answered;
    size_t article, paragraph, question; // where the walk is, from 0
    const json_t *root;
    size_t rows, answers, bytes; // counted so far
    // second walk
    struct source *out;
    struct source_answer *answer; // the next one's place
    char *string;                 // the next string's place
};

// "path: data[0].paragraphs[2].qas[1]: …" in front of this thread's message.
static enum status refuse_at(const struct squad *squad, enum status status) {
    return status_add(status, "%s: data[%zu].paragraphs[%zu].qas[%zu]", squad->path, squad->article, squad->paragraph,
                      squad->question);
}

static enum status string_check(const json_t *value, const char *key) {
    if (!json_is_string(value))
        return status_set(STATUS_DATA, "\"%s\" is %s", key, value ? "no string" : "not there");
    if (json_string_length(value) > SOURCE_TEXT_MAX)
        return status_set(STATUS_DATA, "\"%s\" has %zu bytes; %zu are the most", key, json_string_length(value),
                          SOURCE_TEXT_MAX);
    return STATUS_OK;
}

// Ids go into messages and predictions: no control characters, not too long.
static enum status id_check(const json_t *value) {
    char show[ROW_SHOW];
    TRY(string_check(value, "id"));
    const char *id = json_string_value(value);
    size_t size = json_string_length(value);
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)id[i] < 0x20 || id[i] == 0x7f)
            return status_set(STATUS_DATA, "\"id\" %s has control characters", row_show(show, id, size));
    if (size == 0 || size > SQUAD_ID_MAX)
        return status_set(STATUS_DATA, "\"id\" %s has %zu bytes; 1 to %zu may be", row_show(show, id, size), size,
                          SQUAD_ID_MAX);
    return STATUS_OK;
}

static enum status answer_check(const json_t *answer) {
    TRY(string_check(json_object_get(answer, "text"), "text"));
    if (json_string_length(json_object_get(answer, "text")) == 0)
        return status_set(STATUS_DATA, "an answer's \"text\" is empty");
    const json_t *start = json_object_get(answer, "answer_start");
    if (!json_is_integer(start) || json_integer_value(start) < 0)
        return status_set(STATUS_DATA, "\"answer_start\" is no whole number from 0");
    return STATUS_OK;
}

// Answers, is_impossible, and that they go together.
static enum status answers_check(struct squad *squad, const json_t *question) {
    const json_t *answers = json_object_get(question, "answers"), *none = json_object_get(question, "is_impossible");
    size_t n = json_array_size(answers);
    if (answers && !json_is_array(answers))
        return status_set(STATUS_DATA, "\"answers\" is no list");
    if (none && !json_is_boolean(none))
        return status_set(STATUS_DATA, "\"is_impossible\" is neither true nor false");
    if (n && json_is_true(none))
        return status_set(STATUS_DATA, "the question has answers and \"is_impossible\": true");
    if (n == 0 && squad->answered && !json_is_true(none))
        return status_set(STATUS_DATA, "the question has no answer; where its context holds none, say "
                                       "\"is_impossible\": true");
    for (size_t i = 0; i < n; i++) {
        const json_t *answer = json_array_get(answers, i);
        TRY(answer_check(answer));
        squad->bytes += json_string_length(json_object_get(answer, "text"));
    }
    squad->answers += n;
    return STATUS_OK;
}

static enum status question_count(struct squad *squad, const json_t *question) {
    const json_t *id = json_object_get(question, "id"), *text = json_object_get(question, "question");
    TRY(id_check(id));
    enum status status = string_check(text, "question");
    if (status == STATUS_OK)
        status = answers_check(squad, question);
    if (status != STATUS_OK)
        return status_add(status, "question %s", json_string_value(id));
    squad->bytes += json_string_length(id) + 1 + json_string_length(text);
    if (++squad->rows > SOURCE_ROWS_MAX)
        return status_set(STATUS_DATA, "more than %" PRIu32 " questions", SOURCE_ROWS_MAX);
    return STATUS_OK;
}

static enum status list_check(const json_t *list, const char *key) {
    return json_is_array(list) ? STATUS_OK
                               : status_set(STATUS_DATA, "\"%s\" is %s: this is not SQuAD's format", key,
                                            list ? "no list" : "not there");
}

static enum status paragraph_count(struct squad *squad, const json_t *paragraph) {
    const json_t *questions = json_object_get(paragraph, "qas"), *context = json_object_get(paragraph, "context");
    size_t n = json_array_size(questions);
    squad->question = 0;
    TRY(list_check(questions, "qas"));
    TRY(string_check(context, "context"));
    squad->bytes += json_string_length(context);
    for (; squad->question < n; squad->question++)
        TRY(question_count(squad, json_array_get(questions, squad->question)));
    return STATUS_OK;
}

// Calls `each` for all paragraphs.
static enum status paragraphs_walk(struct squad *squad,
                                   enum status (*each)(struct squad *squad, const json_t *paragraph)) {
    const json_t *articles = json_object_get(squad->root, "data");
    for (squad->article = 0; squad->article < json_array_size(articles); squad->article++) {
        const json_t *paragraphs = json_object_get(json_array_get(articles, squad->article), "paragraphs");
        if (list_check(paragraphs, "paragraphs") != STATUS_OK)
            return status_add(STATUS_DATA, "%s: data[%zu]", squad->path, squad->article);
        for (squad->paragraph = 0; squad->paragraph < json_array_size(paragraphs); squad->paragraph++) {
            enum status status = each(squad, json_array_get(paragraphs, squad->paragraph));
            pulse_beat();
            if (status != STATUS_OK)
                return refuse_at(squad, status);
        }
    }
    return STATUS_OK;
}

// Copies a string; `terminate`: with a NUL behind it.
static const char *string_put(struct squad *squad, const json_t *value, size_t terminate) {
    char *at = squad->string;
    size_t size = json_string_length(value);
    memcpy(at, json_string_value(value), size);
    if (terminate)
        at[size] = 0;
    squad->string += size + terminate;
    return at;
}

// The byte at which code point `index` begins, or `size` + 1 if there are fewer.
static size_t byte_of(const char *text, size_t size, uint64_t index) {
    size_t at = 0;
    for (uint64_t i = 0; i < index && at < size; i++)
        do
            at++;
        while (at < size && ((unsigned char)text[at] & 0xc0) == 0x80);
    return at < size ? at : size + 1;
}

static enum status answer_put(struct squad *squad, const struct example *row, const json_t *answer) {
    const json_t *text = json_object_get(answer, "text");
    uint64_t start = (uint64_t)json_integer_value(json_object_get(answer, "answer_start"));
    size_t size = json_string_length(text), begin = byte_of(row->pair, row->pair_size, start);
    size_t there = begin > row->pair_size ? 0 : row->pair_size - begin;
    char said[ROW_SHOW], found[ROW_SHOW];
    const char *at = string_put(squad, text, 0);
    if (there < size || memcmp(row->pair + begin, at, size) != 0)
        return status_set(STATUS_DATA,
                          "question %s: its answer is %s, but at answer_start %" PRIu64 " the context holds %s "
                          "(answer_start counts code points from 0)",
                          row->id, row_show(said, at, size), start,
                          row_show(found, there ? row->pair + begin : "", there < size ? there : size));
    *squad->answer++ = (struct source_answer){at, size, (uint32_t)begin, (uint32_t)(begin + size)};
    return STATUS_OK;
}

static enum status question_put(struct squad *squad, const json_t *question, const char *context, size_t context_size) {
    const json_t *answers = json_object_get(question, "answers"), *text = json_object_get(question, "question");
    struct example *row = &squad->out->rows[squad->out->n++];
    *row = (struct example){.text = string_put(squad, text, 0),
                            .text_size = json_string_length(text),
                            .pair = context,
                            .pair_size = context_size,
                            .file = squad->path,
                            .id = string_put(squad, json_object_get(question, "id"), 1),
                            .answers = squad->answer,
                            .n_answers = (uint32_t)json_array_size(answers)};
    row->label = row->n_answers || json_is_true(json_object_get(question, "is_impossible")) ? 0 : -1;
    for (uint32_t i = 0; i < row->n_answers; i++)
        TRY(answer_put(squad, row, json_array_get(answers, i)));
    return STATUS_OK;
}

static enum status paragraph_put(struct squad *squad, const json_t *paragraph) {
    const json_t *questions = json_object_get(paragraph, "qas"), *value = json_object_get(paragraph, "context");
    const char *context = string_put(squad, value, 0);
    size_t n = json_array_size(questions);
    for (squad->question = 0; squad->question < n; squad->question++)
        TRY(question_put(squad, json_array_get(questions, squad->question), context, json_string_length(value)));
    return STATUS_OK;
}

static int id_compare(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum status ids_check(const struct source *source, const char *path) {
    const char **ids = calloc(source->n, sizeof *ids);
    enum status status = STATUS_OK;
    if (!ids)
        return status_set(STATUS_SYSTEM, "%s: no memory for %zu ids", path, source->n);
    for (size_t i = 0; i < source->n; i++)
        ids[i] = source->rows[i].id;
    qsort(ids, source->n, sizeof *ids, id_compare);
    for (size_t i = 1; i < source->n && status == STATUS_OK; i++)
        if (strcmp(ids[i - 1], ids[i]) == 0)
            status = status_set(STATUS_DATA, "%s: two questions have the id %s", path, ids[i]);
    free(ids);
    return status;
}

static enum status source_fill(struct squad *squad) {
    struct source *out = squad->out;
    if (squad->rows == 0)
        return status_set(STATUS_DATA, "%s: no questions", squad->path);
    out->rows = calloc(squad->rows, sizeof *out->rows);
    out->storage = malloc(squad->answers * sizeof *squad->answer + squad->bytes + 1); // sums below the DOM's own size
    if (!out->rows || !out->storage)
        return status_set(STATUS_SYSTEM, "%s: no memory for %zu questions", squad->path, squad->rows);
    squad->answer = (struct source_answer *)out->storage;
    squad->string = out->storage + squad->answers * sizeof *squad->answer;
    TRY(paragraphs_walk(squad, paragraph_put));
    return ids_check(out, squad->path);
}

static enum status json_read(json_t **out, const char *path, const char *bytes, size_t size) {
    json_error_t error;
    pulse_long();
    *out = json_loadb(bytes ? bytes : "", size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    pulse_beat();
    if (*out)
        return STATUS_OK;
    if (json_error_code(&error) == json_error_out_of_memory)
        return status_set(STATUS_SYSTEM, "%s: no memory to parse it", path);
    return status_set(STATUS_DATA, "%s:%d: column %d: %s", path, error.line, error.column, error.text);
}

enum status squad_parse(struct source *out, const char *path, const char *bytes, size_t size, bool answered) {
    json_t *root;
    if (size > SQUAD_FILE_MAX)
        return status_set(STATUS_DATA, "%s: %zu bytes; %zu are the most", path, size, SQUAD_FILE_MAX);
    TRY(source_check_utf8(path, bytes, size)); // says more than the JSON parser
    TRY(json_read(&root, path, bytes, size));
    struct squad squad = {.path = path, .answered = answered, .root = root, .out = out};
    enum status status = list_check(json_object_get(root, "data"), "data");
    if (status != STATUS_OK)
        status_add(status, "%s", path);
    if (status == STATUS_OK)
        status = paragraphs_walk(&squad, paragraph_count);
    if (status == STATUS_OK)
        status = source_fill(&squad);
    json_decref(root);
    return status;
}

char *squad_path(const char *dir, enum source_split split) {
    return text_format("%s/%s.json", dir, split_names[split]);
}

bool squad_has(const char *dir, enum source_split split) {
    char *path = squad_path(dir, split);
    bool has = path && file_named(path); // a link that leads nowhere is refused when it is read
    free(path);
    return has;
}

enum status squad_read(struct source *out, const char *name, char *path, bool answered) {
    const struct file_map *map;
    enum status status = source_init(out, name ? name : "squad", 1);
    if (status != STATUS_OK) {
        free(path);
        return status;
    }
    TRY(source_hold(out, path, &map));
    TRY(squad_parse(out, path, map->at, map->size, answered));
    file_map_close(&out->maps[--out->n_maps]);
    return STATUS_OK;
}
