// SPDX-License-Identifier: Apache-2.0
// AdamW over the flat arenas. An update is pending after optimizer_step until each bucket is next read:
// bucket_current(l) applies it. params_current() does so for all (evaluation, save, export). Rows of the embeddings
// that have no gradient are made up for when they are next read (rows.c): the same bits.
#ifndef FINETUNED_OPTIM_OPTIMIZER_H
#define FINETUNED_OPTIM_OPTIMIZER_H

#include "base/param.h"
#include "base/pool.h"
#include "base/row_set.h"
#include "comm/comm.h"
#include "optim/schedule.h"

#include <stdbool.h>
#include <stdint.h>

struct optimizer_options {
    double beta1, beta2, eps, weight_decay, clip; // clip 0 = off
    struct schedule schedule;
    float *copy; // (table->pairs) the bf16 copy of the weights, kept up to date with them; NULL: none. Borrowed
    const double *shares; // (n_buckets) each bucket's share of the learning rate; NULL: all 1. Copied at open
};

struct optimizer {
    const struct param_table *table;
    struct pool *pool;
    struct optimizer_options options;
    float *weights;    // fp32 master (table->floats), borrowed
    float *exp_avg;    // (table->floats)
    float *exp_avg_sq; // (table->floats)
    uint64_t step;     // updates done, the pending one included
    struct optimizer_pending *pending;
    void *state; // its own: norm blocks, arenas
};

enum status optimizer_open(struct optimizer **out, const struct param_table *table, struct pool *pool, float *weights,
                           const struct optimizer_options *options);
void optimizer_close(struct optimizer *optimizer);

// What a step hands over: the global gradient, the same on every rank.
struct gradient {
    const float *values;        // (table->floats)
    bool summed;                // the squares of the matrices' pieces are in optimizer_squares
    const struct row_set *rows; // of the embeddings that have one; the others' is 0 and is not read. NULL: all
};

// L2 norm over the gradient of all buckets that are not frozen (table->frozen): squares summed in double over fixed
// pieces (param_sum), then the pieces in one fixed order. NaN or infinite if the gradient is.
double optimizer_norm(struct optimizer *optimizer, const struct gradient *gradient);
// Where who writes a gradient may put the sums of its pieces' squares (table->sums); until the next norm.
double *optimizer_squares(struct optimizer *optimizer);
// Whether every value of an arena like the gradient's, frozen buckets included, is finite.
bool optimizer_finite(struct optimizer *optimizer, const float *arena);

// Whether a gradient of this norm (before clipping) can be an update: it is finite, and clipped it is no larger than
// what the second moments, its elements' squares, can hold in float.
bool optimizer_takes(const struct optimizer *optimizer, double norm);
// Makes the update of this gradient pending (it must stay untouched until params_current): step += 1, its learning rate
// is schedule(step-1), times each bucket's share; frozen buckets get none. norm: before clipping. Returns the learning
// rate, without shares.
double optimizer_step(struct optimizer *optimizer, const struct gradient *gradient, double norm);

// Whether bucket l has an update to come: bucket_current(l) may change it.
bool bucket_due(const struct optimizer *optimizer, unsigned l);
// Brings bucket l up to date; nothing to do if it is. Of the embeddings' rows, those that `reads` holds (NULL: all).
void bucket_current(struct optimizer *optimizer, unsigned l, const struct row_set *reads);
// The embeddings' rows that bucket_current(optimizer, 0, reads) may change.
void bucket_rows(const struct optimizer *optimizer, struct row_set *out, const struct row_set *reads);
void params_current(struct optimizer *optimizer);
// Goes on at this step: weights and moments have been loaded, all of them up to date.
void optimizer_resume(struct optimizer *optimizer, uint64_t step);
// Makes the bf16 copy anew, if there is one: where weights were written by others.
void optimizer_copy(struct optimizer *optimizer);

#endif
