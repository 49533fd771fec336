// SPDX-License-Identifier: Apache-2.0
// dblock[k][32] = sum over rows t of x[t][k] dy[t][0..columns): the weight gradient of one tile, summed over parts in
// the binary tree. The plain definition is at the end; the vector path keeps GEMM_ROWS values of k by two vectors of
// columns in registers while t runs over a part, and the partial sums of the tree on the stack (model/ops/tree.h has
// the order). Columns that the tensor does not have are 0 in the result, whatever x holds.
#include "model/gemm/vector.h"
#include "model/ops/declare.h"
#include "model/ops/tree.h"

#include <math.h>

#ifdef GEMM_ROWS

#define ROWS_BEFORE 8 // rows of x are asked for so many rows early: a stride that processors don't foresee
#define ACROSS (GEMM_ACROSS * GEMM_WIDTH)

struct weight {
    float *dblock; // at the first k of a run
    const float *dy;
    size_t ldy;
    const float *x; // likewise
    size_t ldx;
    const uint32_t *offsets;
    uint32_t parts;
    const float *far; // row 0 of the lines that a pass asks for, a line a row, `ld_far` floats apart
    size_t ld_far;
    gemm_mask mask[GEMM_ACROSS];
};

// One part's sums: chains over its rows, from 0.
GEMM_INLINE void weight_part(gemm_vector sum[GEMM_ROWS][GEMM_ACROSS], const struct weight *w, uint32_t part,
                             const size_t rows, const bool full) {
#pragma GCC unroll 14
    for (size_t r = 0; r < rows; r++)
        sum[r][0] = sum[r][1] = GEMM_ZERO();
    const size_t ldx = w->ldx, ldy = w->ldy;
    const gemm_mask m0 = w->mask[0], m1 = w->mask[1];
    const float *x = w->x + w->offsets[part] * ldx, *dy = w->dy + w->offsets[part] * ldy;
    const float *far = w->far + w->offsets[part] * w->ld_far;
    for (size_t t = w->offsets[part + 1] - w->offsets[part]; t > 0; t--, x += ldx, dy += ldy, far += w->ld_far) {
        GEMM_PREFETCH(x + ROWS_BEFORE * ldx);
        GEMM_PREFETCH(x + ROWS_BEFORE * ldx + rows - 1);
        GEMM_PREFETCH_FAR(far);
        const gemm_vector d0 = full ? GEMM_LOAD(dy) : GEMM_LOAD_MASK(dy, m0);
        const gemm_vector d1 = full ? GEMM_LOAD(dy + GEMM_WIDTH) : GEMM_LOAD_MASK(dy + GEMM_WIDTH, m1);
#pragma GCC unroll 14
        for (size_t r = 0; r < rows; r++) {
            const gemm_vector a = GEMM_ALL(x[r]);
            sum[r][0] = GEMM_DOT(a, d0, sum[r][0]);
            sum[r][1] = GEMM_DOT(a, d1, sum[r][1]);
        }
    }
}

GEMM_INLINE void weight_store(float *to, size_t ld, gemm_vector sum[GEMM_ROWS][GEMM_ACROSS], const size_t rows) {
#pragma GCC unroll 14
    for (size_t r = 0; r < rows; r++)
        for (size_t v = 0; v < GEMM_ACROSS; v++)
            GEMM_STORE(to + r * ld + v * GEMM_WIDTH, sum[r][v]);
}

// Leaves the total of all parts in dblock. A part of odd number is added to what waits on its level, and so on up
// (tree_push).
GEMM_INLINE void weight_run(const struct weight *w, const size_t rows, const bool full) {
    float stack[TREE_LEVELS][GEMM_ROWS * ACROSS];
    gemm_vector sum[GEMM_ROWS][GEMM_ACROSS];
    uint32_t part = 0;
    do {
        weight_part(sum, w, part, rows, full);
        unsigned level = 0;
        for (; (part >> level) & 1; level++)
#pragma GCC unroll 14
            for (size_t r = 0; r < rows; r++)
                for (size_t v = 0; v < GEMM_ACROSS; v++)
                    sum[r][v] = GEMM_ADD(GEMM_LOAD(&stack[level][r * ACROSS + v * GEMM_WIDTH]), sum[r][v]);
        if (part + 1 < w->parts)
            weight_store(stack[level], ACROSS, sum, rows);
    } while (++part < w->parts);
    if (!full)
#pragma GCC unroll 14
        for (size_t r = 0; r < rows; r++)
            for (size_t v = 0; v < GEMM_ACROSS; v++)
                sum[r][v] = GEMM_KEEP(sum[r][v], w->mask[v]);
    weight_store(w->dblock, GEMM_TILE, sum, rows);
}

