// SPDX-License-Identifier: Apache-2.0
// What the files of optim/ share among themselves.
#ifndef FINETUNED_OPTIM_STATE_H
#define FINETUNED_OPTIM_STATE_H

#include "base/arena.h"
#include "base/row_set.h"
#include "model/ops.h"
#include "optim/kernels.h"
#include "optim/optimizer.h"

// A run of floats of one parameter: a task of the update.
struct run {
    uint64_t offset; // floats from the arena's start
    uint64_t pairs;  // of PARAM_TILES: from the bf16 copy's start
    uint32_t n;      // floats
    bool decay;      // whether weight decay applies
    bool copied;     // PARAM_TILES: has a bf16 copy
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

struct optimizer_pending {
    const float *gradient; // borrowed until no bucket is due
    float scale;           // of clipping
    size_t n_due;          // buckets still to be brought up to date
    bool *due;             // (n_buckets)
};

#define ROWS_RATES 2048u // steps whose rates are kept

// The rows of the embeddings (rows.c).
struct rows {
    uint64_t *current;         // (table->rows) the step that weights and moments are of
    bool *moves;               // (table->rows) the moments may be other than 0
    struct row_set moving;     // those that `moves` names (rows_moving)
    struct row_set due;        // rows with a gradient in the pending update
    bool behind;               // some may be of an earlier step
    struct adamw_rates *rates; // (ROWS_RATES) of step % ROWS_RATES, with decay
    uint32_t *list;            // (table->rows) what tasks work on
};

struct optimizer_state {
    struct arena arena; // both moments
    const struct optim_kernels *kernels;
    const struct ops *ops; // of the same instruction set
    struct run *runs;      // of the update, bucket after bucket
    size_t *bucket_runs;   // (n_buckets + 1): bucket l has runs bucket_runs[l] .. bucket_runs[l+1]
    double *shares;        // (n_buckets) of the learning rate
    struct rows rows;
    struct norm norm;
};

// The rates of bucket l in update number `step` (from 1), with decay.
struct adamw_rates rates_at(const struct optimizer *optimizer, unsigned l, uint64_t step, float scale);

enum status rows_open(struct rows *rows, const struct param_table *table);
void rows_close(struct rows *rows);
// The update of optimizer->step becomes pending, with a gradient for `rows` (NULL: all).
void rows_note(struct optimizer *optimizer, const struct row_set *rows);
// Makes it for these rows.
void rows_update(struct optimizer *optimizer);
// Then what `reads` (NULL: all rows) have missed.
void rows_current(struct optimizer *optimizer, const struct row_set *reads);
// The rows whose moments may be other than 0. Until the next call.
const struct row_set *rows_moving(struct optimizer *optimizer);
// All rows are of optimizer->step, their moments just loaded.
void rows_resume(struct optimizer *optimizer);

// Cuts the table into the norm's tasks.
enum status norm_open(struct norm *norm, const struct param_table *table);
void norm_close(struct norm *norm);

#endif
