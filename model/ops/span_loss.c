// SPDX-License-Identifier: Apache-2.0
// The loss of an answer's first and last token (Devlin et al. 2018, section 4.2), in double, one chain a column: it is
// no part of the time.
#include "model/ops/declare.h"

#include <math.h>

// log of the sum of e^x over a column of (length, 2), its greatest term taken out.
static double column_log_sum(const float *x, size_t length) {
    double greatest = (double)x[0], sum = 0;
    for (size_t t = 1; t < length; t++)
        greatest = (double)x[2 * t] > greatest ? (double)x[2 * t] : greatest;
    for (size_t t = 0; t < length; t++)
        sum += exp((double)x[2 * t] - greatest);
    return greatest + log(sum);
}

// Cross entropy of one column against token `at`; d (length, 2) = scale * (softmax - onehot) unless NULL.
static double column_loss(float *d, const float *x, size_t at, size_t length, double scale) {
    double log_sum = column_log_sum(x, length);
    for (size_t t = 0; d && t < length; t++)
        d[2 * t] = (float)(scale * (exp((double)x[2 * t] - log_sum) - (t == at)));
    return log_sum - (double)x[2 * at];
}

double ISA_NAME(span_loss)(float *dlogits, const float *logits, int32_t start, int32_t end, size_t length,
                           float scale) {
    double half = (double)scale / 2;
    double first = column_loss(dlogits, logits, (size_t)start, length, half);
    double last = column_loss(dlogits ? dlogits + 1 : NULL, logits + 1, (size_t)end, length, half);
    return (first + last) / 2;
}
