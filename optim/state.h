// SPDX-License-Identifier: Apache-2.0
// What the files of optim/ share among themselves.
#ifndef FINETUNED_OPTIM_STATE_H
#define FINETUNED_OPTIM_STATE_H

#include "base/arena.h"
#include "optim/kernels.h"
#include "optim/optimizer.h"

// A run of floats of one parameter: a task of the update, or a block of the norm.
struct run {
    uint64_t offset; // floats from the arena's start
    uint32_t n;      // floats
    uint32_t decay;  // whether weight decay applies (update only)
};

struct norm {
    struct run *blocks; // in table order
    double *sums;       // (n) squares of each
    size_t n;
    size_t first; // the first block that is not of a frozen bucket
};

struct optimizer_state {
    struct arena arena; // both moments
    const struct optim_kernels *kernels;
    struct run *runs;    // of the update, bucket after bucket
    size_t *bucket_runs; // (n_buckets + 1): bucket l has runs bucket_runs[l] .. bucket_runs[l+1]
    double *shares;      // (n_buckets) of the learning rate
    struct norm norm;
};

// Cuts the table into the norm's blocks.
enum status norm_open(struct norm *norm, const struct param_table *table);
void norm_close(struct norm *norm);

#endif
