// SPDX-License-Identifier: Apache-2.0
// Forward and input gradient: both are rows (M, D) times a panel [D][32] for each block of 32 output columns; forward
// reads the panel as it lies in the tiles, the input gradient transposes it into scratch. How they are cut is made for
// the caches and changes no bit, since each element stays one chain of sums:
//   - M into stretches and D into pieces, so that a stretch's piece of x and two panels fit into a core's second cache;
//     a piece goes on from what the one before left in y;
//   - a stretch's piece into items: a block of columns, or some of its rows where blocks are too few for the threads.
//     A thread's items are neighbours in the order of blocks, and while it computes one it asks the next panel into its
//     cache: so each panel is read from memory once, ahead of its use.
#include "model/gemm_state.h"

#include <stdlib.h>
#include <unistd.h>

#define DEPTH_PIECE 768    // of D: at most
#define ROWS_STRETCH 64    // of M: at least, whatever the cache
#define ROWS_ITEM 14       // of M: at least, where there are more
#define ITEMS_A_THREAD 16u // wanted, so that all threads end about together;
#define ROWS_FEW 64        // where a panel's rows are fewer, its way from memory is what takes long,
#define ITEMS_FEW 4u       // and rows cut apart would read it once more from the second cache
#define CACHE_USUAL (1u << 20)

// Most of the second cache, in floats.
static size_t cache_floats(void) {
    long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return (size_t)(bytes > 0 ? bytes : (long)CACHE_USUAL) * 7 / 8 / sizeof(float);
}

enum status gemm_open(struct gemm **out, struct pool *pool, const struct ops *ops) {
    struct gemm *gemm = calloc(1, sizeof *gemm);
    if (!gemm)
        return status_set(STATUS_SYSTEM, "gemm: no memory");
    gemm->threads = pool_threads(pool);
    gemm->ops = ops;
    gemm->cache = cache_floats();
    gemm->scratch = most(DEPTH_PIECE * TILE * sizeof(float), gemm_weight_scratch());
    enum status status = queue_open(&gemm->queue, pool);
    if (status == STATUS_OK)
        status = arena_init(&gemm->arena, gemm->threads * gemm->scratch, false);
    if (status != STATUS_OK) {
        gemm_close(gemm);
        return status;
    }
    *out = gemm;
    return STATUS_OK;
}

void gemm_close(struct gemm *gemm) {
    if (!gemm)
        return;
    arena_release(&gemm->arena);
    queue_close(gemm->queue);
    free(gemm);
}

void gemm_use(struct gemm *gemm, const struct ops *ops) {
    gemm->ops = ops;
}

// y (M, columns) = x (M, D) times a panel a block. `transposed`: the tiles are of a weight (D, columns), else of
// (columns, D).
struct product {
    const struct gemm *gemm;
    float *y;
    size_t ldy;
    const float *x;
    size_t ldx;
    const float *tiles, *bias;
    size_t m, d, columns;
    bool accumulate, transposed;
    // One stretch of rows and piece of D, and its cut.
    size_t m0, m1, d0, d1;
    size_t parts; // of the rows: items a block
};

// The first float of block b's panel, or of what becomes it, and the floats between stretches of GEMM_STRETCH rows.
static struct gemm_ahead panel_place(const struct product *p, size_t b) {
    if (p->transposed)
        return (struct gemm_ahead){.block = p->tiles + (p->d0 / TILE * p->columns + b * TILE) * TILE,
                                   .jump = p->columns * TILE};
    return (struct gemm_ahead){.block = p->tiles + (b * p->d + p->d0) * TILE, .jump = GEMM_STRETCH * TILE};
}

static const float *panel_take(const struct product *p, size_t b, unsigned thread) {
    if (!p->transposed)
        return panel_place(p, b).block;
    float *panel = gemm_scratch(p->gemm, thread);
    p->gemm->ops->gemm_transpose(panel, p->tiles + p->d0 / TILE * p->columns * TILE, p->d1 - p->d0, p->columns,
                                 b * TILE);
    return panel;
}

static void product_item(void *context, size_t item, size_t next, unsigned thread) {
    const struct product *p = context;
    const size_t b = item / p->parts, part = item % p->parts, n0 = b * TILE, columns = least(TILE, p->columns - n0);
    const size_t rows = p->m1 - p->m0, first = rows * part / p->parts, end = rows * (part + 1) / p->parts;
    const size_t m = p->m0 + first;
    struct gemm_ahead ahead = panel_place(p, b + 1);
    ahead.part = part, ahead.parts = p->parts;
    const struct ops *ops = p->gemm->ops;
    const bool apart =
        p->transposed && ops->gemm_transpose == ops->gemm_transpose_pairs; // rows of a panel lie otherwise
    const bool more = next != item && (b + 1) * TILE < p->columns && !apart;
    ops->gemm_tile(p->y + m * p->ldy + n0, p->ldy, p->x + m * p->ldx + p->d0, p->ldx, panel_take(p, b, thread),
                   p->bias && p->d0 == 0 ? p->bias + n0 : NULL, end - first, p->d1 - p->d0, columns,
                   p->accumulate || p->d0 > 0, more ? &ahead : NULL);
}

// Rows a block's item has: all, or fewer if the blocks would not keep the threads busy to the end.
static size_t product_parts(const struct product *p, unsigned threads) {
    const size_t rows = p->m1 - p->m0, blocks = ceil_div(p->columns, TILE);
    const size_t wanted = ceil_div((rows < ROWS_FEW ? ITEMS_FEW : ITEMS_A_THREAD) * threads, blocks);
    return threads == 1 ? 1 : most(1, least(wanted, rows / ROWS_ITEM));
}

static void product_run(struct product *p) {
    const size_t pieces = ceil_div(p->d, DEPTH_PIECE), depth = ceil_div(ceil_div(p->d, pieces), TILE) * TILE;
    const size_t fits = p->gemm->cache / most(depth, 1);
    const size_t stretches = ceil_div(p->m, most(ROWS_STRETCH, fits > 2 * TILE ? fits - 2 * TILE : 0));
    for (size_t s = 0; s < stretches; s++)
        for (size_t d0 = 0; d0 < p->d; d0 += depth) {
            p->m0 = p->m * s / stretches, p->m1 = p->m * (s + 1) / stretches;
            p->d0 = d0, p->d1 = least(d0 + depth, p->d);
            const unsigned threads = gemm_threads(p->gemm, (p->m1 - p->m0) * (p->d1 - p->d0) * p->columns);
            p->parts = product_parts(p, threads);
            queue_run(p->gemm->queue, product_item, p, ceil_div(p->columns, TILE) * p->parts, threads);
        }
}

void gemm_forward(struct gemm *gemm, float *y, size_t ldy, const float *x, size_t ldx, const float *tiles,
                  const float *bias, size_t m, size_t n, size_t k) {
    struct product p = {.gemm = gemm, .y = y, .ldy = ldy, .x = x, .ldx = ldx, .tiles = tiles, .bias = bias};
    p.m = m, p.d = k, p.columns = n;
    product_run(&p);
}

void gemm_input(struct gemm *gemm, float *dx, size_t ldx, const float *dy, size_t ldy, const float *tiles, size_t m,
                size_t n, size_t k, bool accumulate) {
    struct product p = {.gemm = gemm, .y = dx, .ldy = ldx, .x = dy, .ldx = ldy, .tiles = tiles};
    p.m = m, p.d = n, p.columns = k, p.accumulate = accumulate, p.transposed = true;
    product_run(&p);
}
