// SPDX-License-Identifier: Apache-2.0
#include "model/ops/declare.h"
#include "model/ops/tree.h"

#include <math.h>

void ISA_NAME(gemm_weight_tile)(float *dblock, const float *dy, size_t ldy, const float *x, size_t ldx,
                                const uint32_t *offsets, uint32_t parts, size_t k0, size_t k1, size_t columns) {
    float stack[TREE_LEVELS][32], sums[32];
    for (size_t k = k0; k < k1; k++) {
        for (uint32_t p = 0; p < parts; p++) {
            memset(sums, 0, sizeof sums);
            for (size_t t = offsets[p]; t < offsets[p + 1]; t++)
                for (size_t n = 0; n < columns; n++)
                    sums[n] = fmaf(x[t * ldx + k], dy[t * ldy + n], sums[n]);
            tree_push(stack[0], sums, p, 32);
        }
        memcpy(dblock + k * 32, stack[tree_root(parts)], sizeof sums);
    }
}
