// SPDX-License-Identifier: Apache-2.0
// Floats to pairs (gemm/pairs.h), rounded to nearest even by integers alone, so that every instruction set gives the
// same bits; and panels of pairs for the input gradient.
#include "model/gemm/pairs.h"

#include "base/bf16.h"
#include "base/param.h"
#include "model/ops/declare.h"

#define TILE PARAM_TILE
#define HALF (TILE / 2)

#define PAIRS_INLINE static inline __attribute__((always_inline))

PAIRS_INLINE void pair_write(float *to, size_t i, float even, float odd) {
    const uint32_t bits = (uint32_t)bf16_from_float(odd) << 16 | bf16_from_float(even);
    memcpy(to + i, &bits, sizeof bits);
}

void ISA_NAME(pairs_row)(float *to, const float *from, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const uint16_t half = bf16_from_float(from[i]);
        memcpy((char *)to + i * sizeof half, &half, sizeof half);
    }
    if (n % 2)
        memset((char *)to + n * sizeof(uint16_t), 0, sizeof(uint16_t));
}

void ISA_NAME(pairs_rows)(float *to, const float *even, const float *odd, size_t n) {
    if (odd)
        for (size_t i = 0; i < n; i++)
            pair_write(to, i, even[i], odd[i]);
    else
        for (size_t i = 0; i < n; i++)
            pair_write(to, i, even[i], 0.0f);
}

PAIRS_INLINE uint32_t half_read(const float *row, size_t i) {
    uint16_t half;
    memcpy(&half, (const char *)row + i * sizeof half, sizeof half);
    return half;
}

void ISA_NAME(pairs_rows_kept)(float *to, const float *even, const float *odd, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = (odd ? half_read(odd, i) << 16 : 0) | half_read(even, i);
        memcpy(to + i, &bits, sizeof bits);
    }
}

void ISA_NAME(pairs_tile)(float *to, const float *from, size_t k) {
    for (; k >= 2; k -= 2, from += 2 * TILE, to += TILE)
        for (size_t i = 0; i < TILE; i++)
            pair_write(to, i, from[i], from[TILE + i]);
    if (k)
        for (size_t i = 0; i < TILE; i++)
            pair_write(to, i, from[i], 0.0f);
}

// Squares of four rows of a block (pairs along K; a row: TILE values of n) by four neighbouring pairs of n. A quad's
// element is two of a row's words, n and n + 1.
#define SQUARE 4
typedef uint64_t quad __attribute__((vector_size(SQUARE * sizeof(uint64_t))));

PAIRS_INLINE void square_transpose(float *out, const float *in) {
    quad r[SQUARE]; // (k, k+1 of n; k, k+1 of n+1) becomes (n, n+1 of k; n, n+1 of k+1)
    for (int i = 0; i < SQUARE; i++) {
        memcpy(&r[i], in + i * TILE, sizeof r[i]);
        r[i] = (r[i] & 0xffff00000000ffffu) | (r[i] >> 16 & 0xffff0000u) | (r[i] << 16 & 0xffff00000000u);
    }
    const quad ab0 = __builtin_shufflevector(r[0], r[1], 0, 4, 2, 6),
               ab1 = __builtin_shufflevector(r[0], r[1], 1, 5, 3, 7);
    const quad cd0 = __builtin_shufflevector(r[2], r[3], 0, 4, 2, 6),
               cd1 = __builtin_shufflevector(r[2], r[3], 1, 5, 3, 7);
    const quad row[SQUARE] = {
        __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5), __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5),
        __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7), __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7)};
    for (int i = 0; i < SQUARE; i++)
        memcpy(out + i * TILE, &row[i], sizeof row[i]);
}

// A block's `rows` pairs of n, with fewer than all pairs of k: the rest of the panel is 0.
static void block_transpose_edge(float *panel, const float *tile, size_t rows, size_t columns) {
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < HALF; j++) {
            uint32_t low[2] = {0}; // words n and n+1
            if (j < columns)
                memcpy(low, tile + j * TILE + 2 * i, sizeof low);
            const uint32_t out[2] = {(low[0] & 0xffffu) | low[1] << 16, low[0] >> 16 | (low[1] & 0xffff0000u)};
            memcpy(panel + i * TILE + 2 * j, out, sizeof out);
        }
}

static void block_transpose(float *panel, const float *tile, size_t rows) {
    for (size_t i = 0; i < rows; i += SQUARE)
        for (size_t j = 0; j < HALF; j += SQUARE)
            square_transpose(panel + i * TILE + 2 * j, tile + j * TILE + 2 * i);
}

void ISA_NAME(gemm_transpose_pairs)(float *panel, const float *tiles, size_t n, size_t k, size_t k0) {
    const size_t all = (k + 1) / 2, columns = all - k0 / 2 < HALF ? all - k0 / 2 : HALF;
    for (size_t n0 = 0; n0 < n; n0 += HALF, tiles += all * TILE, panel += HALF * TILE) {
        const size_t rows = n - n0 < HALF ? n - n0 : HALF;
        if (columns == HALF)
            block_transpose(panel, tiles + k0 / 2 * TILE, rows);
        else
            block_transpose_edge(panel, tiles + k0 / 2 * TILE, rows, columns);
    }
}
