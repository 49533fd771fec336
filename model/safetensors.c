// SPDX-License-Identifier: Apache-2.0
#include "model/safetensors.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

// What a parse carries; `data` are the bytes behind the header.
struct parse {
    const char *name;
    const char *data;
    uint64_t size;
};

static enum status bad(const struct parse *parse, const char *tensor, const char *what) {
    return status_set(STATUS_DATA, "%s: tensor %.200s: %s", parse->name, tensor, what);
}

static enum status dtype_read(struct tensor *out, const struct parse *parse, const json_t *entry) {
    const char *name = json_string_value(json_object_get(entry, "dtype"));
    if (!name)
        return bad(parse, out->name, "dtype is missing");
    for (size_t i = 0; i < TENSOR_DTYPES; i++)
        if (strcmp(name, tensor_dtype_name((enum tensor_dtype)i)) == 0) {
            out->dtype = (enum tensor_dtype)i;
            return STATUS_OK;
        }
    return status_set(STATUS_DATA, "%s: tensor %.200s: dtype %.20s is not known (F32 F16 BF16 F64 I64 are)",
                      parse->name, out->name, name);
}

static enum status shape_read(struct tensor *out, const struct parse *parse, const json_t *entry) {
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape))
        return bad(parse, out->name, "shape is missing");
    if (json_array_size(shape) > TENSOR_RANK_MAX)
        return bad(parse, out->name, "shape has more than 4 dimensions");
    out->rank = (unsigned)json_array_size(shape);
    out->elements = 1;
    for (unsigned i = 0; i < out->rank; i++) {
        const json_t *size = json_array_get(shape, i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return bad(parse, out->name, "shape holds something that is not a size");
        out->shape[i] = (uint64_t)json_integer_value(size);
        if (__builtin_mul_overflow(out->elements, out->shape[i], &out->elements))
            return bad(parse, out->name, "shape overflows");
    }
    return STATUS_OK;
}

static enum status offsets_read(struct tensor *out, const struct parse *parse, const json_t *entry) {
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0)
        return bad(parse, out->name, "data_offsets [begin, end] are missing");
    uint64_t first = (uint64_t)json_integer_value(begin), last = (uint64_t)json_integer_value(end), bytes;
    if (json_integer_value(end) < json_integer_value(begin) || last > parse->size)
        return status_set(
            STATUS_DATA, "%s: tensor %.200s: data_offsets [%llu, %lld] are outside the %llu bytes of data", parse->name,
            out->name, (unsigned long long)first, (long long)json_integer_value(end), (unsigned long long)parse->size);
    if (__builtin_mul_overflow(out->elements, (uint64_t)tensor_dtype_size(out->dtype), &bytes) || bytes != last - first)
        return bad(parse, out->name, "data_offsets don't fit its shape and dtype");
    out->data = parse->data + first;
    return STATUS_OK;
}

static enum status tensor_read(struct tensor *out, const struct parse *parse, const char *name, const json_t *entry) {
    *out = (struct tensor){.name = name};
    if (!json_is_object(entry))
        return bad(parse, name, "not an object");
    TRY(dtype_read(out, parse, entry));
    TRY(shape_read(out, parse, entry));
    return offsets_read(out, parse, entry);
}

static enum status metadata_check(const struct parse *parse, json_t *metadata) {
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return bad(parse, "__metadata__", "not an object");
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value))
            return bad(parse, "__metadata__", "not a map of strings");
    }
    return STATUS_OK;
}

static int by_data(const void *a, const void *b) {
    const struct tensor *x = a, *y = b;
    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return (x->elements > y->elements) - (x->elements < y->elements); // empty ones first
}

// In the order of their data every tensor begins where the one before ends, and the last ends with the file.
static enum status cover_check(struct safetensors *out, const struct parse *parse) {
    const char *end = parse->data;
    qsort(out->at, out->n, sizeof *out->at, by_data);
    for (size_t i = 0; i < out->n; i++) {
        const struct tensor *tensor = &out->at[i];
        if (tensor->data < end)
            return bad(parse, tensor->name, "its data overlap another tensor's");
        if (tensor->data > end)
            return bad(parse, tensor->name, "a hole in the data before it");
        end += tensor->elements * tensor_dtype_size(tensor->dtype);
    }
    if (end != parse->data + parse->size)
        return status_set(STATUS_DATA, "%s: %llu bytes at the end belong to no tensor", parse->name,
                          (unsigned long long)(parse->data + parse->size - end));
    return STATUS_OK;
}

