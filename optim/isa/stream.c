// SPDX-License-Identifier: Apache-2.0
// What AdamW reads and writes and no more work than an addition: timed, what the memory allows for an update.
#include "optim/kernels.h"

void ISA_NAME(optim_stream)(float *w, float *m, float *v, const float *g, size_t n);

void ISA_NAME(optim_stream)(float *restrict w, float *restrict m, float *restrict v, const float *restrict g,
                            size_t n) {
    for (size_t i = 0; i < n; i++) {
        w[i] += g[i];
        m[i] += g[i];
        v[i] += g[i];
    }
}
