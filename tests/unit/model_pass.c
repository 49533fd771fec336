// SPDX-License-Identifier: Apache-2.0
// What a pass refuses before it computes, what dropout does to it, and that its memory is as planned.
#include "model_support.h"

#include "model/pass_state.h"

#define TOKENS 100
#define TEXTS 8
#define LENGTH 20

static const int32_t some_ids[40] = {2, 7, 9, 11, 13, 60, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3};
static const uint8_t some_types[40];

static void rig_small(struct rig *rig, enum model_kind kind, const struct pass_options *options) {
    struct model_config config = config_small(kind, 27);
    rig_init(rig, &config);
    rig_random(rig, 3);
    rig_pass_open(rig, isa_best(), 2, options);
}

static const struct pass_options small = {TOKENS, TEXTS, LENGTH, PASS_FIRST, true, false, 0};

static void refused(struct rig *rig, const struct batch *batch, enum status status, const char *word) {
    assert_status(pass_begin(rig->pass, batch, 0), status);
    if (!strstr(status_message(), word))
        fail_msg("\"%s\" does not say \"%s\"", status_message(), word);
}

static void batch_one(struct batch *batch, uint32_t length) {
    batch_clear(batch);
    batch_add(batch, some_ids, some_types, length, 0, 17);
}

static void test_refused(void **state) {
    (void)state;
    struct rig rig;
    struct batch batch;
    rig_small(&rig, MODEL_ROBERTA, &small);
    assert_ok(batch_open(&batch, 400, 40, 8));
    batch_one(&batch, 20);
    assert_ok(pass_begin(rig.pass, &batch, 0));
    batch.ids[5] = 61;
    refused(&rig, &batch, STATUS_DATA, "example 17: token id 61");
    batch.ids[5] = -1;
    refused(&rig, &batch, STATUS_DATA, "token id -1");
    batch.ids[5] = 60;
    batch.types[19] = 1;
    refused(&rig, &batch, STATUS_DATA, "token type 1");
    batch.types[19] = 0;
    batch.positions[3] = 38;
    refused(&rig, &batch, STATUS_DATA, "position 38");
    batch.positions[3] = 37;
    assert_ok(pass_begin(rig.pass, &batch, 0));
    batch.labels[0] = 3;
    refused(&rig, &batch, STATUS_DATA, "label 3");
    batch_one(&batch, 21);
    refused(&rig, &batch, STATUS_DATA, "21 tokens");
    batch_one(&batch, 0);
    refused(&rig, &batch, STATUS_DATA, "no tokens");
    batch_clear(&batch);
    for (int i = 0; i < 9; i++)
        batch_add(&batch, some_ids, some_types, 2, 0, 1);
    refused(&rig, &batch, STATUS_DATA, "room for 100 in 8");
    batch_clear(&batch);
    for (int i = 0; i < 6; i++)
        batch_add(&batch, some_ids, some_types, 20, 0, 1);
    refused(&rig, &batch, STATUS_DATA, "room for 100 in 8");
    batch_one(&batch, 4);
    batch.parts = 3;
    refused(&rig, &batch, STATUS_ARGUMENT, "power of two");
    batch.parts = 2;
    batch.part_tokens[1] = 2;
    batch.part_examples[1] = batch.part_examples[2] = 1;
    batch.part_tokens[2] = 4;
    refused(&rig, &batch, STATUS_ARGUMENT, "cut between texts");
    batch_close(&batch);
    rig_close(&rig);
}

static void batch_answer(struct batch *batch, uint32_t length, int32_t first, int32_t last) {
    batch_one(batch, length);
    batch->labels[0] = first;
    batch->ends[0] = last;
}

