// SPDX-License-Identifier: Apache-2.0
// The whole model's gradient, dropout on, against central differences of its loss: for each tensor along its own
// gradient and at its three largest elements. The forward pass is float, so bounds are loose; a wrong formula is off by
// far more.
#include "model_support.h"

#define STEP 4e-3

static double loss_at(struct rig *rig, const struct batch *batch, uint64_t key) {
    double losses[4], sum = 0;
    rig_forward(rig, batch, key);
    pass_loss(rig->pass, losses, 1.0f / (float)batch->size);
    for (uint32_t p = 0; p < batch->parts; p++)
        sum += losses[p] / batch->size;
    return sum;
}

// The loss's slope when the tensor's elements move along `direction`.
static double slope(struct rig *rig, const struct batch *batch, uint64_t key, const struct param *param,
                    const double *direction) {
    float *at = rig->weights + param->offset, *kept = malloc(param->size * sizeof *kept);
    double loss[2];
    assert_non_null(kept);
    memcpy(kept, at, param->size * sizeof *kept);
    for (int side = 0; side < 2; side++) {
        for (uint64_t i = 0; i < param->size; i++)
            at[i] = (float)((double)kept[i] + (side ? STEP : -STEP) * direction[i]);
        loss[side] = loss_at(rig, batch, key);
    }
    memcpy(at, kept, param->size * sizeof *kept);
    free(kept);
    return (loss[1] - loss[0]) / (2 * STEP);
}

static void slope_check(struct rig *rig, const struct batch *batch, uint64_t key, const struct param *param,
                        const double *direction, double want, const char *what) {
    double got = slope(rig, batch, key, param, direction);
    if (!(fabs(got - want) <= 2e-2 * fabs(want) + 5e-4))
        fail_msg("%s, %s: the differences say %g, backward %g", param->name, what, got, want);
}

// Index of the largest element of |g| that is not yet in `taken`.
static uint64_t largest(const float *g, uint64_t n, const bool *taken) {
    uint64_t best = 0;
    for (uint64_t i = 0; i < n; i++)
        if (!taken[i] && (taken[best] || fabsf(g[i]) > fabsf(g[best])))
            best = i;
    return best;
}

static void param_check(struct rig *rig, const struct batch *batch, uint64_t key, const float *gradients,
                        const struct param *param) {
    const float *g = gradients + param->offset;
    double *direction = calloc(param->size, sizeof *direction), norm = 0;
    bool *taken = calloc(param->size, sizeof *taken);
    assert_true(direction && taken);
    for (uint64_t i = 0; i < param->size; i++)
        norm += (double)g[i] * (double)g[i];
    norm = sqrt(norm);
    for (uint64_t i = 0; i < param->size && norm > 0; i++)
        direction[i] = (double)g[i] / norm;
    slope_check(rig, batch, key, param, direction, norm, "along its gradient");
    memset(direction, 0, param->size * sizeof *direction);
    for (int k = 0; k < 3; k++) {
        uint64_t i = largest(g, param->size, taken);
        taken[i] = true;
        direction[i] = 1;
        slope_check(rig, batch, key, param, direction, (double)g[i], "one element");
        direction[i] = 0;
    }
    free(direction);
    free(taken);
}

static void model_check(struct model_config config, enum pass_rows rows, uint64_t seed) {
    struct rig rig;
    struct batch batch;
    struct rng rng = rng_stream(seed, 2);
    double losses[4];
    rig_init(&rig, &config);
    rig_random(&rig, seed);
    assert_ok(batch_open(&batch, 200, 20, 4));
    do
        batch_random(&batch, &rig.config, &rng, 4, 3, 12);
    while (batch.size < 4);
    if (rig.config.head == HEAD_QUESTION_ANSWERING)
        batch_answers(&batch, &rng);
    struct pass_options options = {200, 20, 12, rows, true, false, 0};
    rig_pass_open(&rig, isa_best(), 1, &options);
    rig_step(&rig, &batch, 4711, losses, 1.0f / (float)batch.size);
    assert_true(loss_at(&rig, &batch, 4711) != loss_at(&rig, &batch, 4712)); // dropout is on
    for (size_t i = 0; i < rig.table.n; i++)
        param_check(&rig, &batch, 4711, rig.gradients, &rig.table.at[i]);
    batch_close(&batch);
    rig_close(&rig);
}

static void test_roberta(void **state) {
    (void)state;
    model_check(config_small(MODEL_ROBERTA, 27), PASS_FIRST, 11);
    model_check(config_small(MODEL_ROBERTA, 27), PASS_ALL, 12);
}

static void test_bert(void **state) {
    (void)state;
    model_check(config_small(MODEL_BERT, 27), PASS_FIRST, 13);
    model_check(config_small(MODEL_BERT, 27), PASS_ALL, 14);
}

static void test_spans(void **state) {
    (void)state;
    model_check(config_small_spans(MODEL_ROBERTA, 27), PASS_ALL, 15);
    model_check(config_small_spans(MODEL_BERT, 27), PASS_ALL, 16);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_roberta), cmocka_unit_test(test_bert),
                                       cmocka_unit_test(test_spans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
