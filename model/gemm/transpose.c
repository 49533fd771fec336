// SPDX-License-Identifier: Apache-2.0
// panel [N][32] = columns [k0, k0 + 32) of a weight in tiles [ceil(N/32)][K][32]; what lies behind column K-1 is 0. The
// input gradient runs the forward kernel on it. The definition is element by element; the vector path takes four rows
// of the panel at a time: vector q of four holds, in its lane l of four floats, column 4 l + q of those rows, and eight
// shuffles within the lanes turn the four vectors into the four rows.
#include "model/gemm/vector.h"
#include "model/ops/declare.h"

static void block_transpose_part(float *panel, const float *tile, size_t rows, size_t columns) {
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < GEMM_TILE; j++)
            panel[i * GEMM_TILE + j] = j < columns ? tile[j * GEMM_TILE + i] : 0.0f;
}

#ifdef GEMM_ROWS

#define SQUARE 4

// out[i][0..GEMM_WIDTH) = in[0..GEMM_WIDTH)[i] for i < 4; rows of both are GEMM_TILE floats apart.
GEMM_INLINE void rows_transpose(float *out, const float *in) {
    const gemm_vector a = gemm_quads(in, SQUARE * GEMM_TILE), b = gemm_quads(in + GEMM_TILE, SQUARE * GEMM_TILE);
    const gemm_vector c = gemm_quads(in + 2 * GEMM_TILE, SQUARE * GEMM_TILE);
    const gemm_vector d = gemm_quads(in + 3 * GEMM_TILE, SQUARE * GEMM_TILE);
    const gemm_vector ab0 = GEMM_UNPACK_LOW(a, b), ab2 = GEMM_UNPACK_HIGH(a, b);
    const gemm_vector cd0 = GEMM_UNPACK_LOW(c, d), cd2 = GEMM_UNPACK_HIGH(c, d);
    GEMM_STORE(out, GEMM_SHUFFLE(ab0, cd0, 0x44)); // the lower halves of both
    GEMM_STORE(out + GEMM_TILE, GEMM_SHUFFLE(ab0, cd0, 0xee));
    GEMM_STORE(out + 2 * GEMM_TILE, GEMM_SHUFFLE(ab2, cd2, 0x44));
    GEMM_STORE(out + 3 * GEMM_TILE, GEMM_SHUFFLE(ab2, cd2, 0xee));
}

// Up to three rows behind `rows` are written too (the block has them: they are its padding).
static void block_transpose(float *panel, const float *tile, size_t rows) {
    for (size_t i = 0; i < rows; i += SQUARE)
        for (size_t j = 0; j < GEMM_TILE; j += GEMM_WIDTH)
            rows_transpose(panel + i * GEMM_TILE + j, tile + j * GEMM_TILE + i);
}

#else

static void block_transpose(float *panel, const float *tile, size_t rows) {
    block_transpose_part(panel, tile, rows, GEMM_TILE);
}

#endif

void ISA_NAME(gemm_transpose)(float *panel, const float *tiles, size_t n, size_t k, size_t k0) {
    const size_t columns = k - k0 < GEMM_TILE ? k - k0 : GEMM_TILE;
    for (size_t n0 = 0; n0 < n; n0 += GEMM_TILE, tiles += k * GEMM_TILE, panel += GEMM_TILE * GEMM_TILE) {
        const size_t rows = n - n0 < GEMM_TILE ? n - n0 : GEMM_TILE;
        if (columns == GEMM_TILE)
            block_transpose(panel, tiles + k0 * GEMM_TILE, rows);
        else
            block_transpose_part(panel, tiles + k0 * GEMM_TILE, rows, columns);
    }
}
