// SPDX-License-Identifier: Apache-2.0
// The names that a pickle of weights may import, and what calls of them make. Nothing is ever run: a call is a pattern
// that is recognised.
#include "model/pickle_machine.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *module, *name;
    enum tensor_dtype dtype; // of storages
} imports[] = {
    [IMPORT_ORDERED_DICT] = {"collections", "OrderedDict", TENSOR_F32},
    [IMPORT_REBUILD_TENSOR] = {"torch._utils", "_rebuild_tensor_v2", TENSOR_F32},
    [IMPORT_FLOAT_STORAGE] = {"torch", "FloatStorage", TENSOR_F32},
    [IMPORT_HALF_STORAGE] = {"torch", "HalfStorage", TENSOR_F16},
    [IMPORT_BFLOAT16_STORAGE] = {"torch", "BFloat16Storage", TENSOR_BF16},
    [IMPORT_LONG_STORAGE] = {"torch", "LongStorage", TENSOR_I64},
};
#define IMPORTS (sizeof imports / sizeof *imports)

static bool is_text(struct pickle_string string, const char *text) {
    return string.size == strlen(text) && memcmp(string.at, text, string.size) == 0;
}

// A string of the file for a message: at most 60 bytes, nothing that could upset a terminal.
static const char *printable(char out[64], struct pickle_string string) {
    size_t n = string.size < 60 ? string.size : 60;
    for (size_t i = 0; i < n; i++)
        out[i] = string.at[i] >= ' ' && string.at[i] <= '~' ? string.at[i] : '?';
    out[n] = '\0';
    return out;
}

enum status import_find(struct pickle_value *out, const struct machine *m, struct pickle_string module,
                        struct pickle_string name) {
    char one[64], two[64];
    for (size_t i = 0; i < IMPORTS; i++)
        if (is_text(module, imports[i].module) && is_text(name, imports[i].name)) {
            out->import = (enum pickle_import)i;
            return STATUS_OK;
        }
    return status_set(
        STATUS_DATA,
        "%s: pickle imports %s.%s: only collections.OrderedDict, torch._utils._rebuild_tensor_v2 and "
        "torch's Float, Half, BFloat16 and LongStorage are allowed (nothing was run): load it with torch and save "
        "the model again by its save_pretrained",
        m->name, printable(one, module), printable(two, name));
}

static bool is_count(const struct pickle_value *value) {
    return value->kind == PICKLE_INTEGER && value->integer >= 0;
}

static bool is_empty_dict(const struct pickle_value *value) {
    return (value->kind == PICKLE_DICT || value->kind == PICKLE_ORDERED) && value->items.n == 0;
}

// A tuple of sizes; its length, or above TENSOR_RANK_MAX if it is none.
static size_t counts_read(uint64_t out[TENSOR_RANK_MAX], const struct pickle_value *tuple) {
    if (tuple->kind != PICKLE_TUPLE || tuple->items.n > TENSOR_RANK_MAX)
        return TENSOR_RANK_MAX + 1;
    for (size_t i = 0; i < tuple->items.n; i++) {
        if (!is_count(tuple->items.at[i]))
            return TENSOR_RANK_MAX + 1;
        out[i] = (uint64_t)tuple->items.at[i]->integer;
    }
    return tuple->items.n;
}

