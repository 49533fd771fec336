// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/attributes.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum attribute_kind { ATTRIBUTE_U64, ATTRIBUTE_U32, ATTRIBUTE_DOUBLE, ATTRIBUTE_TEXT, ATTRIBUTE_LONG };

// TEXT: a char array of `size` bytes, its NUL included; LONG: a malloc'ed string.
struct attribute {
    const char *name;
    enum attribute_kind kind;
    size_t at, size;
    uint32_t since; // files of an older format lack it: 0 then
};

#define FIELD(kind, name) FIELD_SINCE(1, kind, name)
#define FIELD_SINCE(since, kind, name)                                                                                 \
    { #name, ATTRIBUTE_##kind, offsetof(struct trainer_state, name), sizeof(((struct trainer_state *)0)->name), since }

// `format` comes first: a newer one is refused before anything else is looked at.
static const struct attribute attributes[] = {
    FIELD(U32, format),
    FIELD(U64, step),
    FIELD(U64, cursor),
    FIELD(U64, epoch),
    FIELD(U64, seed),
    FIELD(U32, world),
    FIELD(U32, batch),
    FIELD(U32, parts),
    FIELD(TEXT, precision),
    FIELD(U64, steps_total),
    FIELD(U32, skips_in_a_row),
    FIELD(U64, best_step),
    FIELD(DOUBLE, best_metric),
    FIELD(U32, evaluations_without_gain),
    FIELD(TEXT, config_hash),
    FIELD(TEXT, data_hash),
    FIELD(TEXT, base_hash),
    FIELD(TEXT, run_id),
    FIELD(LONG, config),
    FIELD(LONG, labels),
    FIELD_SINCE(2, U32, evaluation_due),
};
#define ATTRIBUTES (sizeof attributes / sizeof attributes[0])

void trainer_state_release(struct trainer_state *state) {
    free(state->config);
    free(state->labels);
    *state = (struct trainer_state){0};
}

static uint64_t attribute_integer(const struct attribute *attribute, const void *field) {
    uint64_t wide;
    uint32_t narrow;
    if (attribute->kind == ATTRIBUTE_U64)
        return memcpy(&wide, field, sizeof wide), wide;
    return memcpy(&narrow, field, sizeof narrow), narrow;
}

static const char *attribute_long(const void *field) {
    char *text;
    memcpy(&text, field, sizeof text);
    return text ? text : "";
}

// Of variable length: h5py gives those as str, fixed ones as bytes.
static hid_t attribute_string_type(void) {
    hid_t type = H5Tcopy(H5T_C_S1);
    if (H5Tset_size(type, H5T_VARIABLE) < 0 || H5Tset_cset(type, H5T_CSET_UTF8) < 0) {
        H5Tclose(type);
        return H5I_INVALID_HID;
    }
    return type;
}

static hid_t attribute_file_type(const struct attribute *attribute) {
    switch (attribute->kind) {
    case ATTRIBUTE_U64:
    case ATTRIBUTE_U32:
        return H5Tcopy(H5T_STD_U64LE);
    case ATTRIBUTE_DOUBLE:
        return H5Tcopy(H5T_IEEE_F64LE);
    case ATTRIBUTE_TEXT:
    case ATTRIBUTE_LONG:
        return attribute_string_type();
    }
    return H5I_INVALID_HID;
}

static herr_t attribute_put(hid_t id, hid_t type, const struct attribute *attribute, const void *field) {
    uint64_t integer;
    const char *text;
    switch (attribute->kind) {
    case ATTRIBUTE_U64:
    case ATTRIBUTE_U32:
        integer = attribute_integer(attribute, field);
        return H5Awrite(id, H5T_NATIVE_UINT64, &integer);
    case ATTRIBUTE_DOUBLE:
        return H5Awrite(id, H5T_NATIVE_DOUBLE, field);
    case ATTRIBUTE_TEXT:
        text = field;
        return H5Awrite(id, type, &text);
    case ATTRIBUTE_LONG:
        text = attribute_long(field);
        return H5Awrite(id, type, &text);
    }
    return -1;
}

enum status attributes_write(hid_t group, const struct trainer_state *state) {
    hid_t space = H5Screate(H5S_SCALAR);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < ATTRIBUTES && status == STATUS_OK; i++) {
        const struct attribute *attribute = &attributes[i];
        hid_t type = attribute_file_type(attribute);
        hid_t id = H5Acreate2(group, attribute->name, type, space, H5P_DEFAULT, H5P_DEFAULT);
        if (id < 0 || attribute_put(id, type, attribute, (const char *)state + attribute->at) < 0)
            status = h5_error(STATUS_SYSTEM, "checkpoint: attribute /trainer@%s", attribute->name);
        if (id >= 0 && H5Aclose(id) < 0 && status == STATUS_OK)
            status = h5_error(STATUS_SYSTEM, "checkpoint: attribute /trainer@%s", attribute->name);
        if (type >= 0)
            H5Tclose(type);
    }
    H5Sclose(space);
    return status;
}

// ---- reading: nothing of the file is believed

static enum status attribute_bad(const char *path, const struct attribute *attribute, const char *why) {
    return status_set(STATUS_DATA, "checkpoint %s: attribute /trainer@%s %s", path, attribute->name, why);
}

