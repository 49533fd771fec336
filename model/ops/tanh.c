// SPDX-License-Identifier: Apache-2.0
#include "model/ops/declare.h"
#include "model/ops/math.h"

void ISA_NAME(tanh_forward)(float *y, const float *x, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        lanes_store(y + i, math_tanh(lanes_load(x + i)));
    if (i < n)
        lanes_store_part(y + i, n - i, math_tanh(lanes_load_part(x + i, n - i, 0)));
}

void ISA_NAME(tanh_backward)(float *dx, const float *dy, const float *y, size_t n) {
    for (size_t i = 0; i < n; i++)
        dx[i] = dy[i] * (1.0f - y[i] * y[i]);
}
