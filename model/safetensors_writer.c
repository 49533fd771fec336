// SPDX-License-Identifier: Apache-2.0
// Writes a safetensors file: the header when the first data come, then the data as they are given.
#include "base/bf16.h"
#include "base/markup.h"
#include "model/safetensors.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct announced {
    enum tensor_dtype dtype;
    uint64_t elements;
};

struct safetensors_writer {
    struct file_write *file;
    json_t *header;
    struct announced *at;
    size_t n, room;
    uint64_t bytes; // of data, announced
    size_t current; // tensor that the next values belong to
    uint64_t given; // elements of it that were given
    bool header_written;
};

static void writer_free(struct safetensors_writer *w) {
    json_decref(w->header);
    free(w->at);
    free(w);
}

enum status safetensors_begin(struct safetensors_writer **out, const char *path) {
    struct safetensors_writer *w = calloc(1, sizeof *w);
    *out = NULL;
    if (!w)
        return status_set(STATUS_SYSTEM, "%s: no memory", path);
    w->header = json_pack("{s: {s: s}}", "__metadata__", "format", "pt");
    enum status status = w->header ? file_begin(&w->file, path) : status_set(STATUS_SYSTEM, "%s: no memory", path);
    if (status == STATUS_OK)
        *out = w;
    else
        writer_free(w);
    return status;
}

static enum status room_make(struct safetensors_writer *w) {
    if (w->n < w->room)
        return STATUS_OK;
    size_t room = w->room ? 2 * w->room : 64;
    struct announced *grown = realloc(w->at, room * sizeof *grown);
    if (!grown)
        return status_set(STATUS_SYSTEM, "safetensors: no memory");
    w->at = grown;
    w->room = room;
    return STATUS_OK;
}

static json_t *entry_make(enum tensor_dtype dtype, const uint64_t *shape, unsigned rank, uint64_t begin, uint64_t end) {
    json_t *sizes = json_array();
    for (unsigned i = 0; i < rank; i++)
        if (json_array_append_new(sizes, json_integer((json_int_t)shape[i])) != 0) {
            json_decref(sizes);
            return NULL;
        }
    return json_pack("{s: s, s: o, s: [I, I]}", "dtype", tensor_dtype_name(dtype), "shape", sizes, "data_offsets",
                     (json_int_t)begin, (json_int_t)end);
}

enum status safetensors_announce(struct safetensors_writer *w, const char *name, enum tensor_dtype dtype,
                                 const uint64_t *shape, unsigned rank) {
    struct announced next = {dtype, 1};
    uint64_t bytes, end;
    assert(!w->header_written && rank <= TENSOR_RANK_MAX && (dtype == TENSOR_F32 || dtype == TENSOR_BF16));
    TRY(room_make(w));
    if (json_object_get(w->header, name))
        return status_set(STATUS_ARGUMENT, "safetensors: %s was announced twice", name);
    for (unsigned i = 0; i < rank; i++)
        if (__builtin_mul_overflow(next.elements, shape[i], &next.elements))
            return status_set(STATUS_ARGUMENT, "safetensors: the shape of %s overflows", name);
    if (__builtin_mul_overflow(next.elements, (uint64_t)tensor_dtype_size(dtype), &bytes) ||
        __builtin_add_overflow(w->bytes, bytes, &end) || end > INT64_MAX)
        return status_set(STATUS_ARGUMENT, "safetensors: the shape of %s overflows", name);
    if (json_object_set_new(w->header, name, entry_make(dtype, shape, rank, w->bytes, end)) != 0)
        return status_set(STATUS_SYSTEM, "safetensors: no memory");
    w->at[w->n++] = next;
    w->bytes = end;
    return STATUS_OK;
}

// Its length, and spaces behind it so that the data start at a multiple of 8.
static enum status header_write(struct safetensors_writer *w) {
    static const char spaces[8] = "        ";
    char *text = json_dumps_whole(w->header, JSON_COMPACT);
    if (!text)
        return status_set(STATUS_SYSTEM, "safetensors: no memory");
    size_t size = strlen(text), pad = (8 - size % 8) % 8;
    uint64_t length = size + pad;
    enum status status = file_put(w->file, &length, 8);
    if (status == STATUS_OK)
        status = file_put(w->file, text, size);
    if (status == STATUS_OK)
        status = file_put(w->file, spaces, pad);
    free(text);
    w->header_written = true;
    return status;
}

// Goes on to the next tensor that lacks values.
static void full_skip(struct safetensors_writer *w) {
    while (w->current < w->n && w->given == w->at[w->current].elements) {
        w->current++;
        w->given = 0;
    }
}

static enum status values_put(struct safetensors_writer *w, const float *values, uint64_t n, enum tensor_dtype dtype) {
    uint16_t halves[1024];
    if (dtype == TENSOR_F32)
        return file_put(w->file, values, n * sizeof *values);
    for (uint64_t i = 0; i < n;) {
        uint64_t count = n - i < 1024 ? n - i : 1024;
        for (uint64_t j = 0; j < count; j++)
            halves[j] = bf16_from_float(values[i + j]);
        TRY(file_put(w->file, halves, count * sizeof *halves));
        i += count;
    }
    return STATUS_OK;
}

enum status safetensors_put(struct safetensors_writer *w, const float *values, uint64_t n) {
    if (!w->header_written)
        TRY(header_write(w));
    full_skip(w);
    assert(n == 0 || (w->current < w->n && n <= w->at[w->current].elements - w->given));
    if (n == 0)
        return STATUS_OK;
    w->given += n;
    return values_put(w, values, n, w->at[w->current].dtype);
}

enum status safetensors_commit(struct safetensors_writer *w) {
    enum status status = w->header_written ? STATUS_OK : header_write(w);
    full_skip(w);
    if (status == STATUS_OK && w->current < w->n)
        status = status_set(STATUS_ARGUMENT, "safetensors: %zu of %zu tensors got their values", w->current, w->n);
    if (status != STATUS_OK) {
        safetensors_rollback(w);
        return status;
    }
    status = file_commit(w->file);
    writer_free(w);
    return status;
}

void safetensors_rollback(struct safetensors_writer *w) {
    file_rollback(w->file);
    writer_free(w);
}
