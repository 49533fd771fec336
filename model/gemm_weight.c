// SPDX-License-Identifier: Apache-2.0
// Weight gradient dW = dyᵀ x. An item is a slice of K by a block of N, slices one after another. The slice's columns of
// x are copied together and serve all blocks that a thread does of it, and so is the block's dy: rows of the tensors
// lie pages apart, at distances that caches take badly. While a block is computed the next one's dy is asked for; what
// the kernel has written is squared and summed at once.
//
// Many rows: an item is a slice by some blocks, a group of parts at a time, whose x fits into the cache, and the
// groups' sums meet in the tree that the kernel has within a group: the same additions.
#include "model/gemm_state.h"
#include "model/ops/tree.h"

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

#define CALL 96         // columns of x a call of the kernel: seven runs; their 12 KiB are still in the first cache
#define SLICE_LEAST 128 // columns of x
#define SLICE_MOST 384  // likewise
#define ROWS_COPY 4096  // of dy: at most
#define COPY ((size_t)224 << 10) // floats of x at most
#define ROWS_GROUP 512           // of x: about
#define GROUP_SLICE 192          // where there are groups: columns of x,
#define GROUP_BLOCKS 8           // and blocks of dy, which share them
#define ITEMS_A_THREAD 16u       // wanted, so that all threads end about together
#define LINE 16                  // floats

struct weight_scratch {
    uint64_t product; // x is a copy for this one's
    size_t k0;        // columns from here on
    uint32_t group;   // and rows
    alignas(64) float x[COPY];
    alignas(64) float dy[ROWS_COPY * TILE];
    alignas(64) float sum[CALL * TILE];                                             // of a call
    alignas(64) float stack[TREE_LEVELS][GROUP_BLOCKS][GROUP_SLICE * (size_t)TILE]; // of the groups' sums
};

size_t gemm_weight_scratch(void) {
    return ceil_div(sizeof(struct weight_scratch), LINE * sizeof(float)) * LINE * sizeof(float);
}

struct weight {
    const struct gemm *gemm;
    float *dtiles;
    const float *dy;
    size_t ldy;
    const float *x;
    size_t ldx;
    const uint32_t *offsets;
    uint32_t parts, groups;
    uint64_t product; // its number
    size_t n, k;
    double *squares;
    size_t slice, blocks; // of an item: columns of x, blocks of 32 columns of dy
};

// The squares of columns [k, k + columns) of block b, a piece after the other; k is a multiple of PARAM_SLICE.
static void weight_squares(const struct weight *w, size_t b, size_t k, size_t columns) {
    if (!w->squares)
        return;
    double *squares = w->squares + b * ceil_div(w->k, PARAM_SLICE);
    for (size_t end = k + columns; k < end; k += PARAM_SLICE)
        squares[k / PARAM_SLICE] =
            w->gemm->ops->squares(w->dtiles + (b * w->k + k) * TILE, least(PARAM_SLICE, end - k) * TILE);
}

// The rows of a group of parts.
struct group {
    uint32_t number, parts;
    const uint32_t *offsets; // [parts + 1]
    size_t first, rows;
};

static struct group group_at(const struct weight *w, uint32_t g) {
    const uint32_t parts = w->parts / w->groups, *offsets = w->offsets + g * parts;
    return (struct group){g, parts, offsets, offsets[0], offsets[parts] - offsets[0]};
}

static void rows_copy(float *to, size_t ld_to, const float *from, size_t ld_from, size_t rows, size_t columns) {
    for (size_t r = 0; r < rows; r++)
        memcpy(to + r * ld_to, from + r * ld_from, columns * sizeof *to);
}

// Block b's columns of dy in the group's rows; *ld: floats between rows.
static const float *weight_dy(const struct weight *w, struct weight_scratch *scratch, size_t b, const struct group *g,
                              size_t *ld) {
    const float *dy = w->dy + g->first * w->ldy + b * TILE;
    *ld = w->ldy;
    if (g->rows > ROWS_COPY || w->n - b * TILE < TILE)
        return dy;
    for (size_t r = 0; r < g->rows; r++)
        memcpy(scratch->dy + r * TILE, dy + r * w->ldy, TILE * sizeof *dy);
    *ld = TILE;
    return scratch->dy;
}

// Columns [k0, k1) of x in the group's rows. The copy's rows are an odd number of cache lines: a column spreads over
// all sets of the cache.
static const float *weight_x(const struct weight *w, struct weight_scratch *scratch, size_t k0, size_t k1,
                             const struct group *g, size_t *ld) {
    const float *x = w->x + g->first * w->ldx + k0;
    *ld = (ceil_div(k1 - k0, LINE) | 1) * LINE;
    if (g->rows * *ld > COPY) {
        *ld = w->ldx;
        return x;
    }
    if (scratch->product != w->product || scratch->k0 != k0 || scratch->group != g->number) {
        rows_copy(scratch->x, *ld, x, w->ldx, g->rows, k1 - k0);
        scratch->product = w->product, scratch->k0 = k0, scratch->group = g->number;
    }
    return scratch->x;
}

