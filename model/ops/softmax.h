// SPDX-License-Identifier: Apache-2.0
// One row's softmax, its greatest element subtracted first. A NaN or +inf anywhere makes the whole row NaN.
#ifndef FINETUNED_MODEL_OPS_SOFTMAX_H
#define FINETUNED_MODEL_OPS_SOFTMAX_H

#include "model/ops/lanes.h"
#include "model/ops/math.h"

#include <math.h>
#include <stdbool.h>

// y[i] = e^(scale x[i] - the greatest scale x[i]) for i < n; returns 1 / their sum. With `padded` the lanes behind n up
// to a multiple of LANES are written too, 0. y may be x.
LANES_INLINE float softmax_row(float *y, const float *x, size_t n, float scale, const bool padded) {
    const size_t whole = n / LANES * LANES, rest = n - whole;
    const struct lanes s = lanes_all(scale);
    struct lanes top = lanes_all(-INFINITY), sum = lanes_all(0), last = top;
    for (size_t i = 0; i < whole; i += LANES)
        top = lanes_max(top, lanes_mul(lanes_load(x + i), s));
    if (rest > 0) {
        last = lanes_load_part(x + whole, rest, -INFINITY);
        top = lanes_max(top, lanes_mul(last, s));
    }
    const struct lanes greatest = lanes_all(-lanes_greatest(top));
    for (size_t i = 0; i < whole; i += LANES) {
        const struct lanes e = math_exp(lanes_fma(lanes_load(x + i), s, greatest));
        sum = lanes_add(sum, e);
        lanes_store(y + i, e);
    }
    if (rest > 0) {
        const struct lanes e = math_exp(lanes_fma(last, s, greatest));
        sum = lanes_add(sum, e);
        if (padded)
            lanes_store(y + whole, e);
        else
            lanes_store_part(y + whole, rest, e);
    }
    return 1.0f / lanes_total(sum);
}

#endif
