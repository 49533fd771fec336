// SPDX-License-Identifier: Apache-2.0
// Mean and spread of a few numbers, and of the differences of two rows of them.
#ifndef FINETUNED_DAEMON_SWEEP_SPREAD_H
#define FINETUNED_DAEMON_SWEEP_SPREAD_H

#include <stddef.h>

// What is NaN counts as not there. All NaN where there is nothing.
struct spread {
    size_t n;
    double mean;
    double sd; // of the sample, over n - 1: NaN below 2
    double least, most;
};
struct spread spread_of(const double *values, size_t n);

// a[i] - b[i] where both are there.
struct paired {
    struct spread difference;
    double error;              // standard error of the mean difference, sd / sqrt(n)
    size_t wins, losses, ties; // a above b, below, equal
};
struct paired paired_of(const double *a, const double *b, size_t n);

#endif
