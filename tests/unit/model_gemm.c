// SPDX-License-Identifier: Apache-2.0
// The three products: equal bits with chains of fused multiply-adds written down here, on every instruction set and
// thread count.
#include "products.h"

#include "base/param.h"
#include "base/pool.h"
#include "model/gemm.h"

#include <math.h>

// One set of operands and the three products by definition. Rows of x and dx lie k + GAP apart, rows of y and dy n +
// GAP.
struct layer {
    size_t m, n, k;
    uint32_t parts, offsets[17];
    float *tiles, *bias, *x, *dy;
    float *y, *y_bare, *dx, *dx_more, *dtiles; // wanted
};

static void define_forward(struct layer *l) {
    for (size_t m = 0; m < l->m; m++)
        for (size_t n = 0; n < l->n; n++) {
            float sum = l->bias[n], bare = 0;
            for (size_t k = 0; k < l->k; k++) {
                const float x = l->x[m * (l->k + GAP) + k], w = l->tiles[tiles_at(n, k, l->k)];
                sum = fmaf(x, w, sum);
                bare = fmaf(x, w, bare);
            }
            l->y[m * (l->n + GAP) + n] = sum;
            l->y_bare[m * (l->n + GAP) + n] = bare;
        }
}

static void define_input(struct layer *l) {
    for (size_t m = 0; m < l->m; m++)
        for (size_t k = 0; k < l->k; k++) {
            float sum = 0, more = l->x[m * (l->k + GAP) + k];
            for (size_t n = 0; n < l->n; n++) {
                const float dy = l->dy[m * (l->n + GAP) + n], w = l->tiles[tiles_at(n, k, l->k)];
                sum = fmaf(dy, w, sum);
                more = fmaf(dy, w, more);
            }
            l->dx[m * (l->k + GAP) + k] = sum;
            l->dx_more[m * (l->k + GAP) + k] = more;
        }
}

static void define_weight(struct layer *l) {
    for (size_t n = 0; n < l->n; n++)
        for (size_t k = 0; k < l->k; k++) {
            float part[16] = {0};
            for (uint32_t p = 0; p < l->parts; p++)
                for (size_t t = l->offsets[p]; t < l->offsets[p + 1]; t++)
                    part[p] = fmaf(l->x[t * (l->k + GAP) + k], l->dy[t * (l->n + GAP) + n], part[p]);
            l->dtiles[tiles_at(n, k, l->k)] = tree(part, l->parts);
        }
}

static struct layer layer_make(size_t m, size_t n, size_t k, uint32_t parts) {
    struct layer l = {.m = m, .n = n, .k = k, .parts = parts};
    parts_make(l.offsets, parts, m);
    l.tiles = tiles_make(n, k);
    l.bias = normals(n), l.x = normals(m * (k + GAP)), l.dy = normals(m * (n + GAP));
    l.y = floats(m * (n + GAP), CANARY), l.y_bare = floats(m * (n + GAP), CANARY);
    l.dx = floats(m * (k + GAP), CANARY), l.dx_more = floats(m * (k + GAP), 0);
    l.dtiles = floats(tiles_size(n, k), 0);
    memcpy(l.dx_more, l.x, m * (k + GAP) * sizeof(float));
    define_forward(&l);
    define_input(&l);
    define_weight(&l);
    return l;
}

static void layer_free(struct layer *l) {
    free(l->tiles), free(l->bias), free(l->x), free(l->dy), free(l->y), free(l->y_bare);
    free(l->dx), free(l->dx_more), free(l->dtiles);
}

// Of the pieces that base/param.h cuts, and of nothing behind them.
static void squares_check(const double *squares, const struct layer *l) {
    struct param_table table = {0};
    assert_ok(param_add(&table, "w", PARAM_TILES, l->n, l->k, true, 0));
    const struct param *param = &table.at[0];
    for (uint64_t i = 0; i < param_sums(param); i++) {
        const struct param_piece piece = param_sum(param, i);
        assert_true(squares[i] == ops_table(ISA_PLAIN)->squares(l->dtiles + piece.offset, piece.n));
    }
    assert_true(squares[param_sums(param)] == -1);
    param_table_release(&table);
}

