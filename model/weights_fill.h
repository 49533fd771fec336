// SPDX-License-Identifier: Apache-2.0
// What the files of weights share: how one parameter gets values that come from no file.
#ifndef FINETUNED_MODEL_WEIGHTS_FILL_H
#define FINETUNED_MODEL_WEIGHTS_FILL_H

#include "base/param.h"
#include "model/config.h"

// Room for PARAM_TILE rows of any parameter; free it.
enum status weights_buffer(float **out, const struct param_table *table);
// One parameter at random; `rows` from weights_buffer.
void weights_draw(float *arena, const struct param *param, const struct model_config *config, uint64_t seed,
                  float *rows);

#endif
