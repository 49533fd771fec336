// SPDX-License-Identifier: Apache-2.0
// panel [N][32] = columns [k0, k0 + 32) of a weight in tiles [ceil(N/32)][K][32]; what lies behind column K-1 is 0. The
// input gradient runs the forward kernel on it. By squares of 4 x 4: eight shuffles each, the same on every instruction
// set.
#include "model/gemm/vector.h"
#include "model/ops/declare.h"

#include <string.h>

#define SQUARE 4
typedef float quad __attribute__((vector_size(SQUARE * sizeof(float))));

GEMM_INLINE quad quad_load(const float *p) {
    quad q;
    memcpy(&q, p, sizeof q);
    return q;
}

// out[i][0..4) = in[0..4)[i]; rows of both are GEMM_TILE floats apart.
GEMM_INLINE void square_transpose(float *out, const float *in) {
    const quad a = quad_load(in), b = quad_load(in + GEMM_TILE), c = quad_load(in + 2 * GEMM_TILE);
    const quad d = quad_load(in + 3 * GEMM_TILE);
    const quad ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const quad cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    const quad row[SQUARE] = {
        __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5), __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7),
        __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5), __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7)};
    for (int i = 0; i < SQUARE; i++)
        memcpy(out + i * GEMM_TILE, &row[i], sizeof row[i]);
}

// `rows` rows of one block of a panel, element by element: the last columns of K.
static void block_transpose_edge(float *panel, const float *tile, size_t rows, size_t columns) {
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < GEMM_TILE; j++)
            panel[i * GEMM_TILE + j] = j < columns ? tile[j * GEMM_TILE + i] : 0.0f;
}

// Whole squares: up to three rows behind `rows` are written too (the block has them: they are its padding).
static void block_transpose(float *panel, const float *tile, size_t rows) {
    for (size_t i = 0; i < rows; i += SQUARE)
        for (size_t j = 0; j < GEMM_TILE; j += SQUARE)
            square_transpose(panel + i * GEMM_TILE + j, tile + j * GEMM_TILE + i);
}

void ISA_NAME(gemm_transpose)(float *panel, const float *tiles, size_t n, size_t k, size_t k0) {
    const size_t columns = k - k0 < GEMM_TILE ? k - k0 : GEMM_TILE;
    for (size_t n0 = 0; n0 < n; n0 += GEMM_TILE, tiles += k * GEMM_TILE, panel += GEMM_TILE * GEMM_TILE) {
        const size_t rows = n - n0 < GEMM_TILE ? n - n0 : GEMM_TILE;
        if (columns == GEMM_TILE)
            block_transpose(panel, tiles + k0 * GEMM_TILE, rows);
        else
            block_transpose_edge(panel, tiles + k0 * GEMM_TILE, rows, columns);
    }
}
