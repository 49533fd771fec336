// SPDX-License-Identifier: Apache-2.0
// Cross entropy of a few logits a row, in double: it is no part of the time, and losses are summed in double anyway.
#include "model/ops/declare.h"

#include <math.h>

// log of the sum of e^x, its greatest term taken out.
static double row_log_sum(const float *x, size_t n) {
    double greatest = x[0], sum = 0;
    for (size_t i = 1; i < n; i++)
        greatest = x[i] > greatest ? x[i] : greatest;
    for (size_t i = 0; i < n; i++)
        sum += exp(x[i] - greatest);
    return greatest + log(sum);
}

void ISA_NAME(cross_entropy)(double *losses, float *dlogits, const float *logits, const int32_t *labels, size_t rows,
                             size_t n, float scale) {
    for (size_t r = 0; r < rows; r++) {
        const float *x = logits + r * n;
        const double log_sum = row_log_sum(x, n);
        losses[r] = log_sum - x[labels[r]];
        if (!dlogits)
            continue;
        for (size_t i = 0; i < n; i++)
            dlogits[r * n + i] = (float)(scale * (exp(x[i] - log_sum) - ((int32_t)i == labels[r])));
    }
}
