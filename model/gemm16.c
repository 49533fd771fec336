// SPDX-License-Identifier: Apache-2.0
// Operands are rounded into buffers of pairs (gemm/pairs.h); since a pair is as wide as a float, the products are then
// those of model/gemm.c over half the summed dimension, with the kernels for pairs in the place of those for floats.
#include "model/gemm16.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

#define ROWS_A_TASK 16

struct gemm16 {
    struct gemm *gemm;
    struct pool *pool;
    struct ops ops; // of the instruction set, its tile kernels those of pairs
    struct arena arena;
    float *x, *dy;     // pairs: (rows, width / 2), or half as many rows, of all columns
    float *wide;       // (rows, width + 1) floats: dx, where its rows have an odd number of columns
    uint32_t *offsets; // (parts + 1) where each part's rows of pairs begin
};

static size_t pairs_of(size_t n) {
    return n / 2 + n % 2;
}

static void ops_take(struct gemm16 *gemm, const struct ops *ops) {
    gemm->ops = *ops;
    gemm->ops.gemm_tile = ops->gemm_tile_pairs;
    gemm->ops.gemm_weight_tile = ops->gemm_weight_tile_pairs;
    gemm->ops.gemm_transpose = ops->gemm_transpose_pairs;
}

// Rows of pairs of the most rows: each part may have one that is odd.
static size_t room_rows(const struct gemm16_room *room) {
    const size_t odd = room->parts < room->rows ? room->parts : room->rows;
    return (room->rows + odd) / 2;
}

static enum status buffers_open(struct gemm16 *gemm, const struct gemm16_room *room) {
    const size_t width = room->width + room->width % 2;
    gemm->offsets = malloc(((size_t)room->parts + 1) * sizeof *gemm->offsets);
    if (!gemm->offsets || room->rows > SIZE_MAX / 64 / (width + 1))
        return status_set(STATUS_SYSTEM, "gemm: no memory for %zu rows", room->rows);
    const size_t pairs = (room_rows(room) + 1) * width * sizeof(float);
    const size_t wide = room->odd ? room->rows * (width + 1) * sizeof(float) : 0;
    TRY(arena_init(&gemm->arena, 2 * arena_piece(pairs) + arena_piece(wide), true));
    gemm->x = arena_take(&gemm->arena, pairs);
    gemm->dy = arena_take(&gemm->arena, pairs);
    gemm->wide = arena_take(&gemm->arena, wide);
    return STATUS_OK;
}

enum status gemm16_open(struct gemm16 **out, struct pool *pool, const struct ops *ops, const struct gemm16_room *room) {
    *out = NULL;
    struct gemm16 *gemm = calloc(1, sizeof *gemm);
    if (!gemm)
        return status_set(STATUS_SYSTEM, "gemm: no memory");
    gemm->pool = pool;
    ops_take(gemm, ops);
    enum status status = gemm_open(&gemm->gemm, pool, &gemm->ops);
    if (status == STATUS_OK)
        status = buffers_open(gemm, room);
    if (status != STATUS_OK) {
        gemm16_close(gemm);
        return status;
    }
    *out = gemm;
    return STATUS_OK;
}

void gemm16_close(struct gemm16 *gemm) {
    if (!gemm)
        return;
    gemm_close(gemm->gemm);
    arena_release(&gemm->arena);
    free(gemm->offsets);
    free(gemm);
}

void gemm16_use(struct gemm16 *gemm, const struct ops *ops) {
    ops_take(gemm, ops);
    gemm_use(gemm->gemm, &gemm->ops);
}

uint64_t gemm16_bytes(const struct gemm16 *gemm) {
    return gemm->arena.size;
}

// Rounding a matrix: (rows, columns) into rows of pairs, of neighbours in a row or of neighbouring rows of a part.
struct rounding {
    const struct gemm16 *gemm;
    float *to;
    const float *from;
    size_t ld, rows, columns; // floats between rows of `from`; rows of `to`
    const uint32_t *offsets;  // of the parts' rows of `from`; those of `to`: gemm->offsets
    void (*rows_fn)(float *to, const float *even, const float *odd, size_t n);
};

static size_t task_end(const struct rounding *r, size_t task) {
    const size_t end = (task + 1) * ROWS_A_TASK;
    return end < r->rows ? end : r->rows;
}

static void row_task(void *context, size_t task, unsigned thread) {
    const struct rounding *r = context;
    (void)thread;
    for (size_t i = task * ROWS_A_TASK; i < task_end(r, task); i++)
        r->gemm->ops.pairs_row(r->to + i * pairs_of(r->columns), r->from + i * r->ld, r->columns);
}

