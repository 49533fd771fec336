// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "base/row_set.h"

// 70 and 3 rows are numbered through; rows elsewhere are no embeddings.
static void table_fill(struct param_table *table) {
    *table = (struct param_table){0};
    assert_ok(param_add(table, "words", PARAM_ROWS, 70, 5, true, 0));
    assert_ok(param_add(table, "types", PARAM_ROWS, 3, 7, true, 0));
    assert_ok(param_add(table, "norm", PARAM_VECTOR, 5, 1, false, 0));
    assert_ok(param_add(table, "other", PARAM_ROWS, 4, 5, true, 0));
    assert_ok(param_add(table, "more", PARAM_ROWS, 4, 5, true, 1));
    assert_ok(param_finish(table));
}

static void test_numbers(void **state) {
    (void)state;
    struct param_table table;
    table_fill(&table);
    assert_int_equal(table.embeddings, 2);
    assert_int_equal(table.rows, 73);
    for (uint64_t row = 0; row < 73; row++) {
        const struct param_piece piece = row_piece(&table, row);
        const struct param *param = &table.at[row >= 70];
        assert_ptr_equal(row_param(&table, row), param);
        assert_int_equal(piece.n, row < 70 ? 5 : 7);
        assert_int_equal(piece.offset, param->offset + (row < 70 ? row * 5 : (row - 70) * 7));
    }
    param_table_release(&table);
}

static size_t count(const struct row_set *set) {
    size_t n = 0;
    for (uint64_t row = row_set_next(set, 0); row != UINT64_MAX; row = row_set_next(set, row + 1))
        n++;
    return n;
}

static void test_walk(void **state) {
    (void)state;
    static const uint64_t members[] = {0, 1, 62, 63, 64, 71, 72};
    struct param_table table;
    struct row_set set, other;
    table_fill(&table);
    assert_ok(row_set_init(&set, &table));
    assert_ok(row_set_init(&other, &table));
    assert_true(row_set_next(&set, 0) == UINT64_MAX);
    for (size_t i = sizeof members / sizeof *members; i-- > 0;)
        row_set_add(&set, members[i]);
    row_set_add(&set, 63);
    uint64_t row = row_set_next(&set, 0);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++, row = row_set_next(&set, row + 1))
        assert_int_equal(row, members[i]);
    assert_true(row == UINT64_MAX);
    assert_int_equal(row_set_next(&set, 2), 62);
    assert_int_equal(row_set_next(&set, 72), 72);
    assert_true(row_set_next(&set, 1000) == UINT64_MAX);
    row_set_copy(&other, &set);
    row_set_clear(&set);
    assert_int_equal(count(&set), 0);
    assert_int_equal(count(&other), 7);
    row_set_fill(&other, &table);
    assert_int_equal(count(&other), 73);
    row_set_release(&set);
    row_set_release(&other);
    param_table_release(&table);
    table = (struct param_table){0}; // a table without embeddings
    assert_ok(row_set_init(&set, &table));
    assert_true(row_set_next(&set, 0) == UINT64_MAX);
    row_set_release(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_walk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
