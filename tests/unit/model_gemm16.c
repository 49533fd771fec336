// SPDX-License-Identifier: Apache-2.0
// The three products in bf16: equal bits with chains over pairs written down here, on every instruction set and thread
// count; rounding included.
#include "products.h"

#include "base/bf16.h"
#include "base/param.h"
#include "base/pool.h"
#include "model/gemm16.h"

#include <math.h>

static float rounded(float x) {
    return bf16_to_float(bf16_from_float(x));
}

struct layer {
    size_t m, n, k;
    uint32_t parts, offsets[17];
    float *tiles, *bias, *x, *dy;     // as the product takes them
    float *y, *dx, *dx_more, *dtiles; // wanted
};

// One more element of a chain, element i of `size`: pairs are added the odd one first, so even i add both.
static float chain(float sum, size_t i, size_t size, float a, float b, float a_next, float b_next) {
    if (i % 2)
        return sum;
    sum = i + 1 < size ? fmaf(rounded(a_next), rounded(b_next), sum) : fmaf(0, 0, sum);
    return fmaf(rounded(a), rounded(b), sum);
}

static float define_y(const struct layer *l, size_t m, size_t n, float sum) {
    const float *x = l->x + m * (l->k + GAP);
    for (size_t k = 0; k < l->k; k++) {
        const size_t next = k + 1 < l->k ? k + 1 : k;
        sum = chain(sum, k, l->k, x[k], l->tiles[tiles_at(n, k, l->k)], x[next], l->tiles[tiles_at(n, next, l->k)]);
    }
    return sum;
}

static float define_dx(const struct layer *l, size_t m, size_t k, float sum) {
    const float *dy = l->dy + m * (l->n + GAP);
    for (size_t n = 0; n < l->n; n++) {
        const size_t next = n + 1 < l->n ? n + 1 : n;
        sum = chain(sum, n, l->n, dy[n], l->tiles[tiles_at(n, k, l->k)], dy[next], l->tiles[tiles_at(next, k, l->k)]);
    }
    return sum;
}

static float define_dw(const struct layer *l, size_t n, size_t k) {
    const size_t ldx = l->k + GAP, ldy = l->n + GAP;
    float part[16] = {0};
    for (uint32_t p = 0; p < l->parts; p++) {
        const size_t first = l->offsets[p], rows = l->offsets[p + 1] - first;
        for (size_t t = 0; t < rows; t++) {
            const size_t at = first + t, next = t + 1 < rows ? at + 1 : at;
            part[p] = chain(part[p], t, rows, l->x[at * ldx + k], l->dy[at * ldy + n], l->x[next * ldx + k],
                            l->dy[next * ldy + n]);
        }
    }
    return tree(part, l->parts);
}

static struct layer layer_make(size_t m, size_t n, size_t k, uint32_t parts) {
    struct layer l = {.m = m, .n = n, .k = k, .parts = parts};
    parts_make(l.offsets, parts, m);
    l.tiles = tiles_make(n, k);
    l.bias = normals(n), l.x = normals(m * (k + GAP)), l.dy = normals(m * (n + GAP));
    l.y = floats(m * (n + GAP), CANARY), l.dx = floats(m * (k + GAP), CANARY), l.dx_more = floats(m * (k + GAP), 0);
    l.dtiles = floats(tiles_size(n, k), 0);
    memcpy(l.dx_more, l.x, m * (k + GAP) * sizeof(float));
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++)
            l.y[i * (n + GAP) + j] = define_y(&l, i, j, l.bias[j]);
        for (size_t j = 0; j < k; j++) {
            l.dx[i * (k + GAP) + j] = define_dx(&l, i, j, 0);
            l.dx_more[i * (k + GAP) + j] = define_dx(&l, i, j, l.x[i * (k + GAP) + j]);
        }
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < k; j++)
            l.dtiles[tiles_at(i, j, k)] = define_dw(&l, i, j);
    return l;
}

static void layer_free(struct layer *l) {
    free(l->tiles), free(l->bias), free(l->x), free(l->dy), free(l->y), free(l->dx), free(l->dx_more), free(l->dtiles);
}

static float *copy_make(const struct ops *ops, const float *tiles, size_t n, size_t k) {
    const size_t half = (k + 1) / 2;
    float *copy = floats(blocks_of(n) * half * 32, CANARY);
    for (size_t b = 0; b < blocks_of(n); b++)
        ops->pairs_tile(copy + b * half * 32, tiles + b * k * 32, k);
    return copy;
}

// kept: gets the rounded x.
static void forward_check(struct gemm16 *gemm, const struct layer *l, const float *copy, float *kept) {
    const size_t ldx = l->k + GAP, ldy = l->n + GAP;
    float *y = floats(l->m * ldy, CANARY), *again = floats(l->m * ldy, CANARY);
    gemm16_forward(gemm, y, ldy, l->x, ldx, copy, l->bias, l->m, l->n, l->k, NULL);
    same("forward", y, l->y, l->m * ldy);
    gemm16_forward(gemm, again, ldy, l->x, ldx, copy, l->bias, l->m, l->n, l->k, kept);
    same("forward, its input kept", again, l->y, l->m * ldy);
    free(y), free(again);
}

