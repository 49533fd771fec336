// SPDX-License-Identifier: Apache-2.0
// The gradient's L2 norm. Blocks are cut by the parameter's shape alone (a 32-row block's slices of NORM_COLUMNS
// columns, an embedding's row, a vector), each is summed by one task, and the blocks' sums are added in table order:
// the same bits for any number of threads, and for any rank that holds only some of the blocks.
#include "optim/state.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define NORM_COLUMNS 256 // columns of a tile block in one norm block: 32 KiB, what a core's first cache holds
#define NORM_TASK 64     // blocks of one task

// Floats of one block of this parameter, and of the unit (32-row block, row, vector) that it must not cross.
static void block_shape(const struct param *param, uint64_t *unit, uint64_t *block) {
    switch (param->layout) {
    case PARAM_TILES:
        *unit = param->shape[1] * PARAM_TILE;
        *block = NORM_COLUMNS * PARAM_TILE;
        return;
    case PARAM_ROWS:
        *unit = *block = param->shape[1];
        return;
    case PARAM_VECTOR:
        break;
    }
    *unit = *block = param->size;
}

// Adds the parameter's blocks at `blocks` (NULL: only counts them); returns their number.
static size_t blocks_cut(struct run *blocks, const struct param *param) {
    uint64_t unit, block;
    size_t n = 0;
    block_shape(param, &unit, &block);
    for (uint64_t start = 0; start < param->size; start += unit)
        for (uint64_t at = 0; at < unit && start + at < param->size; at += block, n++) {
            uint64_t left = unit - at < param->size - start - at ? unit - at : param->size - start - at;
            if (blocks)
                blocks[n] = (struct run){param->offset + start + at, (uint32_t)(left < block ? left : block), 0};
        }
    return n;
}

enum status norm_open(struct norm *norm, const struct param_table *table) {
    *norm = (struct norm){0};
    for (size_t i = 0; i < table->n; i++)
        norm->n += blocks_cut(NULL, &table->at[i]);
    norm->blocks = calloc(norm->n + 1, sizeof *norm->blocks);
    norm->sums = calloc(norm->n + 1, sizeof *norm->sums);
    if (!norm->blocks || !norm->sums) {
        norm_close(norm);
        return status_set(STATUS_SYSTEM, "optimizer: no memory for %zu norm blocks", norm->n);
    }
    for (size_t i = 0, at = 0; i < table->n; i++) {
        at += blocks_cut(norm->blocks + at, &table->at[i]);
        norm->first = table->at[i].bucket < table->frozen ? at : norm->first;
    }
    return STATUS_OK;
}

void norm_close(struct norm *norm) {
    free(norm->blocks);
    free(norm->sums);
    *norm = (struct norm){0};
}

struct norm_work {
    struct norm *norm;
    const struct optim_kernels *kernels;
    const float *gradient;
    size_t first; // block
};

static void norm_task(void *context, size_t task, unsigned thread) {
    (void)thread;
    const struct norm_work *work = context;
    size_t begin = work->first + task * NORM_TASK, left = work->norm->n - begin;
    for (size_t i = begin; i < begin + (left < NORM_TASK ? left : NORM_TASK); i++) {
        const struct run *block = &work->norm->blocks[i];
        work->norm->sums[i] = work->kernels->squares(work->gradient + block->offset, block->n);
    }
}

// The blocks' sums from `first` on, added in their order.
static double norm_squares(struct optimizer *optimizer, const float *gradient, size_t first) {
    struct optimizer_state *state = optimizer->state;
    struct norm_work work = {&state->norm, state->kernels, gradient, first};
    pool_run(optimizer->pool, norm_task, &work, (state->norm.n - first + NORM_TASK - 1) / NORM_TASK);
    double sum = 0;
    for (size_t i = first; i < state->norm.n; i++)
        sum += state->norm.sums[i];
    return sum;
}

double optimizer_norm(struct optimizer *optimizer, const float *gradient) {
    struct optimizer_state *state = optimizer->state;
    return sqrt(norm_squares(optimizer, gradient, state->norm.first));
}

bool optimizer_finite(struct optimizer *optimizer, const float *arena) {
    return isfinite(norm_squares(optimizer, arena, 0));
}
