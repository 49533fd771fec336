// SPDX-License-Identifier: Apache-2.0
// Every model of golden/models: logits, losses, every gradient, hidden states, ten AdamW steps (classification); on
// every instruction set that is here, with one thread and two, with PASS_FIRST (classification) and PASS_ALL; then in
// bf16, where every instruction set gives the same bits. Tolerances: golden/README.md.
#include "model_support.h"

#include "model/activations.h"
#include "model/pass_state.h"

struct bounds {
    double value, relative;     // of logits and hidden states
    double loss, loss_each;     // of the mean, of one sequence
    double gradient, most, off; // of a tensor's norm; of an element; of one whose gradient is 0
};
static const struct bounds bounds_fp32 = {1e-5, 1e-5, 2e-6, 5e-6, 2e-5, 5e-6, 1e-6};
static const struct bounds bounds_bf16 = {0.06, 0, 0.015, 0.015, 0.08, INFINITY, 2e-3};

struct expected {
    const struct bounds *bounds;
    struct safetensors file;
    json_t *batch;
};

static double *tensor_read(const struct safetensors *file, const char *name, uint64_t elements) {
    const struct tensor *tensor = safetensors_find(file, name);
    if (!tensor)
        fail_msg("%s is not among the expected tensors", name);
    assert_int_equal(tensor->elements, elements);
    double *out = malloc((elements + 1) * sizeof *out);
    assert_non_null(out);
    tensor_doubles(out, tensor, 0, elements);
    return out;
}

static void floats_check(const float *got, const struct expected *expected, const char *name, uint64_t n) {
    double *want = tensor_read(&expected->file, name, n);
    for (uint64_t i = 0; i < n; i++)
        assert_near((double)got[i], want[i], expected->bounds->value, expected->bounds->relative);
    free(want);
}

static bool is_zero_tensor(const struct expected *expected, const char *name) {
    size_t i;
    json_t *zero;
    json_array_foreach(json_object_get(expected->batch, "zero_gradient_tensors"), i, zero) {
        if (strcmp(json_string_value(zero), name) == 0)
            return true;
    }
    return false;
}

static void gradient_check(const struct rig *rig, const struct expected *expected, const struct param *param) {
    char name[PARAM_NAME + 8];
    uint64_t n = param_elements(param);
    float *got = param_values(rig->gradients, param);
    snprintf(name, sizeof name, "grad.%s", param->name);
    double *want = tensor_read(&expected->file, name, n), off = 0, norm = 0, largest = 0, most = 0;
    for (uint64_t i = 0; i < n; i++) {
        double d = (double)got[i] - want[i];
        off += d * d;
        norm += want[i] * want[i];
        largest = fmax(largest, fabs(d));
        most = fmax(most, fabs((double)got[i]));
        if (want[i] == 0 && param->layout == PARAM_ROWS && got[i] != 0)
            fail_msg("%s: element %llu must be exactly 0, is %g", name, (unsigned long long)i, (double)got[i]);
    }
    const struct bounds *bounds = expected->bounds;
    if (is_zero_tensor(expected, param->name)
            ? !(most <= bounds->off)
            : !(sqrt(off) <= bounds->gradient * sqrt(norm) && largest <= bounds->most))
        fail_msg("%s: off by %g of %g, at most %g", name, sqrt(off), sqrt(norm), largest);
    free(got);
    free(want);
}

static void hidden_check(const struct rig *rig, const struct expected *expected, const struct batch *batch) {
    const bool bf16 = rig->pass->options.bf16; // (whose layers share their memory)
    for (unsigned l = bf16 ? rig->config.layers - 1 : 0; l <= rig->config.layers; l++) {
        char name[24];
        snprintf(name, sizeof name, "hidden.%u", l);
        floats_check(pass_hidden(rig->pass, l), expected, name, (uint64_t)batch->cu_seqlens[1] * rig->config.hidden);
    }
}

static void losses_check(const struct rig *rig, const struct expected *expected, const struct batch *batch,
                         const double *losses, double loss) {
    double *each = tensor_read(&expected->file, "loss_per_sequence", batch->size);
    for (uint32_t b = 0; b < batch->size && batch->parts >= batch->size; b++)
        assert_near(losses[b], each[b], expected->bounds->loss_each, 0);
    assert_near(loss, json_real_value(json_object_get(expected->batch, "loss_f64")), expected->bounds->loss, 0);
    free(each);
    if (safetensors_find(&expected->file, "pooled")) // of the first sequence
        floats_check(rig->pass->act.tanh, expected, "pooled", rig->config.hidden);
}

