// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "base/rng.h"
#include "data/plan.h"
#include "data/source.h"
#include "data/tokenizer.h"

static uint64_t *offsets_make(uint32_t n, uint64_t seed) {
    uint64_t *offsets = malloc((n + 1) * sizeof *offsets);
    struct rng rng = rng_stream(seed, 1);
    offsets[0] = 0;
    for (uint32_t i = 0; i < n; i++)
        offsets[i + 1] = offsets[i] + 3 + rng_below(&rng, 60);
    return offsets;
}

// The rule of plan.h, written the slow way.
static void parts_check(const struct plan *plan, const struct plan_batch *batch) {
    uint64_t sums[64] = {0};
    uint32_t part_of[256], filled[64] = {0};
    bool taken[256] = {false};
    assert_true(batch->size <= 256 && plan->parts <= 64);
    for (uint32_t round = 0; round < batch->size; round++) {
        uint32_t longest = UINT32_MAX, lightest = 0;
        for (uint32_t i = 0; i < batch->size; i++)
            if (!taken[i] &&
                (longest == UINT32_MAX || plan->lengths[batch->samples[i]] > plan->lengths[batch->samples[longest]]))
                longest = i;
        for (uint32_t part = 1; part < plan->parts; part++)
            if (sums[part] < sums[lightest])
                lightest = part;
        taken[longest] = true;
        part_of[longest] = lightest;
        sums[lightest] += plan->lengths[batch->samples[longest]];
    }
    assert_int_equal(batch->part_offsets[0], 0);
    assert_int_equal(batch->part_offsets[plan->parts], batch->size);
    for (uint32_t i = 0; i < batch->size; i++) {
        uint32_t part = part_of[i], at = batch->part_offsets[part] + filled[part]++;
        assert_true(at < batch->part_offsets[part + 1]);
        assert_int_equal(batch->by_part[at], batch->samples[i]);
    }
}

static void epoch_walk(struct plan *plan, uint64_t epoch, uint32_t *order) {
    uint32_t seen = 0;
    bool *once = calloc(plan->n, sizeof *once);
    for (uint64_t i = 0; i < plan_batches(plan); i++) {
        struct plan_batch batch;
        plan_at(plan, epoch * plan_batches(plan) + i, &batch);
        assert_int_equal(batch.epoch, epoch);
        parts_check(plan, &batch);
        for (uint32_t j = 0; j < batch.size; j++) {
            assert_true(batch.samples[j] < plan->n);
            assert_false(once[batch.samples[j]]);
            once[batch.samples[j]] = true;
            order[seen++] = batch.samples[j];
        }
    }
    assert_int_equal(seen, plan->n);
    free(once);
}

static void test_epochs(void **state) {
    (void)state;
    const struct {
        uint32_t n, batch, parts;
    } cases[] = {{103, 8, 4}, {1, 1, 1},   {10, 2, 2},  {3, 4, 4},  {3, 200, 64}, {64, 16, 16}, {997, 32, 1},
                 {5, 4, 4},   {103, 8, 3}, {50, 16, 6}, {7, 16, 7}, {97, 24, 12}, {200, 64, 48}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t n = cases[i].n;
        uint64_t *offsets = offsets_make(n, i);
        uint32_t *orders[3];
        struct plan plan;
        for (int j = 0; j < 3; j++)
            orders[j] = malloc(n * sizeof **orders);
        assert_ok(plan_open(&plan, 42, n, offsets, cases[i].batch, cases[i].parts));
        assert_int_equal(plan_batches(&plan), (n + cases[i].batch - 1) / cases[i].batch);
        epoch_walk(&plan, 0, orders[0]);
        epoch_walk(&plan, 1, orders[1]);
        epoch_walk(&plan, 0, orders[2]); // a cursor alone decides
        assert_memory_equal(orders[0], orders[2], n * sizeof **orders);
        if (n > 9)
            assert_memory_not_equal(orders[0], orders[1], n * sizeof **orders);
        plan_close(&plan);
        assert_ok(plan_open(&plan, 43, n, offsets, cases[i].batch, cases[i].parts)); // another seed
        epoch_walk(&plan, 0, orders[1]);
        if (n > 9)
            assert_memory_not_equal(orders[0], orders[1], n * sizeof **orders);
        plan_close(&plan);
        for (int j = 0; j < 3; j++)
            free(orders[j]);
        free(offsets);
    }
}

