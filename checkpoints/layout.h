// SPDX-License-Identifier: Apache-2.0
// checkpoint.h5 and where each tensor lies in it: contiguous float datasets in Hugging Face's shapes.
#ifndef FINETUNED_CHECKPOINTS_LAYOUT_H
#define FINETUNED_CHECKPOINTS_LAYOUT_H

#include "base/param.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/manifest.h"
#include "checkpoints/store.h"

#include <jansson.h>

#define LAYOUT_GROUPS 3
#define LAYOUT_ALIGN 4096 // bytes; datasets of LAYOUT_ALIGN_FROM bytes and more start at a multiple of it
#define LAYOUT_ALIGN_FROM 65536
#define LAYOUT_META 32768 // bytes that HDF5 takes at a time for its own

extern const char *const layout_groups[LAYOUT_GROUPS]; // "/model", "/optimizer/exp_avg", "/optimizer/exp_avg_sq"

// Dataset d = group * table->n + parameter.
char *layout_name(const struct param_table *table, size_t d); // malloc'ed "/model/<hf name>"

// Makes the file in memory, with every dataset's space allocated (and not filled) and the attributes of /trainer.
// offsets: LAYOUT_GROUPS * table->n bytes from the file's start, in dataset order.
enum status layout_create(uint64_t *offsets, struct store *store, const struct param_table *table,
                          const struct trainer_state *state);

// The file at `path`, whose own bytes agree with the manifest: STATUS_DATA unless each dataset of the manifest is
// contiguous float32 at the manifest's place and the groups hold nothing else. With a table: its tensors and no others,
// in its shapes; the first that differs is named with both shapes. `state` (may be NULL): the attributes.
enum status layout_check(struct trainer_state *state, const char *path, const struct manifest *manifest,
                         const struct param_table *table);

// The tensors of /model and their shapes, in the manifest's order: {"<hf name>": [768, 768], …}.
enum status layout_shapes(json_t **out, const char *path, const struct manifest *manifest);

#endif
