// SPDX-License-Identifier: Apache-2.0
// GELU in its exact form, x P(X < x) with X normal: what Hugging Face calls "gelu".
#include "model/ops/declare.h"
#include "model/ops/math.h"

void ISA_NAME(gelu_forward)(float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float below, density;
        math_normal(&below, &density, x[i]);
        y[i] = x[i] * below;
    }
}

void ISA_NAME(gelu_backward)(float *dx, const float *dy, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float below, density;
        math_normal(&below, &density, x[i]);
        dx[i] = dy[i] * (below + x[i] * density);
    }
}
