// SPDX-License-Identifier: Apache-2.0
// HDF5's own bytes of the file: whatever lies before, between and behind the datasets.
#ifndef FINETUNED_CHECKPOINTS_REST_H
#define FINETUNED_CHECKPOINTS_REST_H

#include "checkpoints/manifest.h"
#include "checkpoints/pieces.h"
#include "checkpoints/store.h"

struct rest {
    struct manifest_piece *at; // rising, hashed
    size_t n;
    uint64_t size; // of the whole file
};

// Finds them, and hashes them as the store holds them.
enum status rest_plan(struct rest *out, const struct store *store, const struct pieces *pieces);
void rest_release(struct rest *rest);

enum status rest_write(const struct rest *rest, const struct store *store, int fd, const char *path);

#endif
