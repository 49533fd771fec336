// SPDX-License-Identifier: Apache-2.0
// GELU in its exact form, y = x P(X < x) with X normal: what Hugging Face calls "gelu". Its slope P(X < x) + x p(x)
// takes the same exponential, so forward makes both, and backward is a product.
#include "model/ops/declare.h"
#include "model/ops/math.h"

LANES_INLINE struct lanes gelu_lanes(struct lanes *slope, struct lanes x) {
    struct lanes below, density;
    math_normal(&below, &density, x);
    *slope = lanes_add(below, lanes_mul(x, density));
    return lanes_mul(x, below);
}

static void row_forward(float *y, float *slope, const float *x, size_t n) {
    struct lanes s;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        lanes_store(y + i, gelu_lanes(&s, lanes_load(x + i)));
        if (slope)
            lanes_store(slope + i, s);
    }
    if (i == n)
        return;
    const struct lanes last = gelu_lanes(&s, lanes_load_part(x + i, n - i, 0));
    lanes_store_part(y + i, n - i, last);
    if (slope)
        lanes_store_part(slope + i, n - i, s);
}

void ISA_NAME(gelu_forward)(float *y, float *slope, const float *x, size_t rows, size_t columns, size_t ld) {
    for (size_t r = 0; r < rows; r++)
        row_forward(y + r * ld, slope ? slope + r * ld : NULL, x + r * ld, columns);
}

void ISA_NAME(gelu_backward)(float *dx, const float *dy, const float *slope, size_t rows, size_t columns, size_t ld) {
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < columns; i++)
            dx[r * ld + i] = dy[r * ld + i] * slope[r * ld + i];
}
