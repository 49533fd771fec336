// SPDX-License-Identifier: Apache-2.0
#include "data/jsonl.h"

#include "data/row.h"

#include <string.h>

void jsonl_init(struct jsonl *out, const char *path, const char *bytes, size_t size) {
    *out = (struct jsonl){.path = path, .at = bytes, .end = size ? bytes + size : bytes};
    if (size >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0)
        out->at += 3;
}

void jsonl_release(struct jsonl *jsonl) {
    json_decref(jsonl->object);
    *jsonl = (struct jsonl){0};
}

static bool blank(const struct row *row) {
    for (size_t i = 0; i < row->size; i++)
        if (row->at[i] != ' ' && row->at[i] != '\t' && row->at[i] != '\r')
            return false;
    return true;
}

static enum status line_parse(struct jsonl *jsonl, const struct row *row) {
    char show[ROW_SHOW];
    json_error_t error;
    if (row->size > JSONL_LINE_MAX)
        return status_set(STATUS_DATA, "%s:%zu: a line of %zu bytes; %zu are the most", jsonl->path, jsonl->line,
                          row->size, JSONL_LINE_MAX);
    jsonl->object = json_loadb(row->at, row->size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    if (!jsonl->object)
        return status_set(STATUS_DATA, "%s:%zu: not valid JSON: %s (byte %d of the line)", jsonl->path, jsonl->line,
                          error.text, error.position);
    if (json_is_object(jsonl->object))
        return STATUS_OK;
    return status_set(STATUS_DATA,
                      "%s:%zu: %s is no JSON object; each line holds one, as {\"text\": …, \"label\": …}%s",
                      jsonl->path, jsonl->line, row_show(show, row->at, row->size),
                      jsonl->line == 1 && json_is_array(jsonl->object) ? " (a JSON array is not JSON Lines)" : "");
}

enum status jsonl_next(struct jsonl *jsonl, bool *end) {
    struct row row = row_first(jsonl->at, (size_t)(jsonl->end - jsonl->at));
    json_decref(jsonl->object);
    jsonl->object = NULL;
    do {
        *end = !row_next(&row);
        jsonl->line += !*end;
    } while (!*end && blank(&row));
    jsonl->at = row.next;
    return *end ? STATUS_OK : line_parse(jsonl, &row);
}