// scratch->sum (n floats) of group g joins the tree; after the last group it is the total.
static void weight_push(const struct weight *w, struct weight_scratch *scratch, size_t block, size_t at, uint32_t g,
                        size_t n) {
    unsigned level = 0;
    for (; (g >> level) & 1; level++)
        w->gemm->ops->add(scratch->sum, scratch->stack[level][block] + at, n);
    if (g + 1 < w->groups)
        memcpy(scratch->stack[level][block] + at, scratch->sum, n * sizeof(float));
}

// Columns [k0, k1) of block b, a group's rows. `first`: the item's first block; `next`: the block that comes next, or
// b.
static void weight_block(const struct weight *w, struct weight_scratch *scratch, size_t first, size_t b, size_t next,
                         size_t k0, size_t k1, const struct group *g) {
    size_t ldx, ldy;
    const float *x = weight_x(w, scratch, k0, k1, g, &ldx), *dy = weight_dy(w, scratch, b, g, &ldy);
    x -= g->first * ldx, dy -= g->first * ldy; // where row 0 would be: offsets count from there
    for (size_t k = k0; k < k1; k += CALL) {
        const size_t columns = least(CALL, k1 - k);
        float *out = w->dtiles + (b * w->k + k) * TILE;
        const float *ahead = k == k0 && next != b ? w->dy + next * TILE : NULL;
        w->gemm->ops->gemm_weight_tile(w->groups == 1 ? out : scratch->sum, dy, ldy, x + (k - k0), ldx, g->offsets,
                                       g->parts, 0, columns, least(TILE, w->n - b * TILE), ahead, w->ldy);
        if (w->groups > 1)
            weight_push(w, scratch, b - first, (k - k0) * TILE, g->number, columns * TILE);
        if (g->number + 1 < w->groups)
            continue;
        if (w->groups > 1)
            memcpy(out, scratch->sum, columns * TILE * sizeof *out);
        weight_squares(w, b, k, columns);
    }
}

static void weight_item(void *context, size_t item, size_t next, unsigned thread) {
    const struct weight *w = context;
    const size_t blocks = ceil_div(w->n, TILE), runs = ceil_div(blocks, w->blocks);
    const size_t k0 = item / runs * w->slice, k1 = least(k0 + w->slice, w->k);
    const size_t b0 = item % runs * w->blocks, b1 = least(b0 + w->blocks, blocks), after = next % runs * w->blocks;
    for (uint32_t i = 0; i < w->groups; i++) {
        const struct group group = group_at(w, i);
        for (size_t b = b0; b < b1; b++)
            weight_block(w, gemm_scratch(w->gemm, thread), b0, b, b + 1 < b1 ? b + 1 : after, k0, k1, &group);
    }
}

// One group: slices that fit into the copy, and small enough that there are items for all threads.
static void weight_cut(struct weight *w, size_t rows, unsigned threads) {
    const size_t blocks = ceil_div(w->n, TILE), lines = COPY / LINE / most(rows, 1);
    const size_t fits = lines > 0 ? (lines - 1) * LINE / PARAM_SLICE : 0;
    size_t slices = ceil_div(w->k, PARAM_SLICE * most(1, least(SLICE_MOST / PARAM_SLICE, fits)));
    if (threads > 1)
        slices = most(slices, least(ceil_div(ITEMS_A_THREAD * threads, blocks), w->k / SLICE_LEAST));
    w->blocks = 1;
    w->slice = ceil_div(ceil_div(w->k, slices), PARAM_SLICE) * PARAM_SLICE;
}

void gemm_weight(struct gemm *gemm, float *dtiles, const float *dy, size_t ldy, const float *x, size_t ldx,
                 const uint32_t *offsets, uint32_t parts, size_t n, size_t k, double *squares) {
    struct weight w = {.gemm = gemm, .dtiles = dtiles, .dy = dy, .ldy = ldy, .x = x, .ldx = ldx, .offsets = offsets};
    w.parts = parts, w.n = n, w.k = k, w.squares = squares, w.groups = 1, w.product = ++gemm->products;
    const size_t rows = offsets[parts];
    const unsigned threads = gemm_threads(gemm, rows * n * k);
    while (w.groups < parts && rows / w.groups > ROWS_GROUP)
        w.groups *= 2;
    if (w.groups == 1)
        weight_cut(&w, rows, threads);
    else
        w.blocks = GROUP_BLOCKS, w.slice = GROUP_SLICE;
    queue_run(gemm->queue, weight_item, &w, ceil_div(k, w.slice) * ceil_div(ceil_div(n, TILE), w.blocks), threads);
}
