// SPDX-License-Identifier: Apache-2.0
// The promise behind equal bits on any number of ranks: a batch of P parts gives the gradients that P batches of one
// part give when their arenas are added in the binary tree; and nothing depends on threads, on who shares a batch, or
// on `first` and `all`.
#include "model_support.h"

#define PARTS_MAX 32
#define TEXTS_MAX 4 // of a part
#define LENGTH_MAX 36

static const struct pass_options options_first = {
    PARTS_MAX * TEXTS_MAX * LENGTH_MAX, PARTS_MAX *TEXTS_MAX, LENGTH_MAX, PASS_FIRST, true, false, 0};
static const struct pass_options options_all = {
    PARTS_MAX * TEXTS_MAX * LENGTH_MAX, PARTS_MAX *TEXTS_MAX, LENGTH_MAX, PASS_ALL, true, false, 0};

static void rig_small(struct rig *rig, enum model_kind kind, uint32_t hidden, uint64_t seed) {
    struct model_config config = config_small(kind, hidden);
    rig_init(rig, &config);
    rig_random(rig, seed);
}

static void room(struct batch *batch) {
    assert_ok(batch_open(batch, options_first.max_tokens, options_first.max_examples, PARTS_MAX));
}

static void bits_check(const struct rig *rig, const float *got, const float *want) {
    for (size_t i = 0; i < rig->table.n; i++) {
        const struct param *param = &rig->table.at[i];
        if (memcmp(got + param->offset, want + param->offset, param->size * sizeof *got) == 0)
            continue;
        for (uint64_t k = param->offset; k < param->offset + param->size; k++)
            if (memcmp(got + k, want + k, sizeof *got) != 0)
                fail_msg("%s: element %llu is %.9g, wanted %.9g", param->name, (unsigned long long)(k - param->offset),
                         (double)got[k], (double)want[k]);
    }
    assert_memory_equal(got, want, rig->table.floats * sizeof *got);
}

static float *gradients_copy(const struct rig *rig) {
    float *copy = malloc(rig->table.floats * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, rig->gradients, rig->table.floats * sizeof *copy);
    return copy;
}

// The gradients of parts [part, part + parts) by single-part batches, their arenas added in the tree. `losses`: one a
// part.
static float *tree(struct rig *rig, const struct batch *batch, struct batch *single, uint64_t key, uint32_t part,
                   uint32_t parts, double *losses, float scale) {
    if (parts == 1) {
        batch_part(single, batch, part);
        rig_step(rig, single, key, &losses[part], scale);
        return gradients_copy(rig);
    }
    float *left = tree(rig, batch, single, key, part, parts / 2, losses, scale);
    float *right = tree(rig, batch, single, key, part + parts / 2, parts / 2, losses, scale);
    for (uint64_t i = 0; i < rig->table.floats; i++)
        left[i] += right[i];
    free(right);
    return left;
}

static void parts_check(struct rig *rig, struct batch *batch, struct batch *single, uint64_t key) {
    double losses[PARTS_MAX], each[PARTS_MAX];
    float scale = batch->size ? 1.0f / (float)batch->size : 1.0f;
    rig_step(rig, batch, key, losses, scale);
    float *got = gradients_copy(rig), *want = tree(rig, batch, single, key, 0, batch->parts, each, scale);
    bits_check(rig, got, want);
    assert_memory_equal(losses, each, batch->parts * sizeof *losses);
    free(got);
    free(want);
}

static void rounds_check(bool bf16) {
    struct rng rng = rng_stream(7, 1);
    struct batch batch, single;
    room(&batch);
    room(&single);
    for (uint32_t round = 0; round < 24; round++) {
        struct rig rig;
        rig_small(&rig, round % 2 ? MODEL_BERT : MODEL_ROBERTA, round % 4 < 2 ? 27 : 32, round);
        enum isa isa = ops_table((enum isa)(round % ISA_COUNT)) ? (enum isa)(round % ISA_COUNT) : ISA_PLAIN;
        struct pass_options options = round % 3 ? options_first : options_all;
        options.bf16 = bf16;
        rig_pass_open(&rig, isa, 1 + round % 2, &options);
        batch_random(&batch, &rig.config, &rng, 1u << (round % 6), TEXTS_MAX, LENGTH_MAX);
        parts_check(&rig, &batch, &single, round % 5 ? 1000 + round : 0);
        rig_close(&rig);
    }
    batch_close(&batch);
    batch_close(&single);
}

static void test_parts(void **state) {
    (void)state;
    rounds_check(false);
}

static void test_parts_bf16(void **state) {
    (void)state;
    rounds_check(true);
}

// Question answering: parts likewise, and bits of logits and gradients by thread count.
static void test_spans(void **state) {
    (void)state;
    struct rng rng = rng_stream(17, 1);
    struct batch batch, single;
    room(&batch);
    room(&single);
    for (uint32_t round = 0; round < 12; round++) {
        struct rig rig;
        struct model_config config =
            config_small_spans(round % 2 ? MODEL_BERT : MODEL_ROBERTA, round % 4 < 2 ? 27 : 32);
        double losses[PARTS_MAX];
        rig_init(&rig, &config);
        rig_random(&rig, round);
        batch_random(&batch, &rig.config, &rng, 1u << (round % 6), TEXTS_MAX, LENGTH_MAX);
        batch_answers(&batch, &rng);
        enum isa isa = ops_table((enum isa)(round % ISA_COUNT)) ? (enum isa)(round % ISA_COUNT) : ISA_PLAIN;
        rig_pass_open(&rig, isa, 1 + round % 2, &options_all);
        parts_check(&rig, &batch, &single, round % 5 ? 1000 + round : 0);
        rig_step(&rig, &batch, 77, losses, 0.125f);
        float *want = gradients_copy(&rig);
        rig_pass_open(&rig, isa_best(), 2 - round % 2, &options_all);
        rig_step(&rig, &batch, 77, losses, 0.125f);
        bits_check(&rig, rig.gradients, want);
        free(want);
        rig_close(&rig);
    }
    batch_close(&batch);
    batch_close(&single);
}

