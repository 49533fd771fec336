// SPDX-License-Identifier: Apache-2.0
// The optimizer's kernels (optim/isa/), compiled once for each instruction set. They give the same bits on every set:
// elementwise or in a fixed order, square root and division exact, no contraction into fused multiply-adds.
#ifndef FINETUNED_OPTIM_KERNELS_H
#define FINETUNED_OPTIM_KERNELS_H

#include "base/isa.h"

#include <stddef.h>

// One update's numbers, the same for all elements of a parameter; made in double, rounded once.
struct adamw_rates {
    float scale;                              // clipping: the gradient is multiplied by it
    float keep;                               // 1 - lr * weight decay; 1 where decay is off
    float beta1, beta2, one_beta1, one_beta2; // one_x = 1 - x
    float step;                               // lr / (1 - beta1^t)
    float root;                               // 1 / sqrt(1 - beta2^t)
    float eps;
};

struct optim_kernels {
    // n elements of weights, both moments and the gradient. Arenas don't overlap.
    void (*adamw)(float *w, float *m, float *v, const float *g, size_t n, const struct adamw_rates *rates);
    // The same with a gradient of 0.
    void (*adamw_still)(float *w, float *m, float *v, size_t n, const struct adamw_rates *rates);
    // The same with both moments 0 too.
    void (*decay)(float *w, size_t n, float keep);
    // For measurements: reads and writes what adamw does (stream.c).
    void (*stream)(float *w, float *m, float *v, const float *g, size_t n);
};

// The table of an instruction set; NULL if this build lacks it.
const struct optim_kernels *optim_kernels(enum isa isa);

#endif
