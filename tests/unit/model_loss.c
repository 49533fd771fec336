// SPDX-License-Identifier: Apache-2.0
// The loss of a batch in parts against torch.nn.CrossEntropyLoss(weight, label_smoothing) in float64 (torch 2.15):
// value and gradient of its mean over the global batch, however that is cut into parts and micro-batches.
#include "model_support.h"

#include "model/pass_state.h"

#define TEXTS 7
#define LABELS 4

// What torch was given.
static const float logits[TEXTS * LABELS] = {
    1.65f,  -1.48f, -1.19f, -0.8f,  0.5f,   0.77f, 2.02f, -1.52f, -2.35f, 0.45f,  1.47f,  1.55f,  -1.64f, -1.55f,
    -1.09f, -4.3f,  -1.1f,  -2.17f, -0.02f, 0.17f, 1.9f,  -3.76f, 3.31f,  -1.66f, -1.19f, -0.19f, -5.22f, -0.64f};
static const int32_t labels[TEXTS] = {0, 3, 1, 1, 2, 0, 1};
static const double weights[LABELS] = {0.5, 2, 1.25, 3};

struct fact {
    const char *name;
    bool plain;
    struct targets targets;
    double loss;
    double gradient[TEXTS * LABELS];
};

static const struct fact facts[] = {
    {"plain", true, {0, NULL}, 1.52109470582308, {-0.02265124479, 0.00525513708,   0.007023109647,  0.01037299806,
                                                  0.02036497465,  0.02667739283,   0.09311325019,   -0.1401556177,
                                                  0.001270391161, -0.121966009,    0.05793518314,   0.06276043466,
                                                  0.03665470315,  -0.1027505093,   0.06353187485,   0.002563931304,
                                                  0.01820174598,  0.006243353902,  -0.08925883368,  0.0648137338,
                                                  -0.1149982161,  9.701918332e-05, 0.1141089217,    0.0007922751358,
                                                  0.02611977825,  -0.07185622428,  0.0004642615569, 0.04527218448}},
    {"smoothed",
     false,
     {0.1, NULL},
     1.59595184868022,
     {-0.01193695908, 0.001683708509, 0.003451681076,  0.006801569491,  0.01679354608, 0.02310596426,
      0.08954182162,  -0.129441332,   -0.002301037411, -0.1112517232,   0.05436375457, 0.05918900609,
      0.03308327457,  -0.09203622358, 0.05996044628,   -0.001007497268, 0.01463031741, 0.002671925331,
      -0.07854454797, 0.06124230523,  -0.1042839304,   -0.003474409388, 0.1105374932,  -0.002779153436,
      0.02254834968,  -0.06114193857, -0.003107167015, 0.0417007559}},
    {"weighted",
     false,
     {0, weights},
     1.93929890874553,
     {-0.007047053935, 0.001634931536, 0.002184967446,  0.003227154953,  0.03801461935, 0.04979779995,
      0.1738114004,    -0.2616238197,  0.001580931222,  -0.1517799223,   0.0720971168,  0.07810187424,
      0.04561474169,   -0.1278673005,  0.0790618887,    0.003190670067,  0.01415691354, 0.004855941924,
      -0.06942353731,  0.05041068185,  -0.03577722278,  3.018374592e-05, 0.03550055343, 0.0002464855978,
      0.03250461293,   -0.0894210791,  0.0005777477153, 0.05633871846}},
    {"both",
     false,
     {0.25, weights},
     2.10006709739326,
     {0.02349098001,  -0.008505438975, -0.003462152578, -0.01152338846, 0.03107899258, 0.03324005447,
      0.147856334,    -0.212175381,    -0.001258601681, -0.1194621302,  0.06233637873, 0.05838435311,
      0.04105513807,  -0.09648359515,  0.06902908923,   -0.01360063215, 0.01261786569, -0.005830274269,
      -0.04494254127, 0.03815494984,   -0.02229772658,  -0.01106300577, 0.04963456259, -0.01627383025,
      0.02845712371,  -0.05953917931,  -0.006389264999, 0.0374713206}},
};

