// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "base/param.h"

enum { EMBEDDING, WEIGHT, BIAS, HEAD, N_PARAMS };

// Bucket 0: [5][7] rows; bucket 1: [70][5] tiles (the last block has 6 rows) and a bias; bucket 3: [3][2] tiles.
static void table_make(struct param_table *table) {
    *table = (struct param_table){0};
    assert_ok(param_add(table, "embedding", PARAM_ROWS, 5, 7, true, 0));
    assert_ok(param_add(table, "weight", PARAM_TILES, 70, 5, true, 1));
    assert_ok(param_add(table, "bias", PARAM_VECTOR, 70, 1, false, 1));
    assert_ok(param_add(table, "head", PARAM_TILES, 3, 2, true, 3));
    assert_ok(param_finish(table));
}

static void test_table(void **state) {
    (void)state;
    struct param_table table;
    table_make(&table);
    static const uint64_t offsets[] = {0, 48, 48 + 480, 528 + 80}, sizes[] = {35, 96 * 5, 70, 32 * 2};
    assert_int_equal(table.n, N_PARAMS);
    for (size_t i = 0; i < N_PARAMS; i++) {
        assert_int_equal(table.at[i].offset, offsets[i]);
        assert_int_equal(table.at[i].size, sizes[i]);
    }
    assert_int_equal(table.floats, 608 + 64);
    assert_int_equal(table.count, 35 + 350 + 70 + 6);
    assert_int_equal(param_elements(&table.at[WEIGHT]), 350);
    assert_int_equal(table.at[BIAS].rank, 1);
    assert_int_equal(table.at[BIAS].shape[1], 1);
    assert_int_equal(table.at[WEIGHT].rank, 2);
    assert_false(table.at[BIAS].decay);
    assert_true(table.at[WEIGHT].decay);
    assert_ptr_equal(param_find(&table, "bias"), &table.at[BIAS]);
    assert_null(param_find(&table, "bia"));
    param_table_release(&table);
    assert_null(table.at);
    assert_int_equal(table.n, 0);
}

// Pieces cover each parameter exactly, in order, and are numbered through the table.
static void test_sums(void **state) {
    (void)state;
    struct param_table table = {0};
    assert_ok(param_add(&table, "embedding", PARAM_ROWS, 97, 33, true, 0));
    assert_ok(param_add(&table, "dense", PARAM_TILES, 70, 5 * PARAM_SLICE + 9, true, 1));
    assert_ok(param_add(&table, "bias", PARAM_VECTOR, 70, 1, false, 1));
    assert_ok(param_add(&table, "narrow", PARAM_TILES, 2, 5, true, 2));
    static const uint64_t counts[] = {97, 3 * 6, 1, 1};
    uint64_t sums = 0;
    for (size_t i = 0; i < table.n; i++) {
        const struct param *param = &table.at[i];
        assert_int_equal(param->sums, sums);
        assert_int_equal(param_sums(param), counts[i]);
        uint64_t at = param->offset;
        for (uint64_t j = 0; j < param_sums(param); j++) {
            const struct param_piece piece = param_sum(param, j);
            assert_int_equal(piece.offset, at);
            at += piece.n;
        }
        assert_int_equal(at, param->offset + param->size);
        sums += counts[i];
    }
    assert_int_equal(table.sums, sums);
    param_table_release(&table);
}

static void test_buckets(void **state) {
    (void)state;
    struct param_table table;
    table_make(&table);
    static const struct param_bucket wanted[] = {
        {.offset = 0, .size = 48, .first = 0, .n = 1},
        {.offset = 48, .size = 560, .first = 1, .n = 2},
        {.offset = 608, .size = 0, .first = 3, .n = 0}, // nothing is in bucket 2
        {.offset = 608, .size = 64, .first = 3, .n = 1},
    };
    assert_int_equal(table.n_buckets, 4);
    for (size_t i = 0; i < 4; i++)
        assert_memory_equal(&table.buckets[i], &wanted[i], sizeof wanted[i]);
    param_table_release(&table);
    assert_ok(param_finish(&table)); // an empty table
    assert_int_equal(table.n_buckets, 0);
    param_table_release(&table);
}

static void test_refused(void **state) {
    (void)state;
    struct param_table table = {0};
    char longer[PARAM_NAME + 1];
    memset(longer, 'x', PARAM_NAME);
    longer[PARAM_NAME] = '\0';
    assert_status(param_add(&table, longer, PARAM_ROWS, 1, 1, true, 0), STATUS_DATA);
    assert_ok(param_add(&table, longer + 1, PARAM_ROWS, 1, 1, true, 1)); // the longest that fits
    assert_status(param_add(&table, "a", PARAM_ROWS, 1, 1, true, 0), STATUS_ARGUMENT);
    assert_status(param_add(&table, "a", PARAM_VECTOR, 4, 2, true, 1), STATUS_ARGUMENT);
    assert_status(param_add(&table, "a", PARAM_ROWS, 0, 4, true, 1), STATUS_DATA);
    assert_status(param_add(&table, "a", PARAM_ROWS, 4, 0, true, 1), STATUS_DATA);
    assert_status(param_add(&table, "a", PARAM_ROWS, UINT64_MAX, 1, true, 1), STATUS_DATA);
    assert_status(param_add(&table, "a", PARAM_TILES, UINT64_C(1) << 40, UINT64_C(1) << 40, true, 1), STATUS_DATA);
    assert_status(param_add(&table, "a", PARAM_TILES, 1, UINT64_C(1) << 55, true, 1), STATUS_DATA); // by its padding
    assert_int_equal(table.n, 1);
    assert_int_equal(table.floats, 16);
    assert_ok(param_finish(&table));
    assert_status(param_add(&table, "late", PARAM_ROWS, 1, 1, true, 1), STATUS_ARGUMENT);
    assert_status(param_finish(&table), STATUS_ARGUMENT);
    param_table_release(&table);
}

