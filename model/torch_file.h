// SPDX-License-Identifier: Apache-2.0
// A state_dict as torch.save writes it since 1.6 (pytorch_model.bin), without torch: a zip archive of stored entries,
//   <name>/data.pkl     the state_dict's pickle: names, and tensors as views (offset, size, stride) of storages
//   <name>/data/<key>   the storages' bytes
//   <name>/byteorder    "little" (older files have none)
// and others that say nothing about weights. Tensors are used where they lie, in the order of their strides.
#ifndef FINETUNED_MODEL_TORCH_FILE_H
#define FINETUNED_MODEL_TORCH_FILE_H

#include "base/file.h"
#include "base/status.h"
#include "model/tensor.h"

#define TORCH_NAME_MAX 1024 // bytes of a tensor's name

struct torch_file {
    struct tensor *at; // sorted by name; several may share data
    size_t n;
    char *names;         // its own
    struct file_map map; // its own
};

// A pure function of bytes; `out` borrows them. STATUS_DATA naming the tensor, entry or import and what is wrong.
enum status torch_file_parse(struct torch_file *out, const char *bytes, size_t size, const char *name);
enum status torch_file_open(struct torch_file *out, const char *path); // mapped
void torch_file_close(struct torch_file *file);

#endif
