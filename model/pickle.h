// SPDX-License-Identifier: Apache-2.0
// The pickle that torch.save writes of a state_dict, read without ever running anything: opcodes build plain values
// (numbers, strings, tuples, lists, dicts), and the only names that may be imported are
//   collections.OrderedDict, torch._utils._rebuild_tensor_v2,
//   torch.FloatStorage, torch.HalfStorage, torch.BFloat16Storage, torch.LongStorage.
// Calls are known by what they would make: OrderedDict() an empty dict, _rebuild_tensor_v2(…) a tensor's place in its
// storage. Every other name, and every opcode that could make or call anything else, is refused by its name.
// Opcodes and their arguments: Python's Lib/pickletools.py; what they stand for: torch/serialization.py,
// torch/_utils.py.
#ifndef FINETUNED_MODEL_PICKLE_H
#define FINETUNED_MODEL_PICKLE_H

#include "base/status.h"
#include "model/tensor.h"

#define PICKLE_MAX ((size_t)16 << 20)       // bytes; 200 tensors take some 20 KB
#define PICKLE_VALUES_MAX ((size_t)1 << 20) // values, and entries of stack and memo

enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOL,
    PICKLE_INTEGER,
    PICKLE_NUMBER,
    PICKLE_STRING,
    PICKLE_TUPLE,
    PICKLE_LIST,
    PICKLE_DICT,
    PICKLE_ORDERED, // an OrderedDict
    PICKLE_IMPORT,  // one of the allowed names
    PICKLE_STORAGE,
    PICKLE_TENSOR,
};

enum pickle_import {
    IMPORT_ORDERED_DICT,
    IMPORT_REBUILD_TENSOR,
    IMPORT_FLOAT_STORAGE,
    IMPORT_HALF_STORAGE,
    IMPORT_BFLOAT16_STORAGE,
    IMPORT_LONG_STORAGE,
};

struct pickle_value;

struct pickle_string {
    const char *at; // borrowed from the pickle's bytes; no NUL behind it
    size_t size;
};

struct pickle_items { // of tuples and lists; of dicts: key, value, key, value, …
    struct pickle_value **at;
    size_t n, room;
};

// A persistent id ("storage", type, key, location, elements).
struct pickle_storage {
    enum tensor_dtype dtype;
    struct pickle_string key; // its entry's name in the archive
    uint64_t elements;
};

// Numbers as the file has them, none below zero: whether they fit the storage is the reader's to check.
struct pickle_tensor {
    const struct pickle_storage *storage;
    uint64_t offset; // elements
    unsigned rank;
    uint64_t shape[TENSOR_RANK_MAX], stride[TENSOR_RANK_MAX];
};

struct pickle_value {
    enum pickle_kind kind;
    union {
        int64_t integer; // and bool
        double number;
        struct pickle_string string;
        struct pickle_items items;
        enum pickle_import import;
        struct pickle_storage storage;
        struct pickle_tensor tensor;
    };
};

struct pickle {
    const struct pickle_value *root;
    struct pickle_chunk *chunks; // its own: all values
};

// A pure function of bytes; `out` borrows them. `name` is for messages. STATUS_DATA naming the byte and what is wrong.
// Values may be shared and a list or dict may hold itself: never walk deeper than you know.
enum status pickle_parse(struct pickle *out, const char *bytes, size_t size, const char *name);
void pickle_release(struct pickle *pickle);

const char *pickle_kind_name(enum pickle_kind kind); // "tensor", "dict", …

#endif