static enum status tensors_read(struct safetensors *out, const struct parse *parse) {
    json_t *root = out->header, *entry;
    const char *name;
    out->at = calloc(json_object_size(root) + 1, sizeof *out->at);
    if (!out->at)
        return status_set(STATUS_SYSTEM, "%s: no memory for %zu tensors", parse->name, json_object_size(root));
    json_object_foreach(root, name, entry) {
        if (strcmp(name, "__metadata__") == 0)
            TRY(metadata_check(parse, entry));
        else
            TRY(tensor_read(&out->at[out->n++], parse, name, entry));
    }
    TRY(cover_check(out, parse));
    if (out->n)
        qsort(out->at, out->n, sizeof *out->at, tensor_by_name);
    return STATUS_OK;
}

static enum status header_read(struct safetensors *out, struct parse *parse, const char *bytes, uint64_t size) {
    uint64_t length;
    json_error_t error;
    if (size < 8)
        return status_set(STATUS_DATA, "%s: %llu bytes are too few for a safetensors file", parse->name,
                          (unsigned long long)size);
    memcpy(&length, bytes, 8);
    if (length > SAFETENSORS_HEADER_MAX || length > size - 8)
        return status_set(STATUS_DATA, "%s: its header says %llu bytes; the file has %llu and a header at most %u",
                          parse->name, (unsigned long long)length, (unsigned long long)size, SAFETENSORS_HEADER_MAX);
    if (length == 0 || bytes[8] != '{')
        return status_set(STATUS_DATA, "%s: no safetensors header (a JSON object behind its length)", parse->name);
    out->header = json_loadb(bytes + 8, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (!out->header)
        return status_set(STATUS_DATA, "%s: header: %s (byte %d)", parse->name, error.text, error.position + 8);
    parse->data = bytes + 8 + length;
    parse->size = size - 8 - length;
    return STATUS_OK;
}

enum status safetensors_parse(struct safetensors *out, const char *bytes, size_t size, const char *name) {
    struct parse parse = {.name = name};
    *out = (struct safetensors){0};
    enum status status = header_read(out, &parse, bytes, size);
    if (status == STATUS_OK)
        status = tensors_read(out, &parse);
    if (status != STATUS_OK)
        safetensors_close(out);
    return status;
}

enum status safetensors_open(struct safetensors *out, const char *path) {
    struct file_map map;
    *out = (struct safetensors){0};
    TRY(file_map_open(&map, path));
    enum status status = safetensors_parse(out, map.at, map.size, path);
    if (status == STATUS_OK)
        out->map = map;
    else
        file_map_close(&map);
    return status;
}

// Offsets are compared, data are not read: nothing behind `head` is touched.
enum status safetensors_check_head(const char *head, size_t head_size, uint64_t size, const char *name) {
    struct safetensors out = {0};
    struct parse parse = {.name = name};
    uint64_t length = 0;
    if (head_size >= 8)
        memcpy(&length, head, 8);
    if (head_size < size && (head_size < 8 || (length <= SAFETENSORS_HEADER_MAX && head_size - 8 < length)))
        return status_set(STATUS_DATA, "%s: its header is cut off", name);
    enum status status = header_read(&out, &parse, head, size);
    if (status == STATUS_OK)
        status = tensors_read(&out, &parse);
    safetensors_close(&out);
    return status;
}

void safetensors_close(struct safetensors *file) {
    json_decref(file->header);
    free(file->at);
    if (file->map.at)
        file_map_close(&file->map);
    *file = (struct safetensors){0};
}

const struct tensor *safetensors_find(const struct safetensors *file, const char *name) {
    struct tensor key = {.name = name};
    return file->n ? bsearch(&key, file->at, file->n, sizeof *file->at, tensor_by_name) : NULL;
}
