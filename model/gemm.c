// SPDX-License-Identifier: Apache-2.0
// Cuts the three products into tasks: row blocks times runs of column blocks, by shape alone, so that a result never
// depends on the number of threads (and the order of a sum never on the cut). A task is some ten microseconds at least.
#include "model/gemm.h"

#include "base/arena.h"
#include "base/param.h"

#include <stdlib.h>
#include <string.h>

#define TILE PARAM_TILE
#define ROWS_A_TASK 224        // sixteen passes of the 14-row micro-kernel: their x stays in L2 at K = 768
#define WORK_A_TASK (1u << 17) // multiply-adds; fewer are not worth a hand-over

#define SCRATCH (1u << 18) // floats a thread at least: half of a usual L2

struct gemm {
    struct pool *pool;
    const struct ops *ops;
    struct arena arena;
    size_t scratch; // floats a thread
};

static size_t ceil_div(size_t a, size_t b) {
    return (a + b - 1) / b;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

enum status gemm_open(struct gemm **out, struct pool *pool, const struct ops *ops, size_t max_n) {
    struct gemm *gemm = calloc(1, sizeof *gemm);
    if (!gemm)
        return status_set(STATUS_SYSTEM, "gemm: no memory");
    gemm->pool = pool;
    gemm->ops = ops;
    gemm->scratch = ceil_div(max_n, TILE) * TILE * TILE;
    if (gemm->scratch < SCRATCH)
        gemm->scratch = SCRATCH;
    enum status status = arena_init(&gemm->arena, pool_threads(pool) * gemm->scratch * sizeof(float), false);
    if (status != STATUS_OK) {
        free(gemm);
        return status;
    }
    *out = gemm;
    return STATUS_OK;
}

void gemm_close(struct gemm *gemm) {
    if (!gemm)
        return;
    arena_release(&gemm->arena);
    free(gemm);
}

void gemm_use(struct gemm *gemm, const struct ops *ops) {
    gemm->ops = ops;
}

static float *gemm_scratch(const struct gemm *gemm, unsigned thread) {
    return (float *)gemm->arena.base + thread * gemm->scratch;
}

// One product, and how it is cut. Which of y, x, tiles is written depends on the product.
struct product {
    const struct gemm *gemm;
    float *y; // output
    size_t ldy;
    const float *x;
    size_t ldx;
    const float *tiles, *bias, *dy;
    const uint32_t *offsets;
    uint32_t parts;
    size_t m, n, k;
    bool accumulate;
    double *squares;
    gemm_piece *then;        // NULL: none
    void *context;           // of `then`
    size_t row_blocks, rows; // rows of a task
    size_t runs, blocks;     // column blocks of a task
};

// `columns`: blocks of 32 output columns, `depth`: length of a sum.
static size_t product_cut(struct product *p, size_t columns, size_t depth) {
    p->row_blocks = ceil_div(p->m, ROWS_A_TASK);
    p->rows = ceil_div(p->m, p->row_blocks);
    const size_t work = TILE * depth * (p->rows + 8); // 8: the cost of reading the tile itself
    p->blocks = work < WORK_A_TASK ? least(ceil_div(WORK_A_TASK, work + 1), columns) : 1;
    p->runs = ceil_div(columns, p->blocks);
    return p->row_blocks * p->runs;
}

// Rows [*m0, *m1) and column blocks [*b0, *b1) of a task; neighbours in `task` share their tiles.
static void product_task(const struct product *p, size_t task, size_t columns, size_t *m0, size_t *m1, size_t *b0,
                         size_t *b1) {
    *m0 = task % p->row_blocks * p->rows;
    *m1 = least(*m0 + p->rows, p->m);
    *b0 = task / p->row_blocks * p->blocks;
    *b1 = least(*b0 + p->blocks, columns);
}

static void forward_task(void *context, size_t task, unsigned thread) {
    const struct product *p = context;
    (void)thread;
    size_t m0, m1, b0, b1;
    product_task(p, task, ceil_div(p->n, TILE), &m0, &m1, &b0, &b1);
    for (size_t b = b0; b < b1; b++) {
        const size_t n0 = b * TILE, columns = least(TILE, p->n - n0);
        p->gemm->ops->gemm_tile(p->y + m0 * p->ldy + n0, p->ldy, p->x + m0 * p->ldx, p->ldx, p->tiles + n0 * p->k,
                                p->bias ? p->bias + n0 : NULL, m1 - m0, p->k, columns, false);
        if (p->then)
            p->then(p->context, m0, m1, n0, n0 + columns);
    }
}

void gemm_forward(struct gemm *gemm, float *y, size_t ldy, const float *x, size_t ldx, const float *tiles,
                  const float *bias, size_t m, size_t n, size_t k) {
    gemm_forward_then(gemm, y, ldy, x, ldx, tiles, bias, m, n, k, NULL, NULL);
}

void gemm_forward_then(struct gemm *gemm, float *y, size_t ldy, const float *x, size_t ldx, const float *tiles,
                       const float *bias, size_t m, size_t n, size_t k, gemm_piece *then, void *context) {
    if (m == 0)
        return;
    struct product p = {.gemm = gemm, .y = y, .ldy = ldy, .x = x, .ldx = ldx, .tiles = tiles, .bias = bias};
    p.m = m, p.n = n, p.k = k, p.then = then, p.context = context;
    pool_run(gemm->pool, forward_task, &p, product_cut(&p, ceil_div(n, TILE), k));
}

static void input_task(void *context, size_t task, unsigned thread) {
    const struct product *p = context;
    float *panel = gemm_scratch(p->gemm, thread);
    size_t m0, m1, b0, b1;
    product_task(p, task, ceil_div(p->k, TILE), &m0, &m1, &b0, &b1);
    for (size_t b = b0; b < b1; b++) {
        p->gemm->ops->gemm_transpose(panel, p->tiles, p->n, p->k, b * TILE);
        p->gemm->ops->gemm_tile(p->y + m0 * p->ldy + b * TILE, p->ldy, p->dy + m0 * p->ldx, p->ldx, panel, NULL,
                                m1 - m0, p->n, least(TILE, p->k - b * TILE), p->accumulate);
    }
}

void gemm_input(struct gemm *gemm, float *dx, size_t ldx, const float *dy, size_t ldy, const float *tiles, size_t m,
                size_t n, size_t k, bool accumulate) {
    if (m == 0)
        return;
    struct product p = {.gemm = gemm, .y = dx, .ldy = ldx, .dy = dy, .ldx = ldy, .tiles = tiles};
    p.m = m, p.n = n, p.k = k, p.accumulate = accumulate;
    pool_run(gemm->pool, input_task, &p, product_cut(&p, ceil_div(k, TILE), n));
}

// --- Weight gradient: a task is a range of K by a run of column blocks. Its columns of x are copied together first,
// and so is every block's dy: rows of the tensors lie pages apart, and each would be read from its own page again and
// again.

#define DEPTH_A_TASK 192 // columns of x: fourteen runs of the micro-kernel; a multiple of PARAM_SLICE
#define BLOCKS_A_TASK 6  // the copy of x is used so often
#define LINE 16          // floats

// Floats between rows of the copy: an odd number of cache lines, so that a column spreads over all sets of the cache.
static size_t copy_stride(size_t depth) {
    return (ceil_div(depth, LINE) | 1) * LINE;
}

static void rows_copy(float *to, size_t ld_to, const float *from, size_t ld_from, size_t rows, size_t columns) {
    if (columns == TILE) { // of known size: no call a row
        for (size_t r = 0; r < rows; r++)
            memcpy(to + r * ld_to, from + r * ld_from, TILE * sizeof(float));
        return;
    }
    for (size_t r = 0; r < rows; r++)
        memcpy(to + r * ld_to, from + r * ld_from, columns * sizeof(float));
}

struct weight_cut {
    struct product p;
    size_t depth, cuts; // of K: columns of a task, number of ranges
    size_t stride;      // of the copy of x
};

// The squares of columns [k0, k0 + depth) of block b, a piece after the other; k0 is a multiple of PARAM_SLICE.
static void weight_squares(const struct product *p, size_t b, size_t k0, size_t depth) {
    if (!p->squares)
        return;
    double *squares = p->squares + b * ceil_div(p->k, PARAM_SLICE);
    for (size_t k = k0; k < k0 + depth; k += PARAM_SLICE)
        squares[k / PARAM_SLICE] =
            p->gemm->ops->squares(p->y + (b * p->k + k) * TILE, least(PARAM_SLICE, k0 + depth - k) * TILE);
}

static void weight_task(void *context, size_t task, unsigned thread) {
    const struct weight_cut *w = context;
    const struct product *p = &w->p;
    const size_t k0 = task % w->cuts * w->depth, depth = least(w->depth, p->k - k0);
    const size_t b0 = task / w->cuts * BLOCKS_A_TASK, b1 = least(b0 + BLOCKS_A_TASK, ceil_div(p->n, TILE));
    float *dy = gemm_scratch(p->gemm, thread), *x = dy + p->m * TILE;
    rows_copy(x, w->stride, p->x + k0, p->ldx, p->m, depth);
    for (size_t b = b0; b < b1; b++) {
        const size_t columns = least(TILE, p->n - b * TILE);
        rows_copy(dy, TILE, p->dy + b * TILE, p->ldy, p->m, columns);
        p->gemm->ops->gemm_weight_tile(p->y + (b * p->k + k0) * TILE, dy, TILE, x, w->stride, p->offsets, p->parts, 0,
                                       depth, columns);
        weight_squares(p, b, k0, depth);
    }
}

// More rows than the scratch holds: without copies.
static void weight_task_in_place(void *context, size_t task, unsigned thread) {
    const struct weight_cut *w = context;
    const struct product *p = &w->p;
    (void)thread;
    const size_t k0 = task % w->cuts * w->depth, depth = least(w->depth, p->k - k0), b = task / w->cuts;
    p->gemm->ops->gemm_weight_tile(p->y + b * p->k * TILE, p->dy + b * TILE, p->ldy, p->x, p->ldx, p->offsets, p->parts,
                                   k0, k0 + depth, least(TILE, p->n - b * TILE));
    weight_squares(p, b, k0, depth);
}

void gemm_weight(struct gemm *gemm, float *dtiles, const float *dy, size_t ldy, const float *x, size_t ldx,
                 const uint32_t *offsets, uint32_t parts, size_t n, size_t k, double *squares) {
    struct weight_cut w = {.p = {.gemm = gemm, .y = dtiles, .dy = dy, .ldy = ldy, .x = x, .ldx = ldx}};
    w.p.offsets = offsets, w.p.parts = parts, w.p.m = offsets[parts], w.p.n = n, w.p.k = k, w.p.squares = squares;
    const size_t blocks = ceil_div(n, TILE);
    w.depth = DEPTH_A_TASK;
    while (w.depth > PARAM_SLICE && w.p.m * (TILE + copy_stride(w.depth)) > gemm->scratch)
        w.depth -= PARAM_SLICE;
    w.cuts = ceil_div(k, w.depth);
    w.depth = ceil_div(ceil_div(k, w.cuts), PARAM_SLICE) * PARAM_SLICE; // about equal, and whole pieces of the sums
    w.cuts = ceil_div(k, w.depth);
    w.stride = copy_stride(w.depth);
    if (w.p.m * (TILE + w.stride) <= gemm->scratch)
        pool_run(gemm->pool, weight_task, &w, w.cuts * ceil_div(blocks, BLOCKS_A_TASK));
    else
        pool_run(gemm->pool, weight_task_in_place, &w, w.cuts * blocks);
}
