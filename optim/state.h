// SPDX-License-Identifier: Apache-2.0
// What the files of optim/ share among themselves.
#ifndef FINETUNED_OPTIM_STATE_H
#define FINETUNED_OPTIM_STATE_H

#include "base/arena.h"
#include "model/ops.h"
#include "optim/kernels.h"
#include "optim/optimizer.h"

// A run of floats of one parameter: a task of the update.
struct run {
    uint64_t offset; // floats from the arena's start
    uint32_t n;      // floats
    uint32_t decay;  // whether weight decay applies
};

// Pieces of one parameter (param_sum) that one task sums, from `first` on.
struct norm_task {
    const struct param *param;
    uint64_t first;
};

struct norm {
    struct norm_task *tasks; // in table order
    size_t n;
    double *sums; // (table->sums) squares of each piece
    size_t first; // the first parameter that is not of a frozen bucket
};

struct optimizer_state {
    struct arena arena; // both moments
    const struct optim_kernels *kernels;
    const struct ops *ops; // of the same instruction set
    struct run *runs;      // of the update, bucket after bucket
    size_t *bucket_runs;   // (n_buckets + 1): bucket l has runs bucket_runs[l] .. bucket_runs[l+1]
    double *shares;        // (n_buckets) of the learning rate
    struct norm norm;
};

// Cuts the table into the norm's tasks.
enum status norm_open(struct norm *norm, const struct param_table *table);
void norm_close(struct norm *norm);

#endif
