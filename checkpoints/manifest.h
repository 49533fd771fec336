// SPDX-License-Identifier: Apache-2.0
// MANIFEST.json: what makes a folder a checkpoint. It is the last file written and covers every byte of checkpoint.h5:
//
//   {"format": 2, "step": 200, "run_id": "…", "parent": "step-00000100" or null, "file": "checkpoint.h5", "size":
//   bytes, "datasets": [
//   {"name": "/model/…", "offset": …, "size": …, "piece": …, "hashes": ["XXH3-64 of a piece, 16 hex digits", …]},
//   …
//   ],
//   "rest": [
//   [offset, size, "hash"],      HDF5's own bytes: all that is between the datasets
//   …
//   ],
//   "check": "XXH3-64 of all bytes of the manifest before this key"}
//
// A dataset's pieces are of `piece` bytes, the last one of what is left.
#ifndef FINETUNED_CHECKPOINTS_MANIFEST_H
#define FINETUNED_CHECKPOINTS_MANIFEST_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MANIFEST_NAME "MANIFEST.json"
#define MANIFEST_FILE "checkpoint.h5"
#define MANIFEST_MAX ((size_t)64 << 20)        // bytes of a manifest
#define MANIFEST_PIECE_MAX ((uint64_t)1 << 30) // bytes of a piece
#define MANIFEST_REST UINT32_MAX

struct manifest_dataset {
    char *name; // "/model/…"
    uint64_t offset, size, piece;
};

// All pieces of the file in the file's order, without gap or overlap.
struct manifest_piece {
    uint64_t offset, size, hash;
    uint32_t dataset; // its index, or MANIFEST_REST
};

struct manifest {
    uint64_t step;
    char run_id[33];
    char parent[32]; // "" = none
    uint64_t size;   // of the file
    struct manifest_dataset *datasets;
    size_t n_datasets;
    struct manifest_piece *pieces;
    size_t n_pieces;
};

// A pure function of bytes. STATUS_DATA: what is wrong, starting with `name`.
enum status manifest_parse(struct manifest *out, const char *bytes, size_t size, const char *name);
// Of the folder `path`.
enum status manifest_read(struct manifest *out, const char *path);
// Whether the folder's manifest is whole and of a newer format than ours: `format` and the check at the end stay what
// they are in every format.
bool manifest_is_newer(uint64_t *format, const char *path);
void manifest_release(struct manifest *manifest);
const struct manifest_dataset *manifest_find(const struct manifest *manifest, const char *name);

// The bytes that manifest_parse reads back, malloc'ed. The pieces must be in the file's order and cover it.
enum status manifest_format(char **out, size_t *size, const struct manifest *manifest);

#endif
