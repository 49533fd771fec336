// SPDX-License-Identifier: Apache-2.0
// The global norm: every element counts once, in double, and what is not finite shows.
#include "support.h"

#include "optim_support.h"

#include <float.h>
#include <math.h>

struct fixture {
    struct param_table table;
    struct pool *pool;
    float *weights, *gradient;
    struct optimizer *o;
};

static int fixture_open(void **state) {
    struct fixture *f = *state = calloc(1, sizeof *f);
    struct optimizer_options options = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    assert_ok(param_add(&f->table, "embedding", PARAM_ROWS, 97, 33, true, 0));
    assert_ok(param_add(&f->table, "dense", PARAM_TILES, 70, 777, true, 1));
    assert_ok(param_add(&f->table, "bias", PARAM_VECTOR, 70, 1, false, 1));
    assert_ok(param_add(&f->table, "narrow", PARAM_TILES, 2, 5, true, 2));
    assert_ok(param_finish(&f->table));
    assert_ok(pool_open(&f->pool, 2));
    f->weights = calloc(f->table.floats, sizeof(float));
    f->gradient = calloc(f->table.floats, sizeof(float));
    assert_ok(optimizer_open(&f->o, &f->table, f->pool, f->weights, &options));
    return 0;
}

static int fixture_close(void **state) {
    struct fixture *f = *state;
    optimizer_close(f->o);
    pool_close(f->pool);
    param_table_release(&f->table);
    free(f->weights);
    free(f->gradient);
    free(f);
    return 0;
}

// Squares of integers below 2^11 add up exactly in double, in any order: so nothing may be lost or counted twice.
static void test_exact(void **state) {
    struct fixture *f = *state;
    uint64_t sum = 0;
    for (size_t i = 0; i < f->table.n; i++)
        for (uint64_t j = 0; j < f->table.at[i].size; j++) {
            int64_t value = (int64_t)((j * 7919 + i) % 2047) - 1023;
            f->gradient[f->table.at[i].offset + j] = (float)value;
            sum += (uint64_t)(value * value);
        }
    assert_true(norm_of(f->o, f->gradient) == sqrt((double)sum));
    memset(f->gradient, 0, f->table.floats * sizeof(float));
    assert_true(norm_of(f->o, f->gradient) == 0);
}

// Each element alone: 3 in one place gives 3.
static void test_each_element(void **state) {
    struct fixture *f = *state;
    memset(f->gradient, 0, f->table.floats * sizeof(float));
    for (size_t i = 0; i < f->table.n; i++)
        for (uint64_t j = 0; j < f->table.at[i].size; j += j < 40 || f->table.at[i].size < j + 40 ? 1 : 997) {
            f->gradient[f->table.at[i].offset + j] = -3;
            assert_true(norm_of(f->o, f->gradient) == 3);
            f->gradient[f->table.at[i].offset + j] = 0;
        }
}

// Large and small values neither overflow nor vanish in a float's square.
static void test_range(void **state) {
    struct fixture *f = *state;
    memset(f->gradient, 0, f->table.floats * sizeof(float));
    f->gradient[0] = FLT_MAX;
    assert_true(norm_of(f->o, f->gradient) == (double)FLT_MAX);
    f->gradient[0] = FLT_MIN;
    assert_true(norm_of(f->o, f->gradient) == (double)FLT_MIN);
}

static void test_not_finite(void **state) {
    struct fixture *f = *state;
    memset(f->gradient, 0, f->table.floats * sizeof(float));
    for (size_t i = 0; i < f->table.n; i++) {
        float *last = &f->gradient[f->table.at[i].offset + f->table.at[i].shape[0] - 1];
        *last = NAN;
        assert_true(isnan(norm_of(f->o, f->gradient)));
        *last = -INFINITY;
        assert_true(isinf(norm_of(f->o, f->gradient)));
        *last = 0;
    }
}

// Frozen buckets are in no norm; whether everything is finite includes them.
static void test_frozen(void **state) {
    struct fixture *f = *state;
    optimizer_close(f->o);
    f->o = NULL;
    for (size_t frozen = 0; frozen < f->table.n_buckets; frozen++) {
        struct optimizer_options options = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
        struct optimizer *o;
        double squares = 0;
        f->table.frozen = frozen;
        assert_ok(optimizer_open(&o, &f->table, f->pool, f->weights, &options));
        memset(f->gradient, 0, f->table.floats * sizeof(float));
        for (size_t i = 0; i < f->table.n; i++) {
            f->gradient[f->table.at[i].offset] = (float)(1u << i);
            squares += f->table.at[i].bucket >= frozen ? (double)(1u << 2 * i) : 0;
        }
        assert_true(norm_of(o, f->gradient) == sqrt(squares));
        assert_true(optimizer_finite(o, f->gradient));
        f->gradient[f->table.at[0].offset + 7] = NAN; // of bucket 0
        assert_true(isnan(norm_of(o, f->gradient)) == (frozen == 0));
        assert_false(optimizer_finite(o, f->gradient));
        optimizer_close(o);
    }
}

// What has been summed where it was written is not read again, and gives the same bits.
static void test_summed(void **state) {
    struct fixture *f = *state;
    for (size_t i = 0; i < f->table.n; i++)
        for (uint64_t j = 0; j < f->table.at[i].size; j++)
            f->gradient[f->table.at[i].offset + j] = sinf((float)j) / 3;
    double *squares = optimizer_squares(f->o), norm = norm_of(f->o, f->gradient);
    const struct ops *ops = ops_table(ISA_PLAIN);
    for (size_t i = 0; i < f->table.n; i++)
        for (uint64_t j = 0; j < param_sums(&f->table.at[i]); j++) {
            const struct param_piece piece = param_sum(&f->table.at[i], j);
            bool matrix = f->table.at[i].layout == PARAM_TILES;
            squares[f->table.at[i].sums + j] = matrix ? ops->squares(f->gradient + piece.offset, piece.n) : (double)NAN;
        }
    f->gradient[f->table.at[1].offset] = NAN;
    assert_true(optimizer_norm(f->o, &(struct gradient){.values = f->gradient, .summed = true}) == norm);
    assert_true(isnan(norm_of(f->o, f->gradient)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_exact, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_each_element, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_range, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_not_finite, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_summed, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_frozen, fixture_open, fixture_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