typedef void weight_function(const struct weight *w);

#define WEIGHT_FUNCTIONS(rows)                                                                                         \
    static __attribute__((noinline)) void weight_run_##rows(const struct weight *w) {                                  \
        weight_run(w, rows, false);                                                                                    \
    }                                                                                                                  \
    static __attribute__((noinline)) void weight_full_##rows(const struct weight *w) {                                 \
        weight_run(w, rows, true);                                                                                     \
    }

WEIGHT_FUNCTIONS(1)
WEIGHT_FUNCTIONS(2)
WEIGHT_FUNCTIONS(3)
WEIGHT_FUNCTIONS(4)
WEIGHT_FUNCTIONS(5)
WEIGHT_FUNCTIONS(6)
#if GEMM_ROWS == 14
WEIGHT_FUNCTIONS(7)
WEIGHT_FUNCTIONS(8)
WEIGHT_FUNCTIONS(9)
WEIGHT_FUNCTIONS(10)
WEIGHT_FUNCTIONS(11)
WEIGHT_FUNCTIONS(12)
WEIGHT_FUNCTIONS(13)
WEIGHT_FUNCTIONS(14)
#endif

#define WEIGHT_ROW(rows)                                                                                               \
    { weight_run_##rows, weight_full_##rows }
static weight_function *const functions[GEMM_ROWS + 1][2] = {
    {NULL, NULL},   WEIGHT_ROW(1), WEIGHT_ROW(2), WEIGHT_ROW(3),  WEIGHT_ROW(4),  WEIGHT_ROW(5),  WEIGHT_ROW(6),
#if GEMM_ROWS == 14
    WEIGHT_ROW(7),  WEIGHT_ROW(8), WEIGHT_ROW(9), WEIGHT_ROW(10), WEIGHT_ROW(11), WEIGHT_ROW(12), WEIGHT_ROW(13),
    WEIGHT_ROW(14),
#endif
};

void GEMM_NAME(gemm_weight_tile)(float *dblock, const float *dy, size_t ldy, const float *x, size_t ldx,
                                 const uint32_t *offsets, uint32_t parts, size_t k0, size_t k1, size_t columns,
                                 const float *ahead, size_t ld_ahead) {
    size_t line = 0; // of a row of `ahead`
    for (size_t run = 0, n = k1 - k0, runs = GEMM_RUNS(n); run < runs; run++) {
        const size_t k = k0 + n * run / runs, rows = k0 + n * (run + 1) / runs - k;
        gemm_prefetch_write(dblock + k * GEMM_TILE, GEMM_TILE, rows, GEMM_TILE); // to be stored at the run's end
        for (size_t c = 0; c < GEMM_TILE; c += ACROSS, line += GEMM_LINE) {
            struct weight w = {.dblock = dblock + k * GEMM_TILE + c,
                               .dy = dy + c,
                               .ldy = ldy,
                               .x = x + k,
                               .ldx = ldx,
                               .offsets = offsets,
                               .parts = parts,
                               .far = dy,
                               .ld_far = ldy};
            if (ahead && line < GEMM_TILE)
                w.far = ahead + line, w.ld_far = ld_ahead;
            for (size_t v = 0; v < GEMM_ACROSS; v++)
                w.mask[v] = gemm_mask_first((ptrdiff_t)columns - (ptrdiff_t)(c + v * GEMM_WIDTH));
            functions[rows][columns >= c + ACROSS](&w);
        }
    }
}

#else

void GEMM_NAME(gemm_weight_tile)(float *dblock, const float *dy, size_t ldy, const float *x, size_t ldx,
                                 const uint32_t *offsets, uint32_t parts, size_t k0, size_t k1, size_t columns,
                                 const float *ahead, size_t ld_ahead) {
    (void)ahead, (void)ld_ahead;
    float stack[TREE_LEVELS][GEMM_TILE], sums[GEMM_TILE];
    for (size_t k = k0; k < k1; k++) {
        for (uint32_t p = 0; p < parts; p++) {
            memset(sums, 0, sizeof sums);
            for (size_t t = offsets[p]; t < offsets[p + 1]; t++)
                for (size_t n = 0; n < columns; n++)
                    sums[n] = GEMM_DOT_ONE(x[t * ldx + k], dy[t * ldy + n], sums[n]);
            tree_push(stack[0], sums, p, GEMM_TILE);
        }
        memcpy(dblock + k * GEMM_TILE, stack[tree_root(parts)], sizeof sums);
    }
}

#endif
