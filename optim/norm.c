// SPDX-License-Identifier: Apache-2.0
// The gradient's L2 norm. It is summed over pieces that are cut by the parameter's shape alone (base/param.h: a slice
// of a 32-row block, an embedding's row, a vector); each is summed by one task, or by who wrote it, and the pieces'
// sums are added in table order: the same bits for any number of threads, and for any rank that holds only some of
// them.
#include "optim/state.h"

#include <math.h>
#include <stdlib.h>

#define NORM_TASK 128 // pieces of one task: half a megabyte of a matrix

static size_t tasks_of(const struct param *param) {
    return (size_t)((param_sums(param) + NORM_TASK - 1) / NORM_TASK);
}

enum status norm_open(struct norm *norm, const struct param_table *table) {
    size_t n = 0;
    for (size_t i = 0; i < table->n; i++)
        n += tasks_of(&table->at[i]);
    *norm = (struct norm){.tasks = calloc(n + 1, sizeof *norm->tasks), .sums = calloc(table->sums + 1, sizeof(double))};
    if (!norm->tasks || !norm->sums) {
        norm_close(norm);
        return status_set(STATUS_SYSTEM, "optimizer: no memory for %llu sums", (unsigned long long)table->sums);
    }
    for (size_t i = 0; i < table->n; i++) {
        norm->first = table->at[i].bucket < table->frozen ? i + 1 : norm->first;
        for (uint64_t at = 0; at < param_sums(&table->at[i]); at += NORM_TASK)
            norm->tasks[norm->n++] = (struct norm_task){&table->at[i], at};
    }
    return STATUS_OK;
}

void norm_close(struct norm *norm) {
    free(norm->tasks);
    free(norm->sums);
    *norm = (struct norm){0};
}

struct norm_work {
    const struct param_table *table;
    struct norm *norm;
    const struct ops *ops;
    const float *values;
    const struct param *first;  // whose sum counts
    bool summed;                // the matrices' pieces are there already
    const struct row_set *rows; // of the embeddings: the others are 0; NULL: all
};

// The piece behind piece `i` of a parameter (i = -1: the first) that is not known to be 0: adding that would change no
// bit of the sum. At the end the number of its pieces or more.
static uint64_t piece_next(const struct norm_work *work, const struct param *param, uint64_t i) {
    const struct param_table *table = work->table;
    if (!work->rows || param >= table->at + table->embeddings)
        return i + 1;
    uint64_t row = row_set_next(work->rows, param->row + i + 1);
    return row == UINT64_MAX ? UINT64_MAX : row - param->row;
}

static void norm_run(void *context, size_t index, unsigned thread) {
    (void)thread;
    const struct norm_work *work = context;
    const struct norm_task *task = &work->norm->tasks[index];
    const struct param *param = task->param;
    if (param < work->first || (work->summed && param->layout == PARAM_TILES))
        return;
    uint64_t left = param_sums(param) - task->first, end = task->first + (left < NORM_TASK ? left : NORM_TASK);
    for (uint64_t i = piece_next(work, param, task->first - 1); i < end; i = piece_next(work, param, i)) {
        const struct param_piece piece = param_sum(param, i);
        work->norm->sums[param->sums + i] = work->ops->squares(work->values + piece.offset, piece.n);
    }
}

// The sum over the parameters from `first` on.
static double norm_squares(struct optimizer *optimizer, const struct gradient *gradient, size_t first) {
    struct optimizer_state *state = optimizer->state;
    const struct param_table *table = optimizer->table;
    struct norm_work work = {.table = table,
                             .norm = &state->norm,
                             .ops = state->ops,
                             .values = gradient->values,
                             .first = table->at + first,
                             .summed = gradient->summed,
                             .rows = gradient->rows};
    pool_run(optimizer->pool, norm_run, &work, state->norm.n);
    double sum = 0;
    for (const struct param *param = work.first; param < table->at + table->n; param++)
        for (uint64_t i = piece_next(&work, param, UINT64_MAX); i < param_sums(param); i = piece_next(&work, param, i))
            sum += state->norm.sums[param->sums + i];
    return sum;
}

double *optimizer_squares(struct optimizer *optimizer) {
    return ((struct optimizer_state *)optimizer->state)->norm.sums;
}

double optimizer_norm(struct optimizer *optimizer, const struct gradient *gradient) {
    const struct optimizer_state *state = optimizer->state;
    return sqrt(norm_squares(optimizer, gradient, state->norm.first));
}

bool optimizer_finite(struct optimizer *optimizer, const float *arena) {
    bool moments = arena == optimizer->exp_avg || arena == optimizer->exp_avg_sq;
    struct gradient all = {.values = arena, .rows = moments ? rows_moving(optimizer) : NULL};
    return isfinite(norm_squares(optimizer, &all, 0));
}
