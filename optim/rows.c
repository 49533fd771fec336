// SPDX-License-Identifier: Apache-2.0
// The rows of the embeddings. A batch reads a few hundred of fifty thousand; a dense update would stream them all, six
// arrays of 154 MB for RoBERTa-base, to move most by nothing or by what is left of their moments. So a row has the step
// that it is of:
//
//   with a gradient in the step          updated by it when the bucket is brought up to date
//   without one                          left as it is, until a batch reads it or all is brought up to date; then the
//                                        steps that it has missed are made one after the other by the dense kernel's
//                                        own function, with a gradient of 0 and each step's rates: the same bits
//   without one, its moments still 0     each missed step is a multiplication by 1 - lr * weight decay; without decay
//                                        nothing. Its moments are never written, so their memory is never resident
//
// (The dense update would also flush a weight that is denormal to 0; here it stays what it was until its row moves or
// decays. Whoever reads it takes it as 0 in either case.)
#include "optim/state.h"

#include <stdlib.h>

#define ROWS_TASK 4 // rows of one task: the steps that they have missed differ

enum status rows_open(struct rows *rows, const struct param_table *table) {
    size_t n = (size_t)table->rows;
    *rows = (struct rows){.current = calloc(n + 1, sizeof *rows->current),
                          .moves = calloc(n + 1, sizeof *rows->moves),
                          .list = calloc(n + 1, sizeof *rows->list),
                          .rates = calloc(ROWS_RATES, sizeof *rows->rates)};
    if (!rows->current || !rows->moves || !rows->list || !rows->rates)
        return status_set(STATUS_SYSTEM, "optimizer: no memory for %zu rows", n);
    TRY(row_set_init(&rows->moving, table));
    return row_set_init(&rows->due, table);
}

void rows_close(struct rows *rows) {
    free(rows->current);
    free(rows->moves);
    free(rows->list);
    free(rows->rates);
    row_set_release(&rows->moving);
    row_set_release(&rows->due);
}

// A row's floats and whether it decays.
struct row {
    float *w, *m, *v;
    struct param_piece piece;
    bool decay;
};

static struct row row_at(const struct optimizer *optimizer, uint64_t index) {
    const struct param *param = row_param(optimizer->table, index);
    const struct param_piece piece = param_sum(param, index - param->row);
    return (struct row){optimizer->weights + piece.offset, optimizer->exp_avg + piece.offset,
                        optimizer->exp_avg_sq + piece.offset, piece,
                        param->decay && optimizer->options.weight_decay > 0};
}

// The rates of a step; those of the last ROWS_RATES are kept.
static struct adamw_rates rows_rates(const struct optimizer *optimizer, uint64_t step) {
    const struct optimizer_state *state = optimizer->state;
    if (step + ROWS_RATES > optimizer->step)
        return state->rows.rates[step % ROWS_RATES];
    return rates_at(optimizer, 0, step, 1);
}

// Makes the steps behind the one that the row is of, up to `step`.
static void row_replay(const struct optimizer *optimizer, uint64_t index, uint64_t step) {
    struct optimizer_state *state = optimizer->state;
    const struct row row = row_at(optimizer, index);
    bool moves = state->rows.moves[index];
    for (uint64_t s = state->rows.current[index] + 1; s <= step && (moves || row.decay); s++) {
        struct adamw_rates rates = rows_rates(optimizer, s);
        rates.keep = row.decay ? rates.keep : 1;
        if (moves)
            state->kernels->adamw_still(row.w, row.m, row.v, row.piece.n, &rates);
        else
            state->kernels->decay(row.w, row.piece.n, rates.keep);
    }
    state->rows.current[index] = step;
}