static bool attribute_is_kind(hid_t type, const struct attribute *attribute) {
    H5T_class_t class = H5Tget_class(type);
    switch (attribute->kind) {
    case ATTRIBUTE_U64:
    case ATTRIBUTE_U32:
        return class == H5T_INTEGER && H5Tget_size(type) <= 8;
    case ATTRIBUTE_DOUBLE:
        return class == H5T_FLOAT && H5Tget_size(type) <= 8;
    case ATTRIBUTE_TEXT:
    case ATTRIBUTE_LONG:
        return class == H5T_STRING && H5Tis_variable_str(type) > 0;
    }
    return false;
}

static enum status attribute_take_integer(void *field, hid_t id, const struct attribute *attribute, const char *path) {
    uint64_t integer;
    if (H5Aread(id, H5T_NATIVE_UINT64, &integer) < 0)
        return attribute_bad(path, attribute, "can't be read");
    if (attribute->kind == ATTRIBUTE_U64) {
        memcpy(field, &integer, sizeof integer);
        return STATUS_OK;
    }
    if (integer > UINT32_MAX)
        return attribute_bad(path, attribute, "is out of range");
    uint32_t narrow = (uint32_t)integer;
    memcpy(field, &narrow, sizeof narrow);
    return STATUS_OK;
}

// A short text into its field, a long one into memory of its own.
static enum status attribute_take_text(void *field, hid_t id, hid_t type, const struct attribute *attribute,
                                       const char *path) {
    char *text = NULL, *copy = NULL;
    size_t room = attribute->kind == ATTRIBUTE_TEXT ? attribute->size : ATTRIBUTES_TEXT_MAX;
    if (H5Aread(id, type, &text) < 0)
        return attribute_bad(path, attribute, "can't be read");
    size_t size = text ? strnlen(text, room) : 0;
    bool fits = size < room;
    if (fits && attribute->kind == ATTRIBUTE_TEXT)
        memcpy(field, text ? text : "", size + 1);
    else if (fits && (copy = strndup(text ? text : "", size)))
        memcpy(field, &copy, sizeof copy);
    H5free_memory(text);
    if (fits && attribute->kind == ATTRIBUTE_LONG && !copy)
        return status_set(STATUS_SYSTEM, "checkpoint %s: no memory", path);
    return fits ? STATUS_OK : attribute_bad(path, attribute, "is too long");
}

static enum status attribute_take(void *field, hid_t id, hid_t type, const struct attribute *attribute,
                                  const char *path) {
    switch (attribute->kind) {
    case ATTRIBUTE_U64:
    case ATTRIBUTE_U32:
        return attribute_take_integer(field, id, attribute, path);
    case ATTRIBUTE_DOUBLE:
        return H5Aread(id, H5T_NATIVE_DOUBLE, field) < 0 ? attribute_bad(path, attribute, "can't be read") : STATUS_OK;
    case ATTRIBUTE_TEXT:
    case ATTRIBUTE_LONG:
        return attribute_take_text(field, id, type, attribute, path);
    }
    return STATUS_ARGUMENT;
}

static enum status attribute_read(struct trainer_state *state, hid_t group, const struct attribute *attribute,
                                  const char *path) {
    hid_t id = H5Aexists(group, attribute->name) > 0 ? H5Aopen(group, attribute->name, H5P_DEFAULT) : H5I_INVALID_HID;
    if (id < 0)
        return attribute_bad(path, attribute, "is missing");
    hid_t type = H5Aget_type(id);
    hid_t space = H5Aget_space(id);
    enum status status;
    if (type < 0 || space < 0 || H5Sget_simple_extent_type(space) != H5S_SCALAR || !attribute_is_kind(type, attribute))
        status = attribute_bad(path, attribute, "is of another type");
    else
        status = attribute_take((char *)state + attribute->at, id, type, attribute, path);
    if (space >= 0)
        H5Sclose(space);
    if (type >= 0)
        H5Tclose(type);
    H5Aclose(id);
    return status;
}

enum status attributes_read(struct trainer_state *state, hid_t group, const char *path) {
    *state = (struct trainer_state){0};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < ATTRIBUTES && status == STATUS_OK; i++) {
        if (i > 0 && attributes[i].since > state->format)
            continue;
        status = attribute_read(state, group, &attributes[i], path);
        if (i == 0 && status == STATUS_OK && state->format > CHECKPOINT_FORMAT)
            status = status_set(STATUS_DATA,
                                "checkpoint %s: format %u is newer than this program's (%d): use a newer finetuned",
                                path, state->format, CHECKPOINT_FORMAT);
    }
    if (status == STATUS_OK && state->best_step && !isfinite(state->best_metric))
        status = status_set(STATUS_DATA, "checkpoint %s: attribute /trainer@best_metric is not finite", path);
    if (status != STATUS_OK)
        trainer_state_release(state);
    return status;
}

// ---- for people

static json_t *attribute_json_long(const char *text) {
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    return value ? value : json_string(text);
}

json_t *attributes_json(const struct trainer_state *state) {
    json_t *out = json_object();
    for (size_t i = 0; i < ATTRIBUTES; i++) {
        const struct attribute *attribute = &attributes[i];
        const void *field = (const char *)state + attribute->at;
        json_t *value = NULL;
        double number;
        if (attribute->kind == ATTRIBUTE_U64 || attribute->kind == ATTRIBUTE_U32)
            value = json_integer((json_int_t)attribute_integer(attribute, field));
        else if (attribute->kind == ATTRIBUTE_DOUBLE)
            value = json_real((memcpy(&number, field, sizeof number), number));
        else if (attribute->kind == ATTRIBUTE_TEXT)
            value = json_string(field);
        else
            value = attribute_json_long(attribute_long(field));
        json_object_set_new(out, attribute->name, value ? value : json_null());
    }
    return out;
}
