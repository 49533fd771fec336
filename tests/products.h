// SPDX-License-Identifier: Apache-2.0
// What the tests of the products share: operands, tiles, the tree over parts, and a comparison bit for bit.
#ifndef FINETUNED_TESTS_PRODUCTS_H
#define FINETUNED_TESTS_PRODUCTS_H

#include "support.h"

#include "base/rng.h"

#define GAP 3 // floats between rows that nothing may touch
#define CANARY 12345.0f

static struct rng stream;

static float *floats(size_t n, float value) {
    float *x = malloc((n ? n : 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = value;
    return x;
}

static float *normals(size_t n) {
    float *x = floats(n, 0);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)rng_normal(&stream);
    return x;
}

static size_t blocks_of(size_t n) {
    return (n + 31) / 32;
}

static size_t tiles_size(size_t n, size_t k) {
    return blocks_of(n) * 32 * k;
}

static size_t tiles_at(size_t n, size_t k, size_t columns) {
    return (n / 32 * columns + k) * 32 + n % 32;
}

// Of a weight (n, k); zeros where the last block has no columns.
static float *tiles_make(size_t n, size_t k) {
    float *tiles = normals(tiles_size(n, k));
    for (size_t i = n; i < blocks_of(n) * 32; i++)
        for (size_t j = 0; j < k; j++)
            tiles[tiles_at(i, j, k)] = 0;
    return tiles;
}

// offsets of `parts` runs over m rows; some are empty, some have an odd number of rows.
static void parts_make(uint32_t *offsets, uint32_t parts, size_t m) {
    offsets[0] = 0;
    for (uint32_t p = 1; p < parts; p++)
        offsets[p] = offsets[p - 1] + (p % 3 == 2 ? 0 : ((uint32_t)m - offsets[p - 1]) * p / (2 * parts));
    offsets[parts] = (uint32_t)m;
}

static float tree(const float *part, uint32_t n) {
    return n == 1 ? part[0] : tree(part, n / 2) + tree(part + n / 2, n / 2);
}

static void same(const char *what, const float *got, const float *want, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got))
            fail_msg("%s: element %zu is %.9g, wanted %.9g", what, i, (double)got[i], (double)want[i]);
}

#endif
