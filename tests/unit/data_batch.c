// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "data/batch.h"

static const uint64_t offsets[] = {0, 2, 5, 5, 9};
static const int32_t ids[] = {10, 11, 20, 21, 22, 40, 41, 42, 43};
static const uint8_t types[] = {0, 1, 0, 0, 1, 1, 1, 0, 0};
static const int32_t labels[] = {3, 1, -1, 2};
static const struct shard shard = {
    .n = 4, .offsets = offsets, .ids = ids, .types = types, .labels = labels, .tokens = 9};

static void test_fill(void **state) {
    (void)state;
    const uint32_t indices[] = {9, 3, 0, 1, 2},
                   part_offsets[] = {1, 2, 2, 4, 5}; // 3 | none | 0 1 | 2; the first not used
    struct batch batch;
    assert_ok(batch_open(&batch, 9, 4, 4));
    for (int turn = 0; turn < 2; turn++) { // again into the same memory
        batch_fill(&batch, &shard, indices, part_offsets, 4);
        const int32_t want_ids[] = {40, 41, 42, 43, 10, 11, 20, 21, 22}, positions[] = {0, 1, 2, 3, 0, 1, 0, 1, 2};
        const uint8_t want_types[] = {1, 1, 0, 0, 0, 1, 0, 0, 1};
        const uint32_t cu[] = {0, 4, 6, 9, 9}, examples[] = {3, 0, 1, 2}, part_examples[] = {0, 1, 1, 3, 4},
                       part_tokens[] = {0, 4, 4, 9, 9};
        const int32_t want_labels[] = {2, 3, 1, -1};
        assert_int_equal(batch.tokens, 9);
        assert_int_equal(batch.size, 4);
        assert_int_equal(batch.parts, 4);
        assert_int_equal(batch.longest, 4);
        assert_memory_equal(batch.ids, want_ids, sizeof want_ids);
        assert_memory_equal(batch.positions, positions, sizeof positions);
        assert_memory_equal(batch.types, want_types, sizeof want_types);
        assert_memory_equal(batch.cu_seqlens, cu, sizeof cu);
        assert_memory_equal(batch.examples, examples, sizeof examples);
        assert_memory_equal(batch.labels, want_labels, sizeof want_labels);
        assert_memory_equal(batch.part_examples, part_examples, sizeof part_examples);
        assert_memory_equal(batch.part_tokens, part_tokens, sizeof part_tokens);
    }
    const uint32_t none[] = {0, 0, 0}; // a rank without tokens
    batch_fill(&batch, &shard, indices, none, 2);
    assert_int_equal(batch.tokens + batch.size + batch.longest, 0);
    assert_int_equal(batch.part_tokens[2] + batch.part_examples[2] + batch.cu_seqlens[0], 0);
    batch_close(&batch);
}

static void test_add(void **state) {
    (void)state;
    struct batch batch;
    assert_ok(batch_open(&batch, 5, 2, 1));
    batch_clear(&batch);
    assert_int_equal(batch.part_tokens[1], 0);
    batch_add(&batch, ids + 2, types + 2, 3, -1, 7);
    batch_add(&batch, ids, types, 2, 0, 8);
    assert_int_equal(batch.tokens, 5);
    assert_int_equal(batch.size, 2);
    assert_int_equal(batch.parts, 1);
    assert_int_equal(batch.longest, 3);
    assert_int_equal(batch.part_examples[1], 2);
    assert_int_equal(batch.part_tokens[1], 5);
    assert_int_equal(batch.positions[3], 0);
    assert_int_equal(batch.ids[4], 11);
    assert_int_equal(batch.examples[0], 7);
    batch_close(&batch);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fill), cmocka_unit_test(test_add)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
