// SPDX-License-Identifier: Apache-2.0
// Dropout by counter: the mask of an element is a function of (key, site, example, row, column), whoever asks for it.
#include "model/ops/declare.h"
#include "model/ops/lanes.h"
#include "model/ops/philox.h"

#define COLUMNS 64 // that one call of philox_kept tells
#define BLOCK 8    // columns of one Philox block

void ISA_NAME(dropout_bits)(uint16_t *kept, size_t rows, size_t c, uint32_t first_row, uint32_t example,
                            const struct dropout *d) {
    struct philox philox;
    philox_init(&philox, d, example);
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < c; i += COLUMNS, kept += COLUMNS / LANES) {
            const uint64_t bits = philox_kept(&philox, first_row + (uint32_t)r, (uint32_t)(i / BLOCK), false);
            for (size_t l = 0; l < COLUMNS / LANES; l++)
                kept[l] = (uint16_t)(bits >> l * LANES);
        }
}

// Up to 64 columns.
static void columns_dropout(float *y, const float *x, uint64_t kept, size_t n, float factor) {
    for (; n >= LANES; n -= LANES, x += LANES, y += LANES, kept >>= LANES)
        lanes_store(y, lanes_mul(lanes_load(x), lanes_pick((uint16_t)kept, factor)));
    if (n > 0)
        lanes_store_part(y, n, lanes_mul(lanes_load_part(x, n, 0), lanes_pick((uint16_t)kept, factor)));
}

void ISA_NAME(dropout)(float *y, const float *x, size_t rows, size_t c, uint32_t first_row, uint32_t example,
                       const struct dropout *d) {
    if (d->threshold == 0) {
        if (y != x)
            memcpy(y, x, rows * c * sizeof(float));
        return;
    }
    struct philox philox;
    philox_init(&philox, d, example);
    const float factor = dropout_factor(d);
    for (size_t r = 0; r < rows; r++, x += c, y += c)
        for (size_t i = 0; i < c; i += COLUMNS)
            columns_dropout(y + i, x + i, philox_kept(&philox, first_row + (uint32_t)r, (uint32_t)(i / BLOCK), false),
                            c - i < COLUMNS ? c - i : COLUMNS, factor);
}
