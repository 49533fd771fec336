// SPDX-License-Identifier: Apache-2.0
// The sum of squares of a block of floats, in double: sixteen running sums, so that every vector width up to 16 floats
// adds in the same order, then a tree over the sixteen. A float's square is exact in double; so is the order of sums;
// so are the bits.
#include "model/ops/declare.h"

#define LANES 16

double ISA_NAME(squares)(const float *x, size_t n) {
    double sums[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            sums[lane] += (double)x[i + lane] * (double)x[i + lane];
    for (size_t lane = 0; i < n; i++, lane++)
        sums[lane] += (double)x[i] * (double)x[i];
    for (size_t width = LANES / 2; width > 0; width /= 2)
        for (size_t lane = 0; lane < width; lane++)
            sums[lane] += sums[lane + width];
    return sums[0];
}
