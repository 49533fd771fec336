// SPDX-License-Identifier: Apache-2.0
#include "model/ops/declare.h"
#include "model/ops/softmax.h"

// Rows whose length is no multiple of 16: the same in pieces, the last one padded with -inf.
static void softmax_row(float *y, const float *x, size_t n) {
    struct lanes top = lanes_all(-INFINITY), sum = lanes_all(0);
    float piece[LANES];
    for (size_t i = 0; i < n; i += LANES)
        top = lanes_max(top, n - i < LANES ? lanes_load_part(x + i, n - i, -INFINITY) : lanes_load(x + i));
    const float greatest = lanes_greatest(top);
    for (size_t i = 0; i < n; i += LANES) {
        const size_t here = n - i < LANES ? n - i : LANES;
        for (size_t l = 0; l < LANES; l++)
            piece[l] = l < here ? x[i + l] - greatest : -INFINITY;
        for (size_t l = 0; l < LANES; l++)
            piece[l] = math_exp(piece[l]);
        sum = lanes_add(sum, lanes_load(piece));
        memcpy(y + i, piece, here * sizeof(float));
    }
    const float inverse = 1.0f / lanes_total(sum);
    for (size_t i = 0; i < n; i++)
        y[i] *= inverse;
}

void ISA_NAME(softmax)(float *y, const float *x, size_t rows, size_t n) {
    for (size_t r = 0; r < rows; r++)
        softmax_row(y + r * n, x + r * n, n);
}