static void layer_check(struct gemm *gemm, const struct layer *l) {
    const size_t ldx = l->k + GAP, ldy = l->n + GAP;
    float *y = floats(l->m * ldy, CANARY), *dx = floats(l->m * ldx, CANARY),
          *dtiles = floats(tiles_size(l->n, l->k), 7);
    const size_t sums = blocks_of(l->n) * ((l->k + PARAM_SLICE - 1) / PARAM_SLICE);
    double *squares = calloc(sums + 1, sizeof *squares);
    squares[sums] = -1;
    gemm_forward(gemm, y, ldy, l->x, ldx, l->tiles, l->bias, l->m, l->n, l->k);
    same("forward", y, l->y, l->m * ldy);
    gemm_forward(gemm, y, ldy, l->x, ldx, l->tiles, NULL, l->m, l->n, l->k);
    same("forward without bias", y, l->y_bare, l->m * ldy);
    gemm_input(gemm, dx, ldx, l->dy, ldy, l->tiles, l->m, l->n, l->k, false);
    same("input", dx, l->dx, l->m * ldx);
    memcpy(dx, l->x, l->m * ldx * sizeof *dx);
    gemm_input(gemm, dx, ldx, l->dy, ldy, l->tiles, l->m, l->n, l->k, true);
    same("input, accumulated", dx, l->dx_more, l->m * ldx);
    gemm_weight(gemm, dtiles, l->dy, ldy, l->x, ldx, l->offsets, l->parts, l->n, l->k, squares);
    same("weight", dtiles, l->dtiles, tiles_size(l->n, l->k)); // padding too: zeros
    squares_check(squares, l);
    free(y), free(dx), free(dtiles), free(squares);
}

struct shape {
    size_t m, n, k;
    uint32_t parts;
};

// On every instruction set and with `first` to 3 threads (the pool lowers the number to the processors that are there).
static void threads_check(const struct shape *shapes, size_t n_shapes, unsigned first) {
    stream = rng_stream(3, n_shapes);
    for (unsigned threads = first; threads <= 3; threads++) {
        struct pool *pool;
        assert_ok(pool_open(&pool, threads));
        for (size_t i = 0; i < n_shapes; i++) {
            struct layer l = layer_make(shapes[i].m, shapes[i].n, shapes[i].k, shapes[i].parts);
            for (int isa = 0; isa < ISA_COUNT; isa++) {
                if (!ops_table((enum isa)isa))
                    continue;
                struct gemm *gemm;
                assert_ok(gemm_open(&gemm, pool, ops_table((enum isa)isa)));
                layer_check(gemm, &l);
                gemm_close(gemm);
            }
            layer_free(&l);
        }
        pool_close(pool);
    }
}

static void shapes_check(const struct shape *shapes, size_t n_shapes) {
    threads_check(shapes, n_shapes, 1);
}

static void test_every_row_count(void **state) {
    (void)state;
    struct shape shapes[41];
    for (size_t m = 0; m <= 40; m++)
        shapes[m] = (struct shape){m, 45, 37, 1u << m % 5};
    shapes_check(shapes, 41);
}

static void test_shapes(void **state) {
    (void)state;
    static const struct shape shapes[] = {
        {1, 1, 1, 1},     {3, 1, 33, 2},     {5, 3, 64, 4},     {8, 32, 32, 8},  {14, 33, 31, 1},
        {28, 64, 96, 16}, {29, 96, 65, 8},   {40, 31, 7, 4},    {70, 100, 2, 4}, {13, 65, 129, 1},
        {250, 40, 50, 8}, {500, 33, 20, 16}, {15, 320, 200, 2}, {6, 20, 400, 2},
    };
    shapes_check(shapes, sizeof shapes / sizeof *shapes);
}

// More than caches hold: sums in pieces of K and of N, rows in stretches, parts in groups (also of one part, of no
// rows, and too long for a copy), slices of K, several blocks to an item.
static void test_large(void **state) {
    (void)state;
    static const struct shape shapes[] = {
        {20, 40, 1700, 2}, {20, 1700, 40, 4},   {5, 3, 2000, 1},    {1100, 33, 820, 8},
        {33, 70, 500, 2},  {1040, 290, 40, 16}, {2100, 40, 210, 4}, {5000, 33, 70, 1},
    };
    threads_check(shapes, sizeof shapes / sizeof *shapes, 3);
}

