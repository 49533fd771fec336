// SPDX-License-Identifier: Apache-2.0
// The weights of a model directory, in whichever form it holds them, as one set of tensors. The first of these counts:
//   model.safetensors, model.safetensors.index.json, pytorch_model.bin, pytorch_model.bin.index.json
// An index names a file of the same folder ("shard") for each tensor: {"weight_map": {"<tensor>": "<shard>", …}, …}.
#ifndef FINETUNED_MODEL_WEIGHT_FILES_H
#define FINETUNED_MODEL_WEIGHT_FILES_H

#include "base/hash.h"
#include "base/status.h"
#include "model/safetensors.h"
#include "model/tensor.h"
#include "model/torch_file.h"

#define WEIGHTS_NAME "model.safetensors" // the one that we write

struct weight_part {
    char *path;
    bool torch; // which of the two below
    struct safetensors safetensors;
    struct torch_file torch_file;
};

struct weight_files {
    struct tensor *at; // sorted by name
    size_t n;
    struct weight_part *parts; // sorted by path
    size_t n_parts;
    char *path; // of the one file, or of the index: what messages name
    bool torch; // pytorch_model.bin's form, else safetensors
    bool is_index;
};

// STATUS_DATA: nothing of the four is there; a file that is unusable; an index that and its shards disagree with.
enum status weight_files_open(struct weight_files *out, const char *folder);
// One file or index by its own path; its name's end says which form it is.
enum status weight_files_open_path(struct weight_files *out, const char *path);
bool weight_files_is(const char *path); // whether a name ends like one of them
void weight_files_close(struct weight_files *files);
// The pages of the files need not stay in memory now.
void weight_files_rest(const struct weight_files *files);

const struct tensor *weight_files_find(const struct weight_files *files, const char *name);
uint64_t weight_files_bytes(const struct weight_files *files); // of all files together
// The bytes of every file; of a single one just these.
void weight_files_hash(const struct weight_files *files, struct hash_stream *hash);

#endif
