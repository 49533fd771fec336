// SPDX-License-Identifier: Apache-2.0
// What the processor can do: the rate of multiply-adds that never leave the registers.
#ifndef FINETUNED_MODEL_PEAK_H
#define FINETUNED_MODEL_PEAK_H

#include "base/pool.h"
#include "model/ops.h"

// FLOPs a second of all threads of the pool at once, each by its own time on a core: what it waited for its turn does
// not count. Some ten milliseconds. STATUS_SYSTEM if there is no memory.
// `bf16`: of products of bf16 pairs, else of floats.
enum status peak_measure(double *flops_per_s, const struct ops *ops, struct pool *pool, bool bf16);

#endif
