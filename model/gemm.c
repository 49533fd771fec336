// SPDX-License-Identifier: Apache-2.0
// Cuts the three products into tasks: row blocks times runs of column blocks, by shape alone, so that a result never
// depends on the number of threads (and the order of a sum never on the cut). A task is some ten microseconds at least.
#include "model/gemm.h"

#include "base/arena.h"
#include "base/param.h"

#include <stdlib.h>

#define TILE PARAM_TILE
#define ROWS_A_TASK 224        // sixteen passes of the 14-row micro-kernel: their x stays in L2 at K = 768
#define WORK_A_TASK (1u << 17) // multiply-adds; fewer are not worth a hand-over

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
    for (size_t b = b0; b < b1; b++)
        p->gemm->ops->gemm_tile(p->y + m0 * p->ldy + b * TILE, p->ldy, p->x + m0 * p->ldx, p->ldx,
                                p->tiles + b * p->k * TILE, p->bias ? p->bias + b * TILE : NULL, m1 - m0, p->k,
                                least(TILE, p->n - b * TILE), false);
}

void gemm_forward(struct gemm *gemm, float *y, size_t ldy, const float *x, size_t ldx, const float *tiles,
                  const float *bias, size_t m, size_t n, size_t k) {
    if (m == 0)
        return;
    struct product p = {.gemm = gemm, .y = y, .ldy = ldy, .x = x, .ldx = ldx, .tiles = tiles, .bias = bias};
    p.m = m, p.n = n, p.k = k;
    pool_run(gemm->pool, forward_task, &p, product_cut(&p, ceil_div(n, TILE), k));
}

// panel [N][32] = columns [k0, k0 + 32) of W, from tiles [ceil(N/32)][K][32]; columns behind K are 0.
static void panel_transpose(float *panel, const float *tiles, size_t n, size_t k, size_t k0) {
    const size_t columns = least(TILE, k - k0);
    for (size_t n0 = 0; n0 < n; n0 += TILE, tiles += k * TILE, panel += TILE * TILE) {
        const size_t rows = least(TILE, n - n0);
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < TILE; j++)
                panel[i * TILE + j] = j < columns ? tiles[(k0 + j) * TILE + i] : 0.0f;
    }
}

static void input_task(void *context, size_t task, unsigned thread) {
    const struct product *p = context;
    float *panel = gemm_scratch(p->gemm, thread);
    size_t m0, m1, b0, b1;
    product_task(p, task, ceil_div(p->k, TILE), &m0, &m1, &b0, &b1);
    for (size_t b = b0; b < b1; b++) {
        panel_transpose(panel, p->tiles, p->n, p->k, b * TILE);
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

#define DEPTH_A_TASK 192 // columns of x whose rows stay in cache while a run of blocks is made

static void weight_task(void *context, size_t task, unsigned thread) {
    const struct product *p = context;
    (void)thread;
    const size_t cuts = ceil_div(p->k, DEPTH_A_TASK), k0 = task % cuts * DEPTH_A_TASK;
    const size_t k1 = least(k0 + DEPTH_A_TASK, p->k), b = task / cuts;
    p->gemm->ops->gemm_weight_tile(p->y + b * p->k * TILE, p->dy + b * TILE, p->ldy, p->x, p->ldx, p->offsets, p->parts,
                                   k0, k1, least(TILE, p->n - b * TILE));
}

void gemm_weight(struct gemm *gemm, float *dtiles, const float *dy, size_t ldy, const float *x, size_t ldx,
                 const uint32_t *offsets, uint32_t parts, size_t n, size_t k) {
    struct product p = {.gemm = gemm, .y = dtiles, .dy = dy, .ldy = ldy, .x = x, .ldx = ldx};
    p.offsets = offsets, p.parts = parts, p.n = n, p.k = k;
    pool_run(gemm->pool, weight_task, &p, ceil_div(n, TILE) * ceil_div(k, DEPTH_A_TASK));
}
