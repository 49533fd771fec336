// SPDX-License-Identifier: Apache-2.0
#include "model/ops/declare.h"
#include "model/ops/math.h"

void ISA_NAME(tanh_forward)(float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] = math_tanh(x[i]);
}

void ISA_NAME(tanh_backward)(float *dx, const float *dy, const float *y, size_t n) {
    for (size_t i = 0; i < n; i++)
        dx[i] = dy[i] * (1.0f - y[i] * y[i]);
}