// Seven texts of one token each, cut into four parts: 2, 0, 4, 1.
static void batch_make(struct batch *batch) {
    static const uint32_t ends[] = {0, 2, 2, 6, 7};
    assert_ok(batch_open(batch, TEXTS, TEXTS, 4));
    batch_clear(batch);
    for (uint32_t b = 0; b < TEXTS; b++)
        batch_add(batch, &(int32_t){5}, &(uint8_t){0}, 1, labels[b], b);
    batch->parts = 4;
    memcpy(batch->part_examples, ends, sizeof ends);
    memcpy(batch->part_tokens, ends, sizeof ends);
}

static double weight_of(const struct fact *fact, const struct batch *batch) {
    double sum = 0;
    for (uint32_t b = 0; b < batch->size; b++)
        sum += fact->targets.weights ? fact->targets.weights[batch->labels[b]] : 1;
    return sum;
}

static void fact_check(struct rig *rig, const struct batch *batch, const struct fact *fact) {
    double losses[4], weight = weight_of(fact, batch), sum = 0;
    rig_forward(rig, batch, 0);
    memcpy(rig->pass->act.logits, logits, sizeof logits);
    pass_targets(rig->pass, fact->plain ? NULL : &fact->targets);
    pass_loss(rig->pass, losses, 1.0f / (float)weight);
    for (uint32_t p = 0; p < batch->parts; p++)
        sum += losses[p];
    assert_true(losses[1] == 0);                    // an empty part
    assert_near(sum / weight, fact->loss, 2e-7, 0); // logits are float
    for (size_t i = 0; i < TEXTS * LABELS; i++)
        assert_near(rig->pass->act.dlogits[i], fact->gradient[i], 5e-8, 0);
}

static void test_torch(void **state) {
    (void)state;
    struct model_config config = config_small(MODEL_ROBERTA, 27);
    struct rig rig;
    struct batch batch;
    struct pass_options options = {TEXTS, TEXTS, 12, PASS_FIRST, true, false, 0};
    config.labels = LABELS;
    rig_init(&rig, &config);
    rig_random(&rig, 3);
    batch_make(&batch);
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!ops_table((enum isa)isa))
            continue;
        rig_pass_open(&rig, (enum isa)isa, 1, &options);
        for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
            fact_check(&rig, &batch, &facts[i]);
    }
    batch_close(&batch);
    rig_close(&rig);
}

// Smoothing 0 and equal weights ask for what the labels alone do.
static void test_neutral(void **state) {
    (void)state;
    static const double ones[LABELS] = {1, 1, 1, 1};
    double loss[2];
    float dx[2][LABELS];
    for (size_t b = 0; b < TEXTS; b++) {
        const struct ops *ops = ops_table(isa_best());
        ops->cross_entropy(&loss[0], dx[0], logits + b * LABELS, &labels[b], 1, LABELS, 0.25f, NULL);
        ops->cross_entropy(&loss[1], dx[1], logits + b * LABELS, &labels[b], 1, LABELS, 0.25f,
                           &(struct targets){0, ones});
        assert_true(loss[0] == loss[1]);
        assert_memory_equal(dx[0], dx[1], sizeof dx[0]);
    }
}

// A text without a label has no loss, whatever the targets.
static void test_unlabelled(void **state) {
    (void)state;
    struct model_config config = config_small(MODEL_ROBERTA, 27);
    struct rig rig;
    struct batch batch;
    double losses[4];
    struct pass_options options = {TEXTS, TEXTS, 12, PASS_FIRST, true, false, 0};
    config.labels = LABELS;
    rig_init(&rig, &config);
    rig_random(&rig, 3);
    rig_pass_open(&rig, isa_best(), 1, &options);
    batch_make(&batch);
    batch.labels[3] = -1;
    rig_forward(&rig, &batch, 0);
    pass_targets(rig.pass, &facts[3].targets);
    pass_loss(rig.pass, losses, 1);
    assert_true(isnan(losses[2]));
    for (size_t i = 0; i < TEXTS * LABELS; i++)
        assert_true(rig.pass->act.dlogits[i] == 0);
    batch_close(&batch);
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_torch), cmocka_unit_test(test_neutral),
                                       cmocka_unit_test(test_unlabelled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