// Answers are tokens of their own example; without one there is no loss, and no gradient.
static void test_answers(void **state) {
    (void)state;
    struct rig rig;
    struct batch batch;
    struct model_config config = config_small_spans(MODEL_BERT, 27);
    struct pass_options options = {TOKENS, TEXTS, LENGTH, PASS_ALL, true, false, 0};
    struct pass *pass;
    double loss = 0;
    rig_init(&rig, &config);
    rig_random(&rig, 3);
    rig_pass_open(&rig, isa_best(), 2, &options);
    assert_int_equal(pass_rows_of(&rig.config), PASS_ALL);
    assert_status(pass_open(&pass, &rig.config, &rig.table, rig.pool, ops_table(ISA_PLAIN), &small), STATUS_ARGUMENT);
    assert_ok(batch_open(&batch, 100, 8, 1));
    const int32_t bad[][2] = {{5, 0}, {0, 5}, {-1, 0}, {0, -1}, {-2, -2}, {INT32_MAX, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        batch_answer(&batch, 5, bad[i][0], bad[i][1]);
        refused(&rig, &batch, STATUS_DATA, "example 17: its answer is tokens");
    }
    batch_answer(&batch, 5, 4, 0); // a label may lie in any order
    rig_step(&rig, &batch, 0, &loss, 1);
    assert_true(isfinite(loss));
    const float *output = rig.gradients + weights_param(&rig.table, 3, QA_OUTPUT)->offset;
    assert_true(output[0] != 0 && output[1] != 0);
    batch_answer(&batch, 5, -1, -1);
    rig_step(&rig, &batch, 0, &loss, 1);
    assert_true(isnan(loss) && output[0] == 0 && output[1] == 0);
    batch_close(&batch);
    rig_close(&rig);
}

static void test_options(void **state) {
    (void)state;
    struct rig rig;
    struct pass *pass;
    struct pass_options options = small;
    rig_small(&rig, MODEL_ROBERTA, &small);
    options.max_length = 38; // 40 positions, of which two are RoBERTa's
    assert_ok(pass_open(&pass, &rig.config, &rig.table, rig.pool, ops_table(ISA_PLAIN), &options));
    pass_close(pass);
    options.max_length = 39;
    assert_status(pass_open(&pass, &rig.config, &rig.table, rig.pool, ops_table(ISA_PLAIN), &options), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "38"));
    options = small;
    options.max_tokens = 0;
    assert_status(pass_open(&pass, &rig.config, &rig.table, rig.pool, ops_table(ISA_PLAIN), &options), STATUS_ARGUMENT);
    rig.config.layers++;
    assert_status(pass_open(&pass, &rig.config, &rig.table, rig.pool, ops_table(ISA_PLAIN), &small), STATUS_ARGUMENT);
    rig.config.layers--;
    rig_close(&rig);
}

// A text that fills the model to its last position; more texts than tokens are no room wasted.
static void test_full_length(void **state) {
    (void)state;
    struct rig rig;
    struct batch batch;
    struct pass_options options = {38, 1000, 38, PASS_FIRST, true, false, 0};
    double loss;
    rig_small(&rig, MODEL_ROBERTA, &options);
    assert_ok(batch_open(&batch, 38, 1, 1));
    batch_one(&batch, 38);
    rig_step(&rig, &batch, 0, &loss, 1);
    assert_true(isfinite(loss));
    const struct param *positions = weights_param(&rig.table, 0, EMBEDDING_POSITIONS);
    const float *rows = rig.gradients + positions->offset;
    for (uint32_t c = 0; c < 27; c++)
        assert_true(rows[0 * 27 + c] == 0 && rows[1 * 27 + c] == 0);
    assert_true(rows[39 * 27] != 0 && rows[2 * 27] != 0);
    batch_close(&batch);
    rig_close(&rig);
}

static void test_unlabelled(void **state) {
    (void)state;
    struct rig rig;
    struct batch batch;
    double loss = 0;
    rig_small(&rig, MODEL_BERT, &small);
    assert_ok(batch_open(&batch, 100, 8, 1));
    batch_clear(&batch);
    batch_add(&batch, some_ids, some_types, 5, -1, 0);
    rig_step(&rig, &batch, 0, &loss, 1);
    assert_true(isnan(loss));
    assert_true(rig.gradients[weights_param(&rig.table, 3, HEAD_OUTPUT)->offset] == 0);
    batch_close(&batch);
    rig_close(&rig);
}

