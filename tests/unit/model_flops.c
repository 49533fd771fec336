// SPDX-License-Identifier: Apache-2.0
// FLOPs against counts made by hand: two layers, 27 wide, 49 feed-forward, three labels; texts of 5 and 2 tokens.
#include "model_support.h"

#include "model/flops.h"

static double forward(struct model_config config) {
    struct param_table table;
    assert_ok(weights_table(&table, &config));
    double flops = flops_forward(&table, &config, 5 + 2, 25 + 4, 2);
    param_table_release(&table);
    return flops;
}

static void test_classification(void **state) {
    (void)state;
    double square = 27 * 27, layer = 4 * square + 2 * 27 * 49;
    double want = 2 * 7 * (layer + 2 * square) + 2 * 2 * (layer - 2 * square + square + 3 * 27) + 4 * 27 * (29 + 7);
    assert_true(forward(config_small(MODEL_ROBERTA, 27)) == want);
    assert_true(forward(config_small(MODEL_BERT, 27)) == want);
}

static void test_answers(void **state) {
    (void)state;
    double layer = 4 * 27 * 27 + 2 * 27 * 49;
    double want = 2 * 7 * (2 * layer + 2 * 27) + 4 * 27 * (29 + 29);
    assert_true(forward(config_small_spans(MODEL_BERT, 27)) == want);
}

// One layer frozen: its forward pass counts, its backward pass doesn't. All frozen: only the head is trained.
static void test_frozen(void **state) {
    (void)state;
    double square = 27 * 27, layer = 4 * square + 2 * 27 * 49;
    double first = 2 * 7 * layer + 4 * 27 * 29, last = 2 * 7 * 2 * square + 2 * 2 * (layer - 2 * square) + 4 * 27 * 7;
    double head = 2 * 2 * (square + 3 * 27);
    const double want[] = {3 * (first + last + head), 3 * (first + last + head), first + 3 * (last + head),
                           first + last + 3 * head};
    struct model_config config = config_small(MODEL_ROBERTA, 27);
    struct param_table table;
    assert_ok(weights_table(&table, &config));
    for (size_t frozen = 0; frozen <= 3; frozen++) {
        table.frozen = frozen;
        assert_true(flops_step(&table, &config, 5 + 2, 25 + 4, 2) == want[frozen]);
    }
    param_table_release(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_classification), cmocka_unit_test(test_answers),
                                       cmocka_unit_test(test_frozen)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
