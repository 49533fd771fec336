// SPDX-License-Identifier: Apache-2.0
// y(rows, columns <= 32) = x(rows, K) block(K, 32): forward and, on a transposed panel, the input gradient. The plain
// definition is at the end; the vector path keeps a piece of y, GEMM_ROWS rows by two vectors, in registers while k
// runs: each step loads two vectors of the block (contiguous) and one float of every row of x. Each element is one
// chain of fused multiply-adds over k, as in the definition, so the bits are equal. Beginning and end work under a
// mask, outside the loop over k; every number of rows has a function of its own, for a branch within would spill the
// accumulators.
#include "model/gemm/vector.h"
#include "model/ops/declare.h"

#include <math.h>

#ifdef GEMM_ROWS

struct tile {
    float *y;
    size_t ldy;
    const float *x;
    size_t ldx;
    const float *block, *bias; // bias: NULL for 0
    size_t k;
    uintptr_t ahead; // a line to ask for in the first step; then `ahead_step` bytes on in each step, and `ahead_jump`
    size_t ahead_step, ahead_jump; // from one GEMM_STRETCH to the next
    gemm_mask mask[GEMM_ACROSS];
};

GEMM_INLINE void tile_begin(gemm_vector sum[GEMM_ROWS][GEMM_ACROSS], const struct tile *t, const size_t rows,
                            const bool accumulate) {
    for (size_t v = 0; v < GEMM_ACROSS; v++) {
        gemm_vector first = GEMM_ZERO();
        if (!accumulate && t->bias)
            first = GEMM_LOAD_MASK(t->bias + v * GEMM_WIDTH, t->mask[v]);
#pragma GCC unroll 14
        for (size_t r = 0; r < rows; r++)
            sum[r][v] = accumulate ? GEMM_LOAD_MASK(t->y + r * t->ldy + v * GEMM_WIDTH, t->mask[v]) : first;
    }
}

GEMM_INLINE void tile_end(const struct tile *t, gemm_vector sum[GEMM_ROWS][GEMM_ACROSS], const size_t rows) {
#pragma GCC unroll 14
    for (size_t r = 0; r < rows; r++)
        for (size_t v = 0; v < GEMM_ACROSS; v++)
            GEMM_STORE_MASK(t->y + r * t->ldy + v * GEMM_WIDTH, t->mask[v], sum[r][v]);
}

// `rows` and `accumulate` are constants here. Rows of x are reached from every third one: a pointer a row would need
// too many registers.
GEMM_INLINE void tile_run(const struct tile *t, const size_t rows, const bool accumulate) {
    gemm_vector sum[GEMM_ROWS][GEMM_ACROSS];
    tile_begin(sum, t, rows, accumulate);
    const size_t ldx = t->ldx;
    const float *block = t->block, *x[(GEMM_ROWS + 2) / 3];
#pragma GCC unroll 5
    for (size_t i = 0; i < (rows + 2) / 3; i++)
        x[i] = t->x + 3 * i * ldx;
    uintptr_t ahead = t->ahead;
    const size_t step = t->ahead_step, skip = t->ahead_jump - GEMM_STRETCH * step;
    for (size_t left = t->k; left > 0; ahead += skip) {
        size_t steps = left < GEMM_STRETCH ? left : GEMM_STRETCH;
        left -= steps;
        for (; steps > 0; steps--, block += GEMM_TILE, ahead += step) {
            const gemm_vector b0 = GEMM_LOAD(block), b1 = GEMM_LOAD(block + GEMM_WIDTH);
            GEMM_PREFETCH(ahead);
#pragma GCC unroll 14
            for (size_t r = 0; r < rows; r++) {
                const gemm_vector a = GEMM_ALL(x[r / 3][r % 3 * ldx]);
                sum[r][0] = GEMM_DOT(a, b0, sum[r][0]);
                sum[r][1] = GEMM_DOT(a, b1, sum[r][1]);
            }
#pragma GCC unroll 5
            for (size_t i = 0; i < (rows + 2) / 3; i++)
                x[i]++;
        }
    }
    tile_end(t, sum, rows);
}

typedef void tile_function(const struct tile *t);

#define TILE_FUNCTIONS(rows)                                                                                           \
    static __attribute__((noinline)) void tile_run_##rows(const struct tile *t) {                                      \
        tile_run(t, rows, false);                                                                                      \
    }                                                                                                                  \
    static __attribute__((noinline)) void tile_more_##rows(const struct tile *t) {                                     \
        tile_run(t, rows, true);                                                                                       \
    }

