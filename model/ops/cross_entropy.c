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

// As torch's cross_entropy_loss_label_smoothing (ATen/native/LossNLL.cpp), without its division.
static double target(const struct targets *targets, size_t i, int32_t label, size_t n) {
    double share = targets->smoothing / (double)n + ((int32_t)i == label ? 1 - targets->smoothing : 0);
    return targets->weights ? targets->weights[i] * share : share;
}

static double row_targets(float *dx, const float *x, double log_sum, int32_t label, size_t n, float scale,
                          const struct targets *targets) {
    double loss = 0, sum = 0;
    for (size_t i = 0; i < n; i++) {
        double q = target(targets, i, label, n);
        sum += q;
        loss += q != 0 ? q * (log_sum - x[i]) : 0; // a logit that is -infinite does not matter where nothing is asked
    }
    for (size_t i = 0; dx && i < n; i++)
        dx[i] = (float)(scale * (sum * exp(x[i] - log_sum) - target(targets, i, label, n)));
    return loss;
}

static double row_label(float *dx, const float *x, double log_sum, int32_t label, size_t n, float scale) {
    for (size_t i = 0; dx && i < n; i++)
        dx[i] = (float)(scale * (exp(x[i] - log_sum) - ((int32_t)i == label)));
    return log_sum - x[label];
}

void ISA_NAME(cross_entropy)(double *losses, float *dlogits, const float *logits, const int32_t *labels, size_t rows,
                             size_t n, float scale, const struct targets *targets) {
    for (size_t r = 0; r < rows; r++) {
        const float *x = logits + r * n;
        float *dx = dlogits ? dlogits + r * n : NULL;
        const double log_sum = row_log_sum(x, n);
        losses[r] = targets ? row_targets(dx, x, log_sum, labels[r], n, scale, targets)
                            : row_label(dx, x, log_sum, labels[r], n, scale);
    }
}
