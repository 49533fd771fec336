// SPDX-License-Identifier: Apache-2.0
// What a checkpoint holds, for people and for programs.
#include "base/text.h"
#include "checkpoints/attributes.h"
#include "checkpoints/layout.h"
#include "checkpoints/reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static uint64_t describe_parameters(const json_t *shapes) {
    uint64_t count = 0;
    const char *name;
    const json_t *shape;
    json_object_foreach((json_t *)(uintptr_t)shapes, name, shape) {
        uint64_t product = 1;
        for (size_t i = 0; i < json_array_size(shape); i++)
            product *= (uint64_t)json_integer_value(json_array_get(shape, i));
        count += product;
    }
    return count;
}

static void describe_value(struct text *text, const char *key, const json_t *value) {
    char *printed = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    const char *string = json_is_string(value) ? json_string_value(value) : printed;
    text_printf(text, "%-25s %s\n", key, string ? string : "");
    free(printed);
}

static void describe_text(struct text *text, const json_t *about) {
    const char *key;
    const json_t *value;
    json_object_foreach((json_t *)(uintptr_t)about, key, value) if (strcmp(key, "tensors") != 0)
        describe_value(text, key, value);
    json_object_foreach(json_object_get(about, "tensors"), key, value) describe_value(text, key, value);
}

static json_t *describe_json(const struct reader *reader, const struct trainer_state *state, json_t *shapes) {
    json_t *about = json_object();
    json_object_set_new(about, "kind", json_string("checkpoint"));
    json_object_set_new(about, "path", json_string(reader->folder));
    json_object_set_new(about, "bytes", json_integer((json_int_t)reader->manifest.size));
    json_object_set_new(about, "parent",
                        reader->manifest.parent[0] ? json_string(reader->manifest.parent) : json_null());
    json_object_set_new(about, "parameters", json_integer((json_int_t)describe_parameters(shapes)));
    json_t *attributes = attributes_json(state);
    json_object_update(about, attributes);
    json_decref(attributes);
    json_object_set_new(about, "tensors", shapes);
    return about;
}

static enum status describe_print(char **out, const json_t *about, bool json) {
    struct text text = {0};
    if (json) {
        *out = json_dumps(about, JSON_COMPACT | JSON_REAL_PRECISION(17));
    } else {
        describe_text(&text, about);
        *out = text.failed ? NULL : text.at;
        if (!*out)
            text_release(&text);
    }
    return *out ? STATUS_OK : status_set(STATUS_SYSTEM, "describe: no memory");
}

enum status checkpoint_describe(char **out, const char *path, bool json) {
    struct reader reader;
    struct trainer_state state = {0};
    json_t *shapes = NULL;
    *out = NULL;
    TRY(reader_open(&reader, path));
    enum status status = layout_check(&state, reader.file, &reader.manifest, NULL);
    if (status == STATUS_OK)
        status = layout_shapes(&shapes, reader.file, &reader.manifest);
    if (status == STATUS_OK) {
        json_t *about = describe_json(&reader, &state, shapes);
        status = describe_print(out, about, json);
        json_decref(about);
    }
    trainer_state_release(&state);
    reader_close(&reader);
    return status;
}