// The order is a promise to runs that resume: it may change only with the checkpoint's format.
static void test_order_pinned(void **state) {
    (void)state;
    uint64_t offsets[9];
    for (uint64_t i = 0; i < 9; i++)
        offsets[i] = i * 10;
    struct plan plan;
    struct plan_batch batch;
    struct rng rng = rng_stream(rng_mix(1, 2), UINT64_C(0x706c616e));
    uint32_t order[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (uint32_t i = 7; i > 0; i--) {
        uint32_t j = (uint32_t)rng_below(&rng, i + 1), keep = order[i];
        order[i] = order[j];
        order[j] = keep;
    }
    assert_ok(plan_open(&plan, 1, 8, offsets, 8, 2));
    plan_at(&plan, 2, &batch); // one batch an epoch: epoch 2
    assert_memory_equal(batch.samples, order, sizeof order);
    plan_close(&plan);
}

static void test_parts(void **state) {
    (void)state;
    uint64_t offsets[] = {0, 50, 60, 70, 80, 90}; // 50 10 10 10 10
    struct plan plan;
    struct plan_batch batch;
    assert_ok(plan_open(&plan, 7, 5, offsets, 5, 2));
    plan_at(&plan, 0, &batch);
    assert_int_equal(batch.part_offsets[1], 1); // the long one alone
    assert_int_equal(batch.by_part[0], 0);
    assert_int_equal(batch.part_offsets[2], 5);
    plan_close(&plan);
    assert_ok(plan_open(&plan, 7, 5, offsets, 4, 4));
    plan_at(&plan, 1, &batch); // the last one: one example, three empty parts
    assert_int_equal(batch.size, 1);
    for (uint32_t part = 1; part <= 4; part++)
        assert_int_equal(batch.part_offsets[part], 1);
    plan_close(&plan);
}

// G over worlds: itself for powers of two; else the same power of two of parts for each rank.
static void test_worlds(void **state) {
    (void)state;
    const struct {
        uint32_t parts, world, wanted;
    } cases[] = {{8, 1, 8},    {8, 2, 8}, {8, 8, 8},   {8, 3, 6},   {8, 5, 5},   {8, 6, 6},
                 {8, 7, 7},    {4, 3, 3}, {16, 3, 12}, {16, 5, 10}, {16, 6, 12}, {16, 7, 14},
                 {64, 12, 48}, {2, 3, 0}, {8, 9, 0},   {1, 2, 0},   {1, 1, 1},   {1u << 31, 3, 3u << 29}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(plan_world_parts(cases[i].parts, cases[i].world), cases[i].wanted);
    for (uint32_t parts = 1; parts <= 256; parts *= 2)
        for (uint32_t world = 1; world <= parts; world++) {
            uint32_t all = plan_world_parts(parts, world), own = all / world;
            assert_true(all == own * world && own > 0 && (own & (own - 1)) == 0 && all <= parts && 2 * all > parts);
        }
}

// Worlds of 3, 5, 6 and 7 train on the same examples in the same batches as worlds of 1, 2 and 4: only parts differ.
static void test_worlds_share_batches(void **state) {
    (void)state;
    enum { N = 103, BATCH = 16, PARTS = 8 };
    const uint32_t worlds[] = {3, 5, 6, 7};
    uint64_t *offsets = offsets_make(N, 4);
    struct plan plan, other;
    assert_ok(plan_open(&plan, 42, N, offsets, BATCH, PARTS));
    for (size_t w = 0; w < sizeof worlds / sizeof *worlds; w++) {
        uint32_t order[N];
        assert_ok(plan_open(&other, 42, N, offsets, BATCH, plan_world_parts(PARTS, worlds[w])));
        assert_int_equal(plan_batches(&plan), plan_batches(&other));
        epoch_walk(&other, 1, order); // each example once; parts by the rule
        for (uint64_t cursor = 0; cursor < 2 * plan_batches(&plan); cursor++) {
            struct plan_batch one, two;
            plan_at(&plan, cursor, &one);
            plan_at(&other, cursor, &two);
            assert_int_equal(one.size, two.size);
            assert_memory_equal(one.samples, two.samples, one.size * sizeof *one.samples);
        }
        plan_close(&other);
    }
    plan_close(&plan);
    free(offsets);
}

static void test_refused(void **state) {
    (void)state;
    uint64_t good[] = {0, 3, 9}, bad[] = {0, 9, 3}, wide[] = {0, UINT64_C(1) << 32, UINT64_C(1) << 33};
    struct plan plan;
    assert_status(plan_open(&plan, 1, 0, good, 1, 1), STATUS_ARGUMENT);
    assert_status(plan_open(&plan, 1, 2, good, 0, 1), STATUS_ARGUMENT);
    assert_status(plan_open(&plan, 1, 2, good, 1, 0), STATUS_ARGUMENT);
    assert_status(plan_open(&plan, 1, 2, bad, 1, 1), STATUS_ARGUMENT);
    assert_status(plan_open(&plan, 1, 2, wide, 1, 1), STATUS_ARGUMENT);
}

static void test_auto_parts(void **state) {
    (void)state;
    assert_int_equal(plan_auto_parts(16, 25 * 1000, 1000), 8);     // exactly 8
    assert_int_equal(plan_auto_parts(16, 25 * 1000 - 1, 1000), 4); // a token less
    assert_int_equal(plan_auto_parts(16, 13 * 1000, 1000), 4);
    assert_int_equal(plan_auto_parts(16, 3000 * 10, 10), 16); // never above the batch
    assert_int_equal(plan_auto_parts(24, 3000 * 10, 10), 16);
    assert_int_equal(plan_auto_parts(1, 5, 1), 1);
    assert_int_equal(plan_auto_parts(4, 40, 4), 1);
    assert_int_equal(plan_auto_parts(UINT32_MAX, UINT64_MAX, 1), 1u << 31);
}

// Emotion's train split, batch 16: about 25 tokens a tweet in either vocabulary.
static void auto_parts_real(const char *vocab) {
    const char *data = support_path("FINETUNED_DATA", "tweet_eval"), *folder = support_path("FINETUNED_VOCAB", vocab);
    if (!data || !folder) {
        fprintf(stderr, "SKIPPED: emotion or %s is not here\n", vocab);
        return;
    }
    struct source_spec spec = {.format = SOURCE_TWEET_EVAL, .dir = data, .task = "emotion"};
    struct labels labels;
    struct source source;
    struct tokenizer *tokenizer;
    struct encoding encoding = {0};
    struct tokenizer_options options = {.max_length = 128};
    uint64_t tokens = 0;
    assert_ok(source_labels(&labels, &spec));
    assert_ok(source_read(&source, &spec, SPLIT_TRAIN, &labels));
    assert_ok(tokenizer_open(&tokenizer, folder));
    for (size_t i = 0; i < source.n; i++) {
        assert_ok(
            tokenizer_encode(tokenizer, &encoding, source.rows[i].text, source.rows[i].text_size, NULL, 0, &options));
        tokens += encoding.n;
    }
    uint32_t parts = plan_auto_parts(16, tokens, (uint32_t)source.n);
    double share = 16.0 * (double)tokens / (double)source.n / 50;
    fprintf(stderr, "emotion, %s: %.2f tokens a tweet, G = %u\n", vocab, (double)tokens / (double)source.n, parts);
    assert_true(parts <= share && 2 * parts > share);
    assert_int_equal(parts, 8);
    encoding_release(&encoding);
    tokenizer_close(tokenizer);
    source_close(&source);
    labels_release(&labels);
}

static void test_auto_parts_real(void **state) {
    (void)state;
    auto_parts_real("bert-base-uncased");
    auto_parts_real("roberta-base");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_epochs),     cmocka_unit_test(test_order_pinned),
                                       cmocka_unit_test(test_parts),      cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_worlds),     cmocka_unit_test(test_worlds_share_batches),
                                       cmocka_unit_test(test_auto_parts), cmocka_unit_test(test_auto_parts_real)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
