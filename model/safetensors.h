// SPDX-License-Identifier: Apache-2.0
// safetensors files: 8 bytes little-endian header length, JSON header, data. Checked in full before use.
#ifndef FINETUNED_MODEL_SAFETENSORS_H
#define FINETUNED_MODEL_SAFETENSORS_H

#include "base/file.h"
#include "base/status.h"
#include "model/tensor.h"

#include <stdint.h>

#define SAFETENSORS_HEADER_MAX (100u << 20) // bytes, as the reference library

struct safetensors {
    struct tensor *at; // sorted by name
    size_t n;
    struct file_map map;
    void *header; // its own
};

// A pure function of bytes: every offset inside, no overlap, no hole, no duplicate name, dtype known, size = shape *
// dtype. STATUS_DATA naming the tensor and what is wrong. `out` borrows `bytes`.
enum status safetensors_parse(struct safetensors *out, const char *bytes, size_t size, const char *name);
enum status safetensors_open(struct safetensors *out, const char *path); // mapped
// The header alone, of a file of `size` bytes whose first ones are `head` (a stream that is not kept): the same checks.
enum status safetensors_check_head(const char *head, size_t head_size, uint64_t size, const char *name);
void safetensors_close(struct safetensors *file);
const struct tensor *safetensors_find(const struct safetensors *file, const char *name);

// Writing: announce every tensor, then give their data in the same order, committed atomically. F32 and BF16; metadata
// {"format": "pt"}. Commit and rollback both free the writer; so does a commit that fails.
struct safetensors_writer;
enum status safetensors_begin(struct safetensors_writer **out, const char *path);
enum status safetensors_announce(struct safetensors_writer *w, const char *name, enum tensor_dtype dtype,
                                 const uint64_t *shape, unsigned rank);
enum status safetensors_put(struct safetensors_writer *w, const float *values,
                            uint64_t n); // next values of the current tensor; converts to its dtype
enum status safetensors_commit(struct safetensors_writer *w);
void safetensors_rollback(struct safetensors_writer *w);

#endif
