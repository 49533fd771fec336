// SPDX-License-Identifier: Apache-2.0
// The index of weights in several files (model.safetensors.index.json, pytorch_model.bin.index.json), a pure function
// of its bytes: {"weight_map": {"<tensor>": "<file beside the index>", …}, …}. A name that leads elsewhere is refused.
#ifndef FINETUNED_MODEL_WEIGHT_INDEX_H
#define FINETUNED_MODEL_WEIGHT_INDEX_H

#include "base/status.h"

#include <jansson.h>
#include <stddef.h>

#define WEIGHT_INDEX_MAX ((size_t)64 << 20) // bytes of an index
#define WEIGHT_SHARDS_MAX 4096u

struct weight_index {
    json_t *root;
    const json_t *map; // tensor -> file; all values are strings
    json_t *shards;    // the files, each once, as keys
};

// `path` is for messages. STATUS_DATA: not JSON, no map, a name that is not one of a file in the same folder, too many.
enum status weight_index_parse(struct weight_index *out, const char *bytes, size_t size, const char *path);
void weight_index_release(struct weight_index *index);
// The file of a tensor, or NULL.
const char *weight_index_file(const struct weight_index *index, const char *tensor);

#endif
