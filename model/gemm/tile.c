// SPDX-License-Identifier: Apache-2.0
#include "model/ops/declare.h"

#include <math.h>

void ISA_NAME(gemm_tile)(float *y, size_t ldy, const float *x, size_t ldx, const float *block, const float *bias,
                         size_t rows, size_t k, size_t columns, bool accumulate) {
    for (size_t m = 0; m < rows; m++)
        for (size_t n = 0; n < columns; n++) {
            float sum = accumulate ? y[m * ldy + n] : bias ? bias[n] : 0.0f;
            for (size_t i = 0; i < k; i++)
                sum = fmaf(x[m * ldx + i], block[i * 32 + n], sum);
            y[m * ldy + n] = sum;
        }
}