// _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks[, metadata]). Hooks are
// functions, and metadata changes what the values mean (conjugated, negated): both must be empty.
static enum status tensor_make(struct pickle_value *out, const struct machine *m,
                               const struct pickle_items *arguments) {
    struct pickle_value *const *at = arguments->at;
    if (arguments->n != 6 && arguments->n != 7)
        return machine_bad(m, "_rebuild_tensor_v2 takes 6 or 7 arguments");
    if (at[0]->kind != PICKLE_STORAGE || !is_count(at[1]))
        return machine_bad(m, "_rebuild_tensor_v2 needs a storage and an offset");
    struct pickle_tensor *tensor = &out->tensor;
    size_t rank = counts_read(tensor->shape, at[2]), strides = counts_read(tensor->stride, at[3]);
    if (rank > TENSOR_RANK_MAX || rank != strides)
        return machine_bad(m, "_rebuild_tensor_v2 needs size and stride, tuples of at most 4 numbers, none below 0");
    if (at[4]->kind != PICKLE_BOOL)
        return machine_bad(m, "_rebuild_tensor_v2's requires_grad is not true or false");
    if (at[5]->kind != PICKLE_NONE && !is_empty_dict(at[5]))
        return machine_bad(m, "a tensor with backward hooks is not read");
    if (arguments->n == 7 && at[6]->kind != PICKLE_NONE && !is_empty_dict(at[6]))
        return machine_bad(m, "a tensor with metadata of its own (conjugated, negated) is not read");
    tensor->storage = &at[0]->storage;
    tensor->offset = (uint64_t)at[1]->integer;
    tensor->rank = (unsigned)rank;
    return STATUS_OK;
}

enum status import_call(struct pickle_value **out, struct machine *m, const struct pickle_value *callable,
                        const struct pickle_value *arguments) {
    if (callable->kind != PICKLE_IMPORT || arguments->kind != PICKLE_TUPLE)
        return machine_bad(m, "REDUCE calls something that is not a function with a tuple of arguments");
    switch (callable->import) {
    case IMPORT_ORDERED_DICT:
        if (arguments->items.n != 0)
            return machine_bad(m, "OrderedDict is only made empty");
        return machine_value(out, m, PICKLE_ORDERED);
    case IMPORT_REBUILD_TENSOR:
        TRY(machine_value(out, m, PICKLE_TENSOR));
        return tensor_make(*out, m, &arguments->items);
    default:
        return machine_bad(m, "a storage comes by its persistent id, not by a call");
    }
}

enum status attributes_check(const struct machine *m, const struct pickle_value *target,
                             const struct pickle_value *state) {
    char text[64];
    if (target->kind != PICKLE_ORDERED)
        return status_set(STATUS_DATA, "%s: pickle, byte %zu: BUILD sets a state of what is no OrderedDict (%s)",
                          m->name, (size_t)(m->op - m->begin), pickle_kind_name(target->kind));
    if (state->kind != PICKLE_DICT)
        return machine_bad(m, "BUILD gives an OrderedDict a state that is no dict");
    for (size_t i = 0; i < state->items.n; i += 2) {
        const struct pickle_value *key = state->items.at[i];
        if (key->kind != PICKLE_STRING)
            return machine_bad(m, "BUILD sets an attribute whose name is no string");
        if (!is_text(key->string, "_metadata"))
            return status_set(STATUS_DATA, "%s: pickle, byte %zu: BUILD sets the attribute %s: only _metadata is known",
                              m->name, (size_t)(m->op - m->begin), printable(text, key->string));
    }
    return STATUS_OK;
}

enum status storage_make(struct pickle_value *out, const struct machine *m, const struct pickle_value *id) {
    struct pickle_value *const *at = id->items.at;
    if (id->kind != PICKLE_TUPLE || id->items.n != 5 || at[0]->kind != PICKLE_STRING ||
        !is_text(at[0]->string, "storage"))
        return machine_bad(m, "a persistent id that is not (\"storage\", type, key, location, elements)");
    if (at[1]->kind != PICKLE_IMPORT || at[1]->import < IMPORT_FLOAT_STORAGE)
        return machine_bad(m, "a storage whose type is none");
    if (at[2]->kind != PICKLE_STRING || at[3]->kind != PICKLE_STRING || !is_count(at[4]))
        return machine_bad(m, "a storage needs key, location and number of elements");
    out->storage = (struct pickle_storage){imports[at[1]->import].dtype, at[2]->string, (uint64_t)at[4]->integer};
    return STATUS_OK;
}