static void layer_check(struct gemm16 *gemm, const struct ops *ops, const struct layer *l) {
    const size_t ldx = l->k + GAP, ldy = l->n + GAP, size = tiles_size(l->n, l->k);
    const size_t sums = blocks_of(l->n) * ((l->k + PARAM_SLICE - 1) / PARAM_SLICE);
    float *copy = copy_make(ops, l->tiles, l->n, l->k), *dx = floats(l->m * ldx, CANARY), *dtiles = floats(size, 7);
    double *squares = calloc(sums + 1, sizeof *squares), all = 0;
    squares[sums] = -1;
    float *kept = floats(l->m * ((l->k + 1) / 2), CANARY);
    forward_check(gemm, l, copy, kept);
    gemm16_input(gemm, dx, ldx, l->dy, ldy, copy, l->m, l->n, l->k, false);
    same("input", dx, l->dx, l->m * ldx);
    memcpy(dx, l->x, l->m * ldx * sizeof *dx);
    gemm16_input(gemm, dx, ldx, l->dy, ldy, copy, l->m, l->n, l->k, true);
    same("input, accumulated", dx, l->dx_more, l->m * ldx);
    gemm16_weight(gemm, dtiles, l->dy, ldy, l->x, ldx, l->offsets, l->parts, l->n, l->k, squares);
    same("weight", dtiles, l->dtiles, size); // padding too: zeros
    memset(dtiles, 0xff, size * sizeof *dtiles);
    gemm16_weight_kept(gemm, dtiles, l->dy, ldy, kept, l->offsets, l->parts, l->n, l->k, squares);
    same("weight, of what forward kept", dtiles, l->dtiles, size);
    for (size_t i = 0; i < sums; i++)
        all += squares[i];
    assert_near(all, ops->squares(dtiles, size), 1e-300, 1e-12);
    assert_true(squares[sums] == -1);
    free(copy), free(kept), free(dx), free(dtiles), free(squares);
}

struct shape {
    size_t m, n, k;
    uint32_t parts;
};

static void shapes_check(const struct shape *shapes, size_t n_shapes) {
    size_t width = 1, rows = 1;
    for (size_t i = 0; i < n_shapes; i++) {
        width = shapes[i].n > width ? shapes[i].n : width;
        width = shapes[i].k > width ? shapes[i].k : width;
        rows = shapes[i].m > rows ? shapes[i].m : rows;
    }
    stream = rng_stream(5, n_shapes);
    for (unsigned threads = 1; threads <= 3; threads++) {
        struct pool *pool;
        assert_ok(pool_open(&pool, threads));
        for (size_t i = 0; i < n_shapes; i++) {
            struct layer l = layer_make(shapes[i].m, shapes[i].n, shapes[i].k, shapes[i].parts);
            for (int isa = 0; isa < ISA_COUNT; isa++) {
                const struct ops *ops = ops_table((enum isa)isa);
                struct gemm16 *gemm;
                if (!ops)
                    continue;
                assert_ok(gemm16_open(&gemm, pool, ops, &(struct gemm16_room){rows, width, 16, true}));
                layer_check(gemm, ops, &l);
                gemm16_close(gemm);
            }
            layer_free(&l);
        }
        pool_close(pool);
    }
}

static void test_every_row_count(void **state) {
    (void)state;
    struct shape shapes[33];
    for (size_t m = 0; m <= 32; m++)
        shapes[m] = (struct shape){m, 45, 37, 1u << m % 5};
    shapes_check(shapes, 33);
}

static void test_shapes(void **state) {
    (void)state;
    static const struct shape shapes[] = {
        {1, 1, 1, 1},     {3, 1, 33, 2},     {5, 3, 64, 4},    {8, 32, 32, 8},    {14, 33, 31, 1},
        {28, 64, 96, 16}, {29, 96, 65, 8},   {40, 31, 7, 4},   {70, 100, 2, 4},   {13, 65, 129, 1},
        {250, 40, 50, 8}, {15, 320, 200, 2}, {6, 1700, 34, 2}, {17, 34, 1650, 1}, {300, 96, 96, 16},
    };
    shapes_check(shapes, sizeof shapes / sizeof *shapes);
}

// P parts in one call are the tree of P calls: what ranks and micro-batches do with their parts.
static void test_parts(void **state) {
    (void)state;
    enum { M = 40, N = 45, K = 38, P = 16 };
    struct pool *pool;
    assert_ok(pool_open(&pool, 1));
    stream = rng_stream(6, 0);
    struct layer l = layer_make(M, N, K, P);
    const size_t size = blocks_of(N) * 32 * K;
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        const struct ops *ops = ops_table((enum isa)isa);
        struct gemm16 *gemm;
        if (!ops)
            continue;
        assert_ok(gemm16_open(&gemm, pool, ops, &(struct gemm16_room){M, N, P, false}));
        for (uint32_t run = 1; run < P; run *= 2) { // parts a call
            float *part = floats(P * size, 0);
            for (uint32_t p = 0; p < P; p += run)
                gemm16_weight(gemm, part + p * size, l.dy, N + GAP, l.x, K + GAP, l.offsets + p, run, N, K, NULL);
            for (uint32_t width = run; width < P; width *= 2)
                for (uint32_t p = 0; p < P; p += 2 * width)
                    ops->add(part + p * size, part + (p + width) * size, size);
            same("tree of parts", part, l.dtiles, size);
            free(part);
        }
        gemm16_close(gemm);
    }
    layer_free(&l);
    pool_close(pool);
}

int main(void) {
    pool_flush_denormals(); // as in every thread of the product
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_row_count), cmocka_unit_test(test_shapes),
                                       cmocka_unit_test(test_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