// Question answering: every token's start and end logit, all sequences one after the other.
static void spans_check(const struct rig *rig, const struct expected *expected, const struct batch *batch) {
    const char *names[2] = {"start_logits", "end_logits"};
    const float *logits = pass_logits(rig->pass);
    float *column = malloc((batch->tokens + 1) * sizeof *column);
    assert_non_null(column);
    for (uint32_t c = 0; c < 2; c++) {
        for (uint32_t t = 0; t < batch->tokens; t++)
            column[t] = logits[2 * t + c];
        floats_check(column, expected, names[c], batch->tokens);
    }
    free(column);
}

static void logits_check(const struct rig *rig, const struct expected *expected, const struct batch *batch) {
    if (rig->config.head == HEAD_QUESTION_ANSWERING)
        spans_check(rig, expected, batch);
    else
        floats_check(pass_logits(rig->pass), expected, "logits", (uint64_t)batch->size * rig->config.labels);
}

static void batch_check(struct rig *rig, const struct expected *expected, const struct batch *batch,
                        enum pass_rows rows) {
    double losses[4096];
    memset(rig->gradients, 0xff, rig->table.floats * sizeof(float)); // what backward leaves out shows as NaN
    double loss = rig_step(rig, batch, 0, losses, 1.0f / (float)batch->size);
    logits_check(rig, expected, batch);
    losses_check(rig, expected, batch, losses, loss);
    for (size_t i = 0; i < rig->table.n; i++)
        gradient_check(rig, expected, &rig->table.at[i]);
    if (rows == PASS_ALL)
        hidden_check(rig, expected, batch);
}

static void step_way(struct rig *rig, const char *folder, struct expected *expected, enum isa isa, unsigned threads,
                     enum pass_rows rows, bool bf16) {
    struct batch batch;
    batch_room(&batch, json_object_get(expected->batch, "ids"));
    batch_read(&batch, expected->batch);
    struct pass_options options = {batch.tokens, batch.size, batch.longest, rows, true, bf16, 0};
    rig_pass_open(rig, isa, threads, &options);
    expected->bounds = bf16 ? &bounds_bf16 : &bounds_fp32;
    fprintf(stderr, "%s: %s, %u threads, %s%s\n", strrchr(folder, '/') + 1, isa_name(isa), threads,
            rows == PASS_ALL ? "all" : "first", bf16 ? ", bf16" : "");
    batch_check(rig, expected, &batch, rows);
    batch_cut_single(&batch);
    batch_check(rig, expected, &batch, rows);
    batch_close(&batch);
}

// Also: the thread count and the instruction set don't show. (AVX512_BF16 is held to that on processors whose VDPBF16PS
// does what Intel's manual says.)
static void bf16_check(struct rig *rig, const char *folder, struct expected *expected) {
    float *plain = NULL;
    for (enum isa isa = ISA_PLAIN; isa < ISA_COUNT && ops_table(isa); isa++)
        for (unsigned threads = 1; threads <= 2; threads++) {
            if (rig->config.head == HEAD_CLASSIFICATION)
                step_way(rig, folder, expected, isa, threads, PASS_FIRST, true);
            step_way(rig, folder, expected, isa, threads, PASS_ALL, true);
            if (!plain) {
                plain = malloc(rig->table.floats * sizeof *plain);
                assert_non_null(plain);
                memcpy(plain, rig->gradients, rig->table.floats * sizeof *plain);
            }
            for (size_t i = 0; i < rig->table.n; i++)
                assert_memory_equal(rig->gradients + rig->table.at[i].offset, plain + rig->table.at[i].offset,
                                    rig->table.at[i].size * sizeof *plain);
        }
    free(plain);
}

static void model_step(const char *folder) {
    struct rig rig;
    struct expected expected;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/expected.safetensors", folder);
    assert_ok(safetensors_open(&expected.file, path));
    expected.batch = json_read(folder, "batch.json");
    rig_read(&rig, folder);
    for (enum isa isa = ISA_PLAIN; isa < ISA_COUNT; isa++)
        for (unsigned way = 0; way < 4 && ops_table(isa); way++)
            if (way / 2 || rig.config.head == HEAD_CLASSIFICATION)
                step_way(&rig, folder, &expected, isa, 1 + way % 2, way / 2 ? PASS_ALL : PASS_FIRST, false);
    bf16_check(&rig, folder, &expected);
    rig_close(&rig);
    safetensors_close(&expected.file);
    json_decref(expected.batch);
}

// AdamW as golden/README.md states it, in double.
struct adamw {
    double *m, *v;
    double b1, b2, eps, decay, clip;
    int t;
};

