// SPDX-License-Identifier: Apache-2.0
// Dropout by counter: the mask of an element is a function of (key, site, example, row, column), so backward makes it
// again.
#include "model/ops/declare.h"
#include "model/ops/philox.h"

#include <string.h>

#define LANES_A_BLOCK 8 // 16-bit lanes of one Philox block: eight neighbouring columns

// mask[b][0..8) of the sixteen blocks that follow (row, block); `across` blocks a row.
static void mask_blocks(float mask[PHILOX_BLOCKS][LANES_A_BLOCK], uint32_t row, size_t block, size_t across,
                        uint32_t example, const struct dropout *d) {
    uint32_t words[4][PHILOX_BLOCKS];
    for (int b = 0; b < PHILOX_BLOCKS; b++) {
        words[0][b] = (uint32_t)block;
        words[1][b] = row;
        words[2][b] = d->site;
        words[3][b] = example;
        if (++block == across) {
            block = 0;
            row++;
        }
    }
    philox_blocks(words, d->key);
    const float scale = 65536.0f / (float)(65536 - d->threshold);
    for (int b = 0; b < PHILOX_BLOCKS; b++)
        for (int w = 0; w < 4; w++) {
            mask[b][2 * w] = (words[w][b] & 0xffff) >= d->threshold ? scale : 0.0f;
            mask[b][2 * w + 1] = (words[w][b] >> 16) >= d->threshold ? scale : 0.0f;
        }
}

void ISA_NAME(dropout)(float *y, const float *x, size_t rows, size_t c, uint32_t first_row, uint32_t example,
                       const struct dropout *d) {
    if (d->threshold == 0) {
        if (y != x)
            memcpy(y, x, rows * c * sizeof(float));
        return;
    }
    const size_t across = (c + LANES_A_BLOCK - 1) / LANES_A_BLOCK, blocks = rows * across;
    float mask[PHILOX_BLOCKS][LANES_A_BLOCK];
    size_t row = 0, block = 0;
    for (size_t i = 0; i < blocks; i += PHILOX_BLOCKS) {
        mask_blocks(mask, first_row + (uint32_t)row, block, across, example, d);
        for (size_t b = 0; b < PHILOX_BLOCKS && i + b < blocks; b++) {
            const size_t at = row * c + block * LANES_A_BLOCK, left = c - block * LANES_A_BLOCK;
            const size_t n = left < LANES_A_BLOCK ? left : LANES_A_BLOCK;
            for (size_t l = 0; l < n; l++)
                y[at + l] = x[at + l] * mask[b][l];
            if (++block == across) {
                block = 0;
                row++;
            }
        }
    }
}
