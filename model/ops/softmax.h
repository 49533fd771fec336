// SPDX-License-Identifier: Apache-2.0
// One row's softmax, its greatest element subtracted first. A NaN or +inf anywhere makes the whole row NaN.
#ifndef FINETUNED_MODEL_OPS_SOFTMAX_H
#define FINETUNED_MODEL_OPS_SOFTMAX_H

#include "model/ops/lanes.h"
#include "model/ops/math.h"

// y[i] = e^(x[i] - max) / sum, n a multiple of LANES; y may be x. Elements of -inf get 0.
static inline void softmax_lanes(float *y, const float *x, size_t n) {
    struct lanes top = lanes_load(x);
    for (size_t i = LANES; i < n; i += LANES)
        top = lanes_max(top, lanes_load(x + i));
    const float greatest = lanes_greatest(top);
    struct lanes sum = lanes_all(0);
    for (size_t i = 0; i < n; i += LANES) {
        for (size_t l = 0; l < LANES; l++)
            y[i + l] = math_exp(x[i + l] - greatest);
        sum = lanes_add(sum, lanes_load(y + i));
    }
    const float inverse = 1.0f / lanes_total(sum);
    for (size_t i = 0; i < n; i++)
        y[i] *= inverse;
}

#endif