static void test_twice(void **state) {
    (void)state;
    struct param_table table = {0};
    assert_ok(param_add(&table, "b", PARAM_ROWS, 1, 1, true, 0));
    assert_ok(param_add(&table, "a", PARAM_ROWS, 1, 1, true, 0));
    assert_ok(param_add(&table, "b", PARAM_ROWS, 1, 1, true, 1));
    assert_status(param_finish(&table), STATUS_ARGUMENT);
    param_table_release(&table);
}

// Many, so that the table grows several times.
static void test_many(void **state) {
    (void)state;
    struct param_table table = {0};
    for (unsigned i = 0; i < 300; i++) {
        char name[32];
        snprintf(name, sizeof name, "layer.%u", i);
        assert_ok(param_add(&table, name, PARAM_VECTOR, i + 1, 1, false, i / 10));
    }
    assert_ok(param_finish(&table));
    assert_int_equal(table.n_buckets, 30);
    assert_int_equal(table.buckets[29].n, 10);
    assert_string_equal(table.at[299].name, "layer.299");
    assert_int_equal(table.at[299].offset % 16, 0);
    param_table_release(&table);
}

static float value_of(uint64_t n, uint64_t k) {
    return 1.0f + (float)n * 100.0f + (float)k;
}

static void rows_fill(float *rows, const struct param *param) {
    for (uint64_t n = 0; n < param->shape[0]; n++)
        for (uint64_t k = 0; k < param->shape[1]; k++)
            rows[n * param->shape[1] + k] = value_of(n, k);
}

// Writes piece by piece over an arena full of rubbish, and looks at each element at the place its layout names.
static void test_layouts(void **state) {
    (void)state;
    struct param_table table;
    table_make(&table);
    float *arena = malloc(table.floats * sizeof *arena);
    float rows[70 * 7], back[70 * 7];
    for (size_t i = 0; i < table.n; i++) {
        const struct param *param = &table.at[i];
        uint64_t n_count = param->shape[0], k_count = param->shape[1];
        memset(arena, 0xff, table.floats * sizeof *arena); // NaNs
        rows_fill(rows, param);
        for (uint64_t row = 0; row < n_count; row += 32)
            param_write_rows(arena, param, rows + row * k_count, row, n_count - row < 32 ? n_count - row : 32);
        const float *at = arena + param->offset;
        for (uint64_t n = 0; n < n_count; n++)
            for (uint64_t k = 0; k < k_count; k++)
                assert_true(at[param->layout == PARAM_TILES ? (n / 32 * k_count + k) * 32 + n % 32 : n * k_count + k] ==
                            value_of(n, k));
        for (uint64_t n = n_count; param->layout == PARAM_TILES && n < (n_count + 31) / 32 * 32; n++)
            for (uint64_t k = 0; k < k_count; k++)
                assert_true(at[(n / 32 * k_count + k) * 32 + n % 32] == 0.0f);
        for (uint64_t j = 0; j < table.floats; j++) // nothing else was touched
            if (j < param->offset || j >= param->offset + param->size)
                assert_true(arena[j] != arena[j]);
        param_read_rows(back, arena, param, 0, n_count);
        assert_memory_equal(back, rows, n_count * k_count * sizeof *back);
    }
    free(arena);
    param_table_release(&table);
}

// Any run of rows can be read, across blocks and from the middle of one; a write can also be all rows at once, or stop
// inside a block.
static void test_pieces(void **state) {
    (void)state;
    struct param_table table;
    table_make(&table);
    const struct param *param = &table.at[WEIGHT];
    float *arena = calloc(table.floats, sizeof *arena);
    float rows[70 * 5], back[70 * 5 + 1];
    rows_fill(rows, param);
    param_write_rows(arena, param, rows, 0, 70);
    for (uint64_t row = 0; row <= 70; row++)
        for (uint64_t n = 0; row + n <= 70; n++) {
            back[n * 5] = -1.0f;
            param_read_rows(back, arena, param, row, n);
            assert_memory_equal(back, rows + row * 5, n * 5 * sizeof *back);
            assert_true(back[n * 5] == -1.0f);
        }
    float other[10 * 5] = {0};
    param_write_rows(arena, param, other, 32, 10);
    param_read_rows(back, arena, param, 0, 70);
    memset(rows + 32 * 5, 0, sizeof other);
    assert_memory_equal(back, rows, sizeof rows);
    free(arena);
    param_table_release(&table);
}

// Columns by the cache line: whole blocks go another way.
static void test_wide(void **state) {
    (void)state;
    struct param_table table = {0};
    float rows[70 * 48];
    assert_ok(param_add(&table, "wide", PARAM_TILES, 70, 48, true, 0));
    assert_ok(param_finish(&table));
    float *arena = calloc(table.floats, sizeof *arena);
    rows_fill(rows, &table.at[0]);
    param_write_rows(arena, &table.at[0], rows, 0, 70);
    for (uint64_t n = 0; n < 96; n++)
        for (uint64_t k = 0; k < 48; k++)
            assert_true(arena[(n / 32 * 48 + k) * 32 + n % 32] == (n < 70 ? value_of(n, k) : 0.0f));
    free(arena);
    param_table_release(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),   cmocka_unit_test(test_sums),   cmocka_unit_test(test_buckets),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_twice),  cmocka_unit_test(test_many),
        cmocka_unit_test(test_layouts), cmocka_unit_test(test_pieces), cmocka_unit_test(test_wide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
