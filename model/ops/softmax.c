// SPDX-License-Identifier: Apache-2.0
#include "model/ops/declare.h"
#include "model/ops/softmax.h"

void ISA_NAME(softmax)(float *y, const float *x, size_t rows, size_t n) {
    for (size_t r = 0; r < rows; r++, x += n, y += n) {
        const float inverse = softmax_row(y, x, n, 1, false);
        for (size_t i = 0; i < n; i++)
            y[i] *= inverse;
    }
}