// A row's bits don't depend on what other rows there are: taken alone, in a small and in a large batch.
static void test_rows_alone(void **state) {
    (void)state;
    enum { M = 300, N = 70, K = 130 };
    struct pool *pool;
    assert_ok(pool_open(&pool, 2));
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!ops_table((enum isa)isa))
            continue;
        struct gemm *gemm;
        assert_ok(gemm_open(&gemm, pool, ops_table((enum isa)isa)));
        float *tiles = normals(tiles_size(N, K)), *x = normals(M * K), *all = floats(M * N, 0),
              *some = floats(M * N, 0);
        gemm_forward(gemm, all, N, x, K, tiles, NULL, M, N, K);
        for (size_t m = 0; m < M; m += 17)
            for (size_t n = 1; m + n <= M && n < 34; n += 8) {
                gemm_forward(gemm, some, N, x + m * K, K, tiles, NULL, n, N, K);
                same("rows alone", some, all + m * N, n * N);
            }
        free(tiles), free(x), free(all), free(some);
        gemm_close(gemm);
    }
    pool_close(pool);
}

// P parts in one call are the tree of P calls: what ranks and micro-batches do with their parts.
static void test_parts(void **state) {
    (void)state;
    enum { M = 40, N = 45, K = 37, P = 16 };
    struct pool *pool;
    assert_ok(pool_open(&pool, 1));
    struct layer l = layer_make(M, N, K, P);
    const size_t size = tiles_size(N, K);
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        const struct ops *ops = ops_table((enum isa)isa);
        if (!ops)
            continue;
        struct gemm *gemm;
        assert_ok(gemm_open(&gemm, pool, ops));
        for (uint32_t run = 1; run < P; run *= 2) { // parts a call
            float *part = floats(P * size, 0);
            for (uint32_t p = 0; p < P; p += run)
                gemm_weight(gemm, part + p * size, l.dy, N + GAP, l.x, K + GAP, l.offsets + p, run, N, K, NULL);
            for (uint32_t width = run; width < P; width *= 2)
                for (uint32_t p = 0; p < P; p += 2 * width)
                    ops->add(part + p * size, part + (p + width) * size, size);
            same("tree of parts", part, l.dtiles, size);
            free(part);
        }
        gemm_close(gemm);
    }
    layer_free(&l);
    pool_close(pool);
}

// A row that is infinite or NaN stays in its row, and the padding of the last block stays zero.
static void test_non_finite(void **state) {
    (void)state;
    enum { M = 20, N = 5, K = 40 };
    struct pool *pool;
    assert_ok(pool_open(&pool, 1));
    const uint32_t offsets[] = {0, M};
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!ops_table((enum isa)isa))
            continue;
        struct gemm *gemm;
        assert_ok(gemm_open(&gemm, pool, ops_table((enum isa)isa)));
        float *tiles = normals(tiles_size(N, K)), *x = normals(M * K), *y = floats(M * N, 0), *dy = normals(M * N);
        float *dtiles = floats(tiles_size(N, K), 7);
        x[7 * K + 3] = NAN, x[8 * K + 4] = INFINITY;
        gemm_forward(gemm, y, N, x, K, tiles, NULL, M, N, K);
        gemm_weight(gemm, dtiles, dy, N, x, K, offsets, 1, N, K, NULL);
        for (size_t m = 0; m < M; m++)
            assert_int_equal(!isfinite(y[m * N]), m == 7 || m == 8);
        for (size_t i = 0; i < 32; i++) {
            assert_int_equal(isnan(dtiles[tiles_at(i, 3, K)]), i < N);
            assert_int_equal(isfinite(dtiles[tiles_at(i, 4, K)]), i >= N);
            assert_true(isfinite(dtiles[tiles_at(i, 5, K)]));
        }
        free(tiles), free(x), free(y), free(dy), free(dtiles);
        gemm_close(gemm);
    }
    pool_close(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row_count), cmocka_unit_test(test_shapes), cmocka_unit_test(test_rows_alone),
        cmocka_unit_test(test_large),           cmocka_unit_test(test_parts),  cmocka_unit_test(test_non_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