TILE_FUNCTIONS(1)
TILE_FUNCTIONS(2)
TILE_FUNCTIONS(3)
TILE_FUNCTIONS(4)
TILE_FUNCTIONS(5)
TILE_FUNCTIONS(6)
#if GEMM_ROWS == 14
TILE_FUNCTIONS(7)
TILE_FUNCTIONS(8)
TILE_FUNCTIONS(9)
TILE_FUNCTIONS(10)
TILE_FUNCTIONS(11)
TILE_FUNCTIONS(12)
TILE_FUNCTIONS(13)
TILE_FUNCTIONS(14)
#endif

#define TILE_ROW(rows)                                                                                                 \
    { tile_run_##rows, tile_more_##rows }
static tile_function *const functions[GEMM_ROWS + 1][2] = {
    {NULL, NULL}, TILE_ROW(1), TILE_ROW(2), TILE_ROW(3),  TILE_ROW(4),  TILE_ROW(5),  TILE_ROW(6),
#if GEMM_ROWS == 14
    TILE_ROW(7),  TILE_ROW(8), TILE_ROW(9), TILE_ROW(10), TILE_ROW(11), TILE_ROW(12), TILE_ROW(13), TILE_ROW(14),
#endif
};

// The share of `ahead` that pass number `pass` of `passes` asks for: a run of the block where it lies in one piece,
// which is the order that processors foresee, else a piece of each of its stretches.
static void tile_ahead(struct tile *t, const struct gemm_ahead *ahead, size_t pass, size_t passes) {
    const size_t all = ahead->parts * passes, i = ahead->part * passes + pass, row = GEMM_TILE * sizeof(float);
    const bool one_piece = ahead->jump == GEMM_STRETCH * GEMM_TILE;
    t->ahead = (uintptr_t)ahead->block + (one_piece ? t->k : GEMM_STRETCH) * row * i / all;
    t->ahead_step = (row + all - 1) / all;
    t->ahead_jump = one_piece ? GEMM_STRETCH * t->ahead_step : ahead->jump * sizeof(float);
}

void GEMM_NAME(gemm_tile)(float *y, size_t ldy, const float *x, size_t ldx, const float *block, const float *bias,
                          size_t rows, size_t k, size_t columns, bool accumulate, const struct gemm_ahead *ahead) {
    const size_t runs = GEMM_RUNS(rows), across = GEMM_ACROSS * GEMM_WIDTH, passes = runs * GEMM_TILE / across;
    for (size_t run = 0; run < runs; run++) {
        const size_t m0 = rows * run / runs, m1 = rows * (run + 1) / runs, m2 = rows * (run + 2) / runs;
        if (run + 1 < runs)
            gemm_prefetch_write(y + m1 * ldy, ldy, m2 - m1, columns);
        for (size_t n = 0; n < columns; n += across) {
            struct tile t = {.y = y + m0 * ldy + n,
                             .ldy = ldy,
                             .x = x + m0 * ldx,
                             .ldx = ldx,
                             .block = block + n,
                             .bias = bias ? bias + n : NULL,
                             .k = k,
                             .ahead = (uintptr_t)block};
            if (ahead)
                tile_ahead(&t, ahead, run * GEMM_TILE / across + n / across, passes);
            for (size_t v = 0; v < GEMM_ACROSS; v++)
                t.mask[v] = gemm_mask_first((ptrdiff_t)columns - (ptrdiff_t)(n + v * GEMM_WIDTH));
            functions[m1 - m0][accumulate](&t);
        }
    }
}

#else

void GEMM_NAME(gemm_tile)(float *y, size_t ldy, const float *x, size_t ldx, const float *block, const float *bias,
                          size_t rows, size_t k, size_t columns, bool accumulate, const struct gemm_ahead *ahead) {
    (void)ahead;
    for (size_t m = 0; m < rows; m++)
        for (size_t n = 0; n < columns; n++) {
            float sum = accumulate ? y[m * ldy + n] : bias ? bias[n] : 0.0f;
            for (size_t i = 0; i < k; i++)
                sum = GEMM_DOT_ONE(x[m * ldx + i], block[i * GEMM_TILE + n], sum);
            y[m * ldy + n] = sum;
        }
}

#endif
