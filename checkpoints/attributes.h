// SPDX-License-Identifier: Apache-2.0
// The attributes of /trainer: struct trainer_state in HDF5.
#ifndef FINETUNED_CHECKPOINTS_ATTRIBUTES_H
#define FINETUNED_CHECKPOINTS_ATTRIBUTES_H

#include "checkpoints/checkpoint.h"
#include "checkpoints/h5.h"

#include <jansson.h>

#define ATTRIBUTES_TEXT_MAX ((size_t)16 << 20) // bytes of `config` and of `labels`

// Integers as 64-bit unsigned, best_metric as double, texts as variable UTF-8 strings.
enum status attributes_write(hid_t group, const struct trainer_state *state);

// Every attribute must be there, a scalar of its kind and in range. A newer format: STATUS_DATA. `state` is empty on
// failure.
enum status attributes_read(struct trainer_state *state, hid_t group, const char *path);

// The same as a JSON object (config and labels as JSON values); NULL if there is no memory.
json_t *attributes_json(const struct trainer_state *state);

#endif
