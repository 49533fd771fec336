// SPDX-License-Identifier: Apache-2.0
#include "model/ops/declare.h"
#include "model/ops/lanes.h"
#include "model/ops/tree.h"

#define CHUNK 64 // columns summed at a time: four cache lines of a row
#define CHUNK_LANES (CHUNK / LANES)

// Whole chunks: the sums stay in registers.
static void chunk_sums(float *sums, const float *dy, size_t begin, size_t end, size_t c) {
    struct lanes sum[CHUNK_LANES];
    for (size_t l = 0; l < CHUNK_LANES; l++)
        sum[l] = lanes_all(0);
    for (size_t r = begin; r < end; r++)
        for (size_t l = 0; l < CHUNK_LANES; l++)
            sum[l] = lanes_add(sum[l], lanes_load(dy + r * c + l * LANES));
    for (size_t l = 0; l < CHUNK_LANES; l++)
        lanes_store(sums + l * LANES, sum[l]);
}

static void part_sums(float *sums, const float *dy, size_t begin, size_t end, size_t c, size_t n) {
    memset(sums, 0, CHUNK * sizeof(float));
    for (size_t r = begin; r < end; r++)
        for (size_t i = 0; i < n; i++)
            sums[i] += dy[r * c + i];
}

void ISA_NAME(column_sums)(float *dbias, const float *dy, const uint32_t *offsets, uint32_t parts, size_t c, size_t c0,
                           size_t c1) {
    float stack[TREE_LEVELS][CHUNK], sums[CHUNK];
    for (size_t first = c0; first < c1; first += CHUNK) {
        const size_t n = c1 - first < CHUNK ? c1 - first : CHUNK;
        for (uint32_t p = 0; p < parts; p++) {
            if (n == CHUNK)
                chunk_sums(sums, dy + first, offsets[p], offsets[p + 1], c);
            else
                part_sums(sums, dy + first, offsets[p], offsets[p + 1], c, n);
            tree_push(stack[0], sums, p, CHUNK);
        }
        memcpy(dbias + first, stack[tree_root(parts)], n * sizeof(float));
    }
}