static void row_update(const struct optimizer *optimizer, uint64_t index) {
    struct optimizer_state *state = optimizer->state;
    const struct row row = row_at(optimizer, index);
    row_replay(optimizer, index, optimizer->step - 1);
    struct adamw_rates rates = rows_rates(optimizer, optimizer->step);
    rates.scale = optimizer->pending->scale;
    rates.keep = row.decay ? rates.keep : 1;
    state->kernels->adamw(row.w, row.m, row.v, optimizer->pending->gradient + row.piece.offset, row.piece.n, &rates);
    state->rows.moves[index] = true;
    state->rows.current[index] = optimizer->step;
}

struct rows_work {
    const struct optimizer *optimizer;
    void (*run)(const struct optimizer *optimizer, uint64_t index);
    size_t n; // of rows.list
};

static void rows_task(void *context, size_t task, unsigned thread) {
    (void)thread;
    const struct rows_work *work = context;
    const struct optimizer_state *state = work->optimizer->state;
    for (size_t i = task * ROWS_TASK; i < work->n && i < (task + 1) * ROWS_TASK; i++)
        work->run(work->optimizer, state->rows.list[i]);
}

static void rows_run(struct optimizer *optimizer, size_t n,
                     void (*run)(const struct optimizer *optimizer, uint64_t index)) {
    struct rows_work work = {optimizer, run, n};
    pool_run(optimizer->pool, rows_task, &work, (n + ROWS_TASK - 1) / ROWS_TASK);
}

void rows_note(struct optimizer *optimizer, const struct row_set *rows) {
    struct optimizer_state *state = optimizer->state;
    state->rows.rates[optimizer->step % ROWS_RATES] = rates_at(optimizer, 0, optimizer->step, 1);
    state->rows.behind = true;
    if (rows)
        row_set_copy(&state->rows.due, rows);
    else
        row_set_fill(&state->rows.due, optimizer->table);
}

void rows_update(struct optimizer *optimizer) {
    struct rows *rows = &((struct optimizer_state *)optimizer->state)->rows;
    size_t n = 0;
    for (uint64_t row = row_set_next(&rows->due, 0); row != UINT64_MAX; row = row_set_next(&rows->due, row + 1))
        rows->list[n++] = (uint32_t)row;
    rows_run(optimizer, n, row_update);
}

static void row_current(const struct optimizer *optimizer, uint64_t index) {
    row_replay(optimizer, index, optimizer->step);
}

void rows_current(struct optimizer *optimizer, const struct row_set *reads) {
    struct rows *rows = &((struct optimizer_state *)optimizer->state)->rows;
    size_t n = 0;
    if (!rows->behind)
        return;
    for (uint64_t row = reads ? row_set_next(reads, 0) : 0; row < optimizer->table->rows;
         row = reads ? row_set_next(reads, row + 1) : row + 1)
        if (rows->current[row] < optimizer->step)
            rows->list[n++] = (uint32_t)row;
    rows_run(optimizer, n, row_current);
    rows->behind = reads != NULL;
}

// A set is made of it here, since tasks that share a word of a set could not add to it.
const struct row_set *rows_moving(struct optimizer *optimizer) {
    struct rows *rows = &((struct optimizer_state *)optimizer->state)->rows;
    row_set_clear(&rows->moving);
    for (uint64_t row = 0; row < optimizer->table->rows; row++)
        if (rows->moves[row])
            row_set_add(&rows->moving, row);
    return &rows->moving;
}

// ---- after a checkpoint's moments have been read

static void row_resume(const struct optimizer *optimizer, uint64_t index) {
    struct optimizer_state *state = optimizer->state;
    const struct row row = row_at(optimizer, index);
    state->rows.moves[index] = !floats_are_zero(row.m, row.piece.n) || !floats_are_zero(row.v, row.piece.n);
    state->rows.current[index] = optimizer->step;
}

void rows_resume(struct optimizer *optimizer) {
    struct rows *rows = &((struct optimizer_state *)optimizer->state)->rows;
    for (uint64_t row = 0; row < optimizer->table->rows; row++)
        rows->list[row] = (uint32_t)row;
    rows_run(optimizer, (size_t)optimizer->table->rows, row_resume);
    rows->behind = false;
}