// Different keys drop differently, the same key the same; key 0 and probabilities of 0 drop nothing.
static void test_dropout(void **state) {
    (void)state;
    for (enum model_kind kind = MODEL_ROBERTA; kind <= MODEL_BERT; kind++) {
        struct rig rig;
        struct batch batch;
        float logits[4][3];
        rig_small(&rig, kind, &small);
        assert_ok(batch_open(&batch, 100, 8, 1));
        batch_one(&batch, 20);
        for (uint64_t key = 0; key < 4; key++) {
            rig_forward(&rig, &batch, key == 3 ? 2 : key);
            memcpy(logits[key], pass_logits(rig.pass), sizeof logits[key]);
        }
        assert_memory_equal(logits[2], logits[3], sizeof logits[2]);
        assert_true(memcmp(logits[0], logits[1], sizeof logits[0]) != 0);
        assert_true(memcmp(logits[1], logits[2], sizeof logits[0]) != 0);
        rig.config.dropout_hidden = rig.config.dropout_attention = rig.config.dropout_classifier = 0;
        rig_forward(&rig, &batch, 2);
        assert_memory_equal(pass_logits(rig.pass), logits[0], sizeof logits[0]);
        batch_close(&batch);
        rig_close(&rig);
    }
}

// Every site by itself changes the logits; BERT drops once in its head, RoBERTa twice.
static void test_sites(void **state) {
    (void)state;
    for (enum model_kind kind = MODEL_ROBERTA; kind <= MODEL_BERT; kind++)
        for (int site = 0; site < 3; site++) {
            struct rig rig;
            struct batch batch;
            float logits[3];
            rig_small(&rig, kind, &small);
            assert_ok(batch_open(&batch, 100, 8, 1));
            batch_one(&batch, 20);
            rig.config.dropout_hidden = site == 0 ? 0.5 : 0;
            rig.config.dropout_attention = site == 1 ? 0.5 : 0;
            rig.config.dropout_classifier = site == 2 ? 0.5 : 0;
            rig_forward(&rig, &batch, 0);
            memcpy(logits, pass_logits(rig.pass), sizeof logits);
            rig_forward(&rig, &batch, 1);
            assert_true(memcmp(logits, pass_logits(rig.pass), sizeof logits) != 0);
            batch_close(&batch);
            rig_close(&rig);
        }
}

// BERT's head drops behind tanh only, RoBERTa's before dense too.
static void test_head_sites(void **state) {
    (void)state;
    for (enum model_kind kind = MODEL_ROBERTA; kind <= MODEL_BERT; kind++) {
        struct rig rig;
        struct batch batch;
        float tanh_of[27];
        rig_small(&rig, kind, &small);
        rig.config.dropout_hidden = rig.config.dropout_attention = 0;
        assert_ok(batch_open(&batch, 100, 8, 1));
        batch_one(&batch, 20);
        rig_forward(&rig, &batch, 0);
        memcpy(tanh_of, rig.pass->act.tanh, sizeof tanh_of);
        rig_forward(&rig, &batch, 1);
        assert_int_equal(memcmp(tanh_of, rig.pass->act.tanh, sizeof tanh_of) == 0, kind == MODEL_BERT);
        assert_true(memcmp(tanh_of, rig.pass->act.dropped, sizeof tanh_of) != 0);
        batch_close(&batch);
        rig_close(&rig);
    }
}

// The pad token's word row gets no gradient though a text holds it.
static void test_pad_row(void **state) {
    (void)state;
    const int32_t ids[4] = {2, 1, 0, 9}; // RoBERTa's pad is 1, BERT's 0
    for (enum model_kind kind = MODEL_ROBERTA; kind <= MODEL_BERT; kind++) {
        struct rig rig;
        struct batch batch;
        double loss;
        rig_small(&rig, kind, &small);
        assert_ok(batch_open(&batch, 100, 8, 1));
        batch_clear(&batch);
        batch_add(&batch, ids, some_types, 4, 0, 0);
        rig_step(&rig, &batch, 0, &loss, 1);
        const float *words = rig.gradients + weights_param(&rig.table, 0, EMBEDDING_WORDS)->offset;
        for (int32_t id = 0; id < 2; id++)
            assert_int_equal(words[id * 27] == 0 && words[id * 27 + 26] == 0, id == rig.config.pad_id);
        batch_close(&batch);
        rig_close(&rig);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),     cmocka_unit_test(test_answers),    cmocka_unit_test(test_options),
        cmocka_unit_test(test_full_length), cmocka_unit_test(test_unlabelled), cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_sites),       cmocka_unit_test(test_head_sites), cmocka_unit_test(test_pad_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