static void test_empty(void **state) {
    (void)state;
    struct rig rig;
    struct batch batch;
    double losses[4] = {1, 1, 1, 1};
    room(&batch);
    rig_small(&rig, MODEL_ROBERTA, 27, 3);
    rig_pass_open(&rig, isa_best(), 2, &options_first);
    batch_clear(&batch);
    batch.parts = 4;
    memset(batch.part_examples, 0, 5 * sizeof *batch.part_examples);
    memset(batch.part_tokens, 0, 5 * sizeof *batch.part_tokens);
    for (size_t i = 0; i < rig.table.n; i++)
        memset(rig.gradients + rig.table.at[i].offset, 0xff, rig.table.at[i].size * sizeof(float));
    rig_step(&rig, &batch, 5, losses, 1);
    for (uint64_t i = 0; i < rig.table.floats; i++)
        assert_true(rig.gradients[i] == 0);
    for (int p = 0; p < 4; p++)
        assert_true(losses[p] == 0);
    batch_close(&batch);
    rig_close(&rig);
}

// Bits of logits and gradients by thread count; values (0 and -0 are one) by `first` and `all`.
static void test_first_and_all(void **state) {
    (void)state;
    struct rng rng = rng_stream(8, 1);
    struct batch batch;
    room(&batch);
    for (uint32_t round = 0; round < 12; round++) {
        struct rig rig;
        double losses[PARTS_MAX], again[PARTS_MAX];
        rig_small(&rig, round % 2 ? MODEL_BERT : MODEL_ROBERTA, round % 4 < 2 ? 27 : 32, round);
        batch_random(&batch, &rig.config, &rng, 4, TEXTS_MAX, LENGTH_MAX);
        rig_pass_open(&rig, isa_best(), 2, &options_first);
        rig_step(&rig, &batch, 77, losses, 0.125f);
        size_t n = (size_t)batch.size * rig.config.labels * sizeof(float);
        float *logits = malloc(n + 1), *want = gradients_copy(&rig);
        memcpy(logits, pass_logits(rig.pass), n);
        rig_pass_open(&rig, isa_best(), 1, &options_first);
        rig_step(&rig, &batch, 77, again, 0.125f);
        bits_check(&rig, rig.gradients, want);
        rig_pass_open(&rig, isa_best(), 1, &options_all);
        rig_step(&rig, &batch, 77, again, 0.125f);
        assert_memory_equal(pass_logits(rig.pass), logits, n);
        assert_memory_equal(losses, again, batch.parts * sizeof *losses);
        for (uint64_t i = 0; i < rig.table.floats; i++)
            if (rig.gradients[i] != want[i])
                fail_msg("float %llu of the gradients: all %.9g, first %.9g", (unsigned long long)i,
                         (double)rig.gradients[i], (double)want[i]);
        free(logits);
        free(want);
        rig_close(&rig);
    }
    batch_close(&batch);
}

// Every text of the batch alone: its logits have the same bits.
static void company_check(struct rig *rig, const struct batch *batch, struct batch *single, uint64_t key) {
    bool spans = rig->config.head == HEAD_QUESTION_ANSWERING;
    uint32_t n = rig->config.labels;
    size_t rows = spans ? batch->tokens : batch->size;
    float *logits = malloc(rows * n * sizeof *logits);
    assert_non_null(logits);
    rig_forward(rig, batch, key);
    memcpy(logits, pass_logits(rig->pass), rows * n * sizeof *logits);
    for (uint32_t b = 0; b < batch->size; b++) {
        uint32_t first = batch->cu_seqlens[b], length = batch->cu_seqlens[b + 1] - first;
        batch_clear(single);
        batch_add(single, batch->ids + first, batch->types + first, length, -1, batch->examples[b]);
        rig_forward(rig, single, key);
        assert_memory_equal(pass_logits(rig->pass), logits + (size_t)(spans ? first : b) * n,
                            (spans ? length : 1) * n * sizeof *logits);
    }
    free(logits);
}

// The same text gives the same bits whatever shares its batch, with dropout too.
static void test_company(void **state) {
    (void)state;
    for (int spans = 0; spans < 2; spans++) {
        struct rng rng = rng_stream(9, 1);
        struct rig rig;
        struct batch batch, single;
        struct model_config config = spans ? config_small_spans(MODEL_BERT, 32) : config_small(MODEL_BERT, 32);
        room(&batch);
        room(&single);
        rig_init(&rig, &config);
        rig_random(&rig, 5);
        rig_pass_open(&rig, isa_best(), 2, spans ? &options_all : &options_first);
        batch_random(&batch, &rig.config, &rng, 8, TEXTS_MAX, LENGTH_MAX);
        memset(batch.labels, 0xff, batch.size * sizeof *batch.labels);
        for (uint64_t key = 0; key < 2; key++)
            company_check(&rig, &batch, &single, key);
        batch_close(&batch);
        batch_close(&single);
        rig_close(&rig);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts),         cmocka_unit_test(test_parts_bf16),
                                       cmocka_unit_test(test_spans),         cmocka_unit_test(test_empty),
                                       cmocka_unit_test(test_first_and_all), cmocka_unit_test(test_company)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