static double real(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static double gradients_norm(const struct rig *rig) {
    double sum = 0;
    for (uint64_t i = 0; i < rig->table.floats; i++)
        sum += (double)rig->gradients[i] * (double)rig->gradients[i];
    return sqrt(sum);
}

static void adamw_step(struct adamw *a, struct rig *rig, double lr, double norm) {
    double scale = fmin(1, a->clip / (norm + 1e-6));
    a->t++;
    for (size_t p = 0; p < rig->table.n; p++) {
        const struct param *param = &rig->table.at[p];
        for (uint64_t i = param->offset; i < param->offset + param->size; i++) {
            double g = (double)rig->gradients[i] * scale, w = (double)rig->weights[i];
            a->m[i] = a->b1 * a->m[i] + (1 - a->b1) * g;
            a->v[i] = a->b2 * a->v[i] + (1 - a->b2) * g * g;
            w *= 1 - lr * (param->decay ? a->decay : 0);
            w -= lr * (a->m[i] / (1 - pow(a->b1, a->t))) / (sqrt(a->v[i] / (1 - pow(a->b2, a->t))) + a->eps);
            rig->weights[i] = (float)w;
        }
    }
}

static void final_check(const struct rig *rig, const struct safetensors *final, const struct param *param) {
    uint64_t n = param_elements(param);
    float *got = param_values(rig->weights, param);
    double *want = tensor_read(final, param->name, n), most = 0, sum = 0;
    bool words = strstr(param->name, "word_embeddings") != NULL;
    for (uint64_t i = 0; i < n; i++) {
        double d = (double)got[i] - want[i];
        most = fmax(most, fabs(d));
        sum += d * d;
    }
    double bound = words ? 2e-4 : strstr(param->name, "key.bias") ? 6e-3 : 1e-5;
    if (!(most <= bound) || (words && sqrt(sum / (double)n) > 1e-6))
        fail_msg("%s: off by %g after ten steps", param->name, most);
    free(got);
    free(want);
}

static void train_run(struct rig *rig, const json_t *train, struct adamw *a) {
    size_t i;
    json_t *step;
    json_array_foreach(json_object_get(train, "steps"), i, step) {
        struct batch batch;
        double losses[4096];
        batch_room(&batch, json_object_get(step, "ids"));
        batch_read(&batch, step);
        struct pass_options options = {batch.tokens, batch.size, batch.longest, PASS_FIRST, true, false, 0};
        rig_pass_open(rig, isa_best(), 2, &options);
        double loss = rig_step(rig, &batch, 0, losses, 1.0f / (float)batch.size), norm = gradients_norm(rig);
        assert_near(loss, real(step, "loss_f64"), 1e-5, 0);
        assert_near(norm, real(step, "grad_norm_f64"), 0, 1e-5);
        adamw_step(a, rig, real(step, "lr"), norm);
        rig_pass_close(rig);
        batch_close(&batch);
    }
}

static void model_train(const char *folder) {
    struct rig rig;
    struct safetensors final;
    char path[PATH_MAX];
    json_t *train = json_read(folder, "train10.json"), *hyper = json_object_get(train, "hyper");
    const json_t *betas = json_object_get(hyper, "betas");
    snprintf(path, sizeof path, "%s/final.safetensors", folder);
    assert_ok(safetensors_open(&final, path));
    rig_read(&rig, folder);
    struct adamw a = {calloc(rig.table.floats, sizeof *a.m),
                      calloc(rig.table.floats, sizeof *a.v),
                      json_number_value(json_array_get(betas, 0)),
                      json_number_value(json_array_get(betas, 1)),
                      real(hyper, "eps"),
                      real(hyper, "weight_decay"),
                      real(hyper, "clip_norm"),
                      0};
    train_run(&rig, train, &a);
    for (size_t i = 0; i < rig.table.n; i++)
        final_check(&rig, &final, &rig.table.at[i]);
    free(a.m);
    free(a.v);
    rig_close(&rig);
    safetensors_close(&final);
    json_decref(train);
}

// Runs `check` on every folder of golden/models that holds a model with that head.
static void models_run(void (*check)(const char *folder), enum model_head head) {
    const char *root = support_path("FINETUNED_GOLDEN", "models");
    SUPPORT_NEED(root, "FINETUNED_GOLDEN/models");
    char **names;
    size_t n, run = 0;
    assert_ok(file_list(&names, &n, root));
    for (size_t i = 0; i < n; i++) {
        char *folder = path_join(root, names[i]);
        struct model_config config;
        assert_ok(model_config_read(&config, folder));
        if (config.head == head) {
            check(folder);
            run++;
        }
        model_config_release(&config);
        free(folder);
    }
    file_list_free(names, n);
    assert_true(run > 0);
}

static void test_step(void **state) {
    (void)state;
    models_run(model_step, HEAD_CLASSIFICATION);
}

static void test_step_spans(void **state) {
    (void)state;
    models_run(model_step, HEAD_QUESTION_ANSWERING);
}

static void test_train10(void **state) {
    (void)state;
    models_run(model_train, HEAD_CLASSIFICATION);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_step), cmocka_unit_test(test_step_spans),
                                       cmocka_unit_test(test_train10)};
    if (!support_path("FINETUNED_GOLDEN", "models")) {
        fprintf(stderr, "SKIPPED: FINETUNED_GOLDEN/models is not here\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
