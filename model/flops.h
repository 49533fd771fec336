// SPDX-License-Identifier: Apache-2.0
// What a forward pass costs, counted by what the answer needs (docs/numerics.md).
#ifndef FINETUNED_MODEL_FLOPS_H
#define FINETUNED_MODEL_FLOPS_H

#include "base/param.h"
#include "model/config.h"

// FLOPs of a forward pass over `texts` texts of `tokens` tokens in all; `squares`: the sum of their squared lengths. A
// classifier computes of the last layer only keys and values for every token, the rest for
// each text's first row; question answering computes everything for every token. Embeddings are not counted.
double flops_forward(const struct param_table *table, const struct model_config *config, double tokens, double squares,
                     double texts);
// Of a step: a forward pass and twice its share of the layers that are trained (table->frozen).
double flops_step(const struct param_table *table, const struct model_config *config, double tokens, double squares,
                  double texts);

#endif
