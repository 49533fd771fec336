// SPDX-License-Identifier: Apache-2.0
// As model/gemm/tile.c, a piece of y (GEMM_ROWS rows, two vectors) stays in registers while k runs, and every number of
// rows has a function of its own. Here operands lie in L1, x is also read by columns, and where only sixteen columns
// are left a piece is one vector wide. The plain definition is at the end.
#include "model/ops/product.h"

#include "model/gemm/vector.h"

#include <math.h>

#ifdef GEMM_ROWS

struct piece {
    float *y;
    size_t ldy;
    const float *x;
    size_t ldx;
    const float *b;
    size_t ldb;
    size_t depth;
    gemm_mask mask[GEMM_ACROSS];
};

GEMM_INLINE void piece_step(gemm_vector sum[GEMM_ROWS][GEMM_ACROSS], const float *const x[], const size_t ldx,
                            const float *b, const size_t rows, const size_t across) {
    gemm_vector column[GEMM_ACROSS];
#pragma GCC unroll 2
    for (size_t v = 0; v < across; v++)
        column[v] = GEMM_LOAD(b + v * GEMM_WIDTH);
#pragma GCC unroll 14
    for (size_t r = 0; r < rows; r++) {
        const gemm_vector a = GEMM_ALL(x[r / 3][r % 3 * ldx]);
#pragma GCC unroll 2
        for (size_t v = 0; v < across; v++)
            sum[r][v] = GEMM_FMA(a, column[v], sum[r][v]);
    }
}

// rows, across, transposed and more are constants here.
GEMM_INLINE void piece_run(const struct piece *p, const size_t rows, const size_t across, const bool transposed,
                           const bool more) {
    gemm_vector sum[GEMM_ROWS][GEMM_ACROSS];
#pragma GCC unroll 14
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (size_t v = 0; v < across; v++)
            sum[r][v] = more ? GEMM_LOAD_MASK(p->y + r * p->ldy + v * GEMM_WIDTH, p->mask[v]) : GEMM_ZERO();
    const size_t ldx = transposed ? 1 : p->ldx, step = transposed ? p->ldx : 1, ldb = p->ldb;
    const float *b = p->b, *x[(GEMM_ROWS + 2) / 3]; // every third row's pointer
#pragma GCC unroll 5
    for (size_t i = 0; i < (rows + 2) / 3; i++)
        x[i] = p->x + 3 * i * ldx;
    for (size_t k = p->depth; k > 0; k--, b += ldb) {
        piece_step(sum, x, ldx, b, rows, across);
#pragma GCC unroll 5
        for (size_t i = 0; i < (rows + 2) / 3; i++)
            x[i] += step;
    }
#pragma GCC unroll 14
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (size_t v = 0; v < across; v++)
            GEMM_STORE_MASK(p->y + r * p->ldy + v * GEMM_WIDTH, p->mask[v], sum[r][v]);
}

typedef void piece_function(const struct piece *p);

#define PIECE_FUNCTION(name, rows, across, transposed, more)                                                           \
    static __attribute__((noinline)) void name##_##rows##_##across(const struct piece *p) {                            \
        piece_run(p, rows, across, transposed, more);                                                                  \
    }
#define PIECE_FUNCTIONS(rows, across)                                                                                  \
    PIECE_FUNCTION(straight, rows, across, false, false)                                                               \
    PIECE_FUNCTION(transposed, rows, across, true, false)                                                              \
    PIECE_FUNCTION(added, rows, across, true, true)

#if GEMM_ROWS == 14
#define EACH_ROWS(f, across)                                                                                           \
    f(1, across) f(2, across) f(3, across) f(4, across) f(5, across) f(6, across) f(7, across) f(8, across)            \
        f(9, across) f(10, across) f(11, across) f(12, across) f(13, across) f(14, across)
EACH_ROWS(PIECE_FUNCTIONS, 1)
#else
#define EACH_ROWS(f, across) f(1, across) f(2, across) f(3, across) f(4, across) f(5, across) f(6, across)
#endif
EACH_ROWS(PIECE_FUNCTIONS, 2)

enum kind { STRAIGHT, TRANSPOSED, ADDED, KINDS };

#define PIECE_ROW(rows, across)                                                                                        \
    [rows] = {straight_##rows##_##across, transposed_##rows##_##across, added_##rows##_##across},
static piece_function *const functions[GEMM_ACROSS][GEMM_ROWS + 1][KINDS] = {
#if GEMM_ROWS == 14
    {EACH_ROWS(PIECE_ROW, 1)},
#endif
    [1] = {EACH_ROWS(PIECE_ROW, 2)},
};

// Vectors across of the piece that begins at column c. A vector of AVX2 is half a lane: there it is always two.
static size_t piece_across(const struct product *p, size_t c) {
    return GEMM_WIDTH == PRODUCT_LANE && p->columns - c <= PRODUCT_LANE ? 1 : GEMM_ACROSS;
}

static void product_kind(const struct product *p, enum kind kind) {
    const size_t runs = GEMM_RUNS(p->rows), row = kind == STRAIGHT ? p->ldx : 1;
    for (size_t c = 0; c < p->columns; c += GEMM_ACROSS * GEMM_WIDTH) {
        struct piece piece = {.ldy = p->ldy, .ldx = p->ldx, .ldb = p->ldb, .depth = p->depth};
        piece.b = p->b + c / PRODUCT_PANEL * p->panel + c % PRODUCT_PANEL;
        for (size_t v = 0; v < GEMM_ACROSS; v++)
            piece.mask[v] = gemm_mask_first((ptrdiff_t)p->columns - (ptrdiff_t)(c + v * GEMM_WIDTH));
        const size_t across = piece_across(p, c);
        for (size_t run = 0; run < runs; run++) {
            const size_t m0 = p->rows * run / runs, m1 = p->rows * (run + 1) / runs;
            piece.y = p->y + m0 * p->ldy + c;
            piece.x = p->x + m0 * row;
            functions[across - 1][m1 - m0][kind](&piece);
        }
    }
}

void ISA_NAME(product)(const struct product *p) {
    product_kind(p, STRAIGHT);
}

void ISA_NAME(product_transposed)(const struct product *p, bool more) {
    product_kind(p, more ? ADDED : TRANSPOSED);
}

#else

static void product_define(const struct product *p, size_t x_row, size_t x_step, bool more) {
    for (size_t r = 0; r < p->rows; r++)
        for (size_t c = 0; c < p->columns; c++) {
            const float *b = p->b + c / PRODUCT_PANEL * p->panel + c % PRODUCT_PANEL;
            float sum = more ? p->y[r * p->ldy + c] : 0.0f;
            for (size_t k = 0; k < p->depth; k++)
                sum = fmaf(p->x[r * x_row + k * x_step], b[k * p->ldb], sum);
            p->y[r * p->ldy + c] = sum;
        }
}

void ISA_NAME(product)(const struct product *p) {
    product_define(p, p->ldx, 1, false);
}

void ISA_NAME(product_transposed)(const struct product *p, bool more) {
    product_define(p, 1, p->ldx, more);
}

#endif