static void rows_task(void *context, size_t task, unsigned thread) {
    const struct rounding *r = context;
    const uint32_t *pairs = r->gemm->offsets;
    uint32_t part = 0;
    (void)thread;
    for (size_t i = task * ROWS_A_TASK; i < task_end(r, task); i++) {
        while (pairs[part + 1] <= i)
            part++;
        const size_t row = r->offsets[part] + 2 * (i - pairs[part]);
        const float *even = r->from + row * r->ld, *odd = row + 1 < r->offsets[part + 1] ? even + r->ld : NULL;
        r->rows_fn(r->to + i * r->columns, even, odd, r->columns);
    }
}

static void rounding_run(struct rounding *r, pool_task *fn) {
    if (r->rows > 0)
        pool_run(r->gemm->pool, fn, r, (r->rows + ROWS_A_TASK - 1) / ROWS_A_TASK);
}

static void rows_round(const struct gemm16 *gemm, float *to, const float *from, size_t ld, size_t rows,
                       size_t columns) {
    struct rounding r = {.gemm = gemm, .to = to, .from = from, .ld = ld, .rows = rows, .columns = columns};
    rounding_run(&r, row_task);
}

void gemm16_forward(struct gemm16 *gemm, float *y, size_t ldy, const float *x, size_t ldx, const float *copy,
                    const float *bias, size_t m, size_t n, size_t k, float *kept) {
    float *pairs = kept ? kept : gemm->x;
    rows_round(gemm, pairs, x, ldx, m, k);
    gemm_forward(gemm->gemm, y, ldy, pairs, pairs_of(k), copy, bias, m, n, pairs_of(k));
}

static void rows_copy(float *to, size_t ld_to, const float *from, size_t ld_from, size_t rows, size_t columns) {
    for (size_t i = 0; i < rows; i++)
        memcpy(to + i * ld_to, from + i * ld_from, columns * sizeof *to);
}

// A block of weights begins at a multiple of its rows' length that gemm_input reckons from the number of columns; so
// that is made even. (No model in use has an odd one.)
static void input_odd(struct gemm16 *gemm, float *dx, size_t ldx, const float *copy, size_t m, size_t n, size_t k,
                      bool accumulate) {
    if (accumulate)
        rows_copy(gemm->wide, k + 1, dx, ldx, m, k);
    gemm_input(gemm->gemm, gemm->wide, k + 1, gemm->dy, pairs_of(n), copy, m, pairs_of(n), k + 1, accumulate);
    rows_copy(dx, ldx, gemm->wide, k + 1, m, k);
}

void gemm16_input(struct gemm16 *gemm, float *dx, size_t ldx, const float *dy, size_t ldy, const float *copy, size_t m,
                  size_t n, size_t k, bool accumulate) {
    rows_round(gemm, gemm->dy, dy, ldy, m, n);
    if (k % 2)
        input_odd(gemm, dx, ldx, copy, m, n, k, accumulate);
    else
        gemm_input(gemm->gemm, dx, ldx, gemm->dy, pairs_of(n), copy, m, pairs_of(n), k, accumulate);
}

static void weight_run(struct gemm16 *gemm, float *dtiles, struct rounding *x, struct rounding *dy, uint32_t parts,
                       double *squares) {
    gemm->offsets[0] = 0;
    for (uint32_t p = 0; p < parts; p++)
        gemm->offsets[p + 1] = gemm->offsets[p] + (uint32_t)pairs_of(x->offsets[p + 1] - x->offsets[p]);
    x->rows = dy->rows = gemm->offsets[parts];
    rounding_run(x, rows_task);
    rounding_run(dy, rows_task);
    gemm_weight(gemm->gemm, dtiles, gemm->dy, dy->columns, gemm->x, x->columns, gemm->offsets, parts, dy->columns,
                x->columns, squares);
}

void gemm16_weight(struct gemm16 *gemm, float *dtiles, const float *dy, size_t ldy, const float *x, size_t ldx,
                   const uint32_t *offsets, uint32_t parts, size_t n, size_t k, double *squares) {
    struct rounding rx = {gemm, gemm->x, x, ldx, 0, k, offsets, gemm->ops.pairs_rows};
    struct rounding rdy = {gemm, gemm->dy, dy, ldy, 0, n, offsets, gemm->ops.pairs_rows};
    weight_run(gemm, dtiles, &rx, &rdy, parts, squares);
}

void gemm16_weight_kept(struct gemm16 *gemm, float *dtiles, const float *dy, size_t ldy, const float *kept,
                        const uint32_t *offsets, uint32_t parts, size_t n, size_t k, double *squares) {
    struct rounding rx = {gemm, gemm->x, kept, pairs_of(k), 0, k, offsets, gemm->ops.pairs_rows_kept};
    struct rounding rdy = {gemm, gemm->dy, dy, ldy, 0, n, offsets, gemm->ops.pairs_rows};
    weight_run(gemm, dtiles, &rx, &rdy, parts, squares);
}
