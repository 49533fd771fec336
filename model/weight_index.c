// SPDX-License-Identifier: Apache-2.0
#include "model/weight_index.h"

#include "data/row.h"

#include <limits.h>
#include <string.h>

static enum status no_memory(const char *path) {
    return status_set(STATUS_SYSTEM, "%s: no memory", path);
}

// A shard's name must be that of a file in the index's folder, nothing that leads elsewhere.
static enum status name_check(const char *path, const char *tensor, const json_t *value) {
    const char *name = json_string_value(value);
    size_t size = name ? strlen(name) : 0;
    char shown[ROW_SHOW];
    bool plain =
        size > 0 && size <= NAME_MAX && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
    for (size_t i = 0; i < size; i++)
        plain = plain && (unsigned char)name[i] >= 0x20 && name[i] != 0x7f;
    return plain ? STATUS_OK
                 : status_set(STATUS_DATA, "%s: weight_map: tensor %.200s: %s is not the name of a file beside it",
                              path, tensor, name ? row_show(shown, name, size) : "what is there");
}

static enum status map_take(struct weight_index *out, const char *path) {
    const char *tensor;
    json_t *value;
    out->map = json_object_get(out->root, "weight_map");
    if (!json_is_object(out->map) || json_object_size(out->map) == 0)
        return status_set(STATUS_DATA, "%s: no weight_map {\"tensor\": \"file\", …}", path);
    json_object_foreach((json_t *)(uintptr_t)out->map, tensor, value) {
        TRY(name_check(path, tensor, value));
        if (json_object_set_new(out->shards, json_string_value(value), json_true()) != 0)
            return no_memory(path);
    }
    if (json_object_size(out->shards) > WEIGHT_SHARDS_MAX)
        return status_set(STATUS_DATA, "%s: more than %u shards", path, WEIGHT_SHARDS_MAX);
    return STATUS_OK;
}

enum status weight_index_parse(struct weight_index *out, const char *bytes, size_t size, const char *path) {
    json_error_t error;
    *out =
        (struct weight_index){.root = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &error), .shards = json_object()};
    enum status status = !out->root     ? status_set(STATUS_DATA, "%s:%d: %s", path, error.line, error.text)
                         : !out->shards ? no_memory(path)
                                        : map_take(out, path);
    if (status != STATUS_OK)
        weight_index_release(out);
    return status;
}

void weight_index_release(struct weight_index *index) {
    json_decref(index->root);
    json_decref(index->shards);
    *index = (struct weight_index){0};
}

const char *weight_index_file(const struct weight_index *index, const char *tensor) {
    return json_string_value(json_object_get(index->map, tensor));
}
