// SPDX-License-Identifier: Apache-2.0
#include "model/ops/declare.h"

void ISA_NAME(add)(float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}
