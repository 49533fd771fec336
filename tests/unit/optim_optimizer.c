// SPDX-License-Identifier: Apache-2.0
// AdamW against golden/optim (torch.optim.AdamW), clipping and its order, pending updates, padding, and equal bits for
// any number of threads and any instruction set.
#include "support.h"

#include "base/bf16.h"
#include "base/isa.h"
#include "model/safetensors.h"
#include "optim_support.h"

#include <jansson.h>
#include <math.h>

static struct optimizer_options options_plain(double lr) {
    return (struct optimizer_options){
        .beta1 = 0.9,
        .beta2 = 0.999,
        .eps = 1e-8,
        .schedule = {.kind = SCHEDULE_CONSTANT, .base_lr = lr, .total = 1000},
    };
}

// ---- golden ----

static void tensor_read(float *out, const struct safetensors *file, const char *name, uint64_t first, uint64_t n) {
    const struct tensor *tensor = safetensors_find(file, name);
    assert_non_null(tensor);
    assert_true(first + n <= tensor->elements);
    tensor_floats(out, tensor, first, n);
}

static void values_near(const float *got, const struct safetensors *file, const char *name, size_t n, double absolute,
                        double relative) {
    float wanted[128];
    tensor_read(wanted, file, name, 0, n);
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - (double)wanted[i]) <= absolute + relative * fabs((double)wanted[i])))
            fail_msg("%s[%zu] = %.9g, wanted %.9g", name, i, (double)got[i], (double)wanted[i]);
}

static void step_compare(const struct optimizer *o, const struct param *param, const struct safetensors *file,
                         const char *name) {
    static const struct {
        const char *which;
        double absolute, relative; // README of golden: float32
    } rows[] = {{"w", 2e-5, 1e-5}, {"m", 1e-14, 5e-5}, {"v", 1e-20, 2e-5}};
    const float *arenas[] = {o->weights, o->exp_avg, o->exp_avg_sq};
    static const char *const precisions[] = {"f32", "f64"};
    for (size_t p = 0; p < 2; p++)
        for (size_t i = 0; i < 3; i++) {
            char tensor[128];
            snprintf(tensor, sizeof tensor, "%s.%s.%s.step%llu.%s", name, precisions[p], param->name,
                     (unsigned long long)o->step, rows[i].which);
            values_near(arenas[i] + param->offset, file, tensor, param_elements(param), rows[i].absolute,
                        rows[i].relative);
        }
}

// `table` and `vector` in one optimizer, the first as an embedding: [12][8] row by row, and 17 elements.
static void golden_table(struct param_table *table, const json_t *root) {
    const json_t *shape = json_object_get(root, "table_shape"), *length = json_object_get(root, "vector_shape");
    uint64_t rows = (uint64_t)json_integer_value(json_array_get(shape, 0));
    uint64_t columns = (uint64_t)json_integer_value(json_array_get(shape, 1));
    uint64_t n = (uint64_t)json_integer_value(json_array_get(length, 0));
    assert_true(rows * columns <= 128 && n <= 128);
    assert_ok(param_add(table, "table", PARAM_ROWS, rows, columns, true, 0));
    assert_ok(param_add(table, "vector", PARAM_VECTOR, n, 1, true, 1));
    assert_ok(param_finish(table));
}

static bool saved_at(const json_t *item, uint64_t step) {
    const json_t *steps = json_object_get(item, "saved_steps"), *at;
    size_t i;
    json_array_foreach(steps, i, at) if ((uint64_t)json_integer_value(at) == step) return true;
    return false;
}

static void golden_case(const json_t *item, const struct param_table *table, struct pool *pool,
                        const struct safetensors *input, const struct safetensors *expected) {
    const json_t *betas = json_object_get(item, "betas");
    struct optimizer_options options = options_plain(json_number_value(json_object_get(item, "lr")));
    options.beta1 = json_number_value(json_array_get(betas, 0));
    options.beta2 = json_number_value(json_array_get(betas, 1));
    options.eps = json_number_value(json_object_get(item, "eps"));
    options.weight_decay = json_number_value(json_object_get(item, "weight_decay"));
    const struct param *rows = &table->at[0], *vector = &table->at[1];
    float *weights = calloc(table->floats, sizeof(float)), *gradient = calloc(table->floats, sizeof(float));
    tensor_read(weights + rows->offset, input, "table.w0", 0, param_elements(rows));
    tensor_read(weights + vector->offset, input, "vector.w0", 0, param_elements(vector));
    struct optimizer *o;
    assert_ok(optimizer_open(&o, table, pool, weights, &options));
    uint64_t steps = (uint64_t)json_integer_value(json_object_get(item, "steps")), compared = 0;
    for (uint64_t step = 1; step <= steps; step++) {
        uint64_t n = param_elements(rows), v = param_elements(vector);
        tensor_read(gradient + rows->offset, input, "table.grads", (step - 1) * n, n);
        tensor_read(gradient + vector->offset, input, "vector.grads", (step - 1) * v, v);
        step_of(o, gradient, norm_of(o, gradient));
        params_current(o);
        for (size_t i = 0; i < 2 && saved_at(item, step); i++, compared++)
            step_compare(o, &table->at[i], expected, json_string_value(json_object_get(item, "name")));
    }
    assert_int_equal(compared, 2 * json_array_size(json_object_get(item, "saved_steps")));
    optimizer_close(o);
    free(weights);
    free(gradient);
}

static void test_golden(void **state) {
    (void)state;
    const char *path = support_path("FINETUNED_GOLDEN", "optim/adamw.json");
    SUPPORT_NEED(path, "golden/optim/adamw.json");
    json_t *root = json_load_file(path, 0, NULL), *item;
    assert_non_null(root);
    struct safetensors input, expected;
    assert_ok(safetensors_open(&input, support_path("FINETUNED_GOLDEN", "optim/adamw_input.safetensors")));
    assert_ok(safetensors_open(&expected, support_path("FINETUNED_GOLDEN", "optim/adamw_expected.safetensors")));
    struct pool *pool;
    assert_ok(pool_open(&pool, 1));
    struct param_table table = {0};
    golden_table(&table, root);
    size_t i;
    json_array_foreach(json_object_get(root, "cases"), i, item) golden_case(item, &table, pool, &input, &expected);
    assert_true(i > 0);
    param_table_release(&table);
    pool_close(pool);
    safetensors_close(&input);
    safetensors_close(&expected);
    json_decref(root);
}

// ---- a small model: every layout, sizes that don't divide by anything ----

static void small_table(struct param_table *table) {
    assert_ok(param_add(table, "embedding", PARAM_ROWS, 301, 67, true, 0));
    assert_ok(param_add(table, "dense", PARAM_TILES, 45, 1031, true, 1));
    assert_ok(param_add(table, "bias", PARAM_VECTOR, 45, 1, false, 1));
    assert_ok(param_add(table, "head", PARAM_TILES, 3, 45, true, 2));
    assert_ok(param_finish(table));
}

// Values of every scale, the same on each call with the same seed; padding stays zero.
static void values_fill(float *arena, const struct param_table *table, uint32_t seed) {
    for (size_t i = 0; i < table->n; i++) {
        const struct param *param = &table->at[i];
        uint64_t columns = param->rank == 2 ? param->shape[1] : 1;
        float *row = malloc(param->shape[0] * columns * sizeof(float));
        for (uint64_t j = 0; j < param->shape[0] * columns; j++) {
            seed = seed * 1664525u + 1013904223u;
            row[j] = ldexpf((float)(int32_t)seed / 2147483648.0f, (int)(seed >> 8 & 15) - 12);
        }
        param_write_rows(arena, param, row, 0, param->shape[0]);
        free(row);
    }
}

struct model {
    struct param_table table;
    struct pool *pool;
    float *weights, *gradient;
    struct optimizer *o;
};

static void model_open(struct model *model, unsigned threads, const char *isa,
                       const struct optimizer_options *options) {
    *model = (struct model){0};
    small_table(&model->table);
    assert_ok(pool_open(&model->pool, threads));
    model->weights = calloc(model->table.floats, sizeof(float));
    model->gradient = calloc(model->table.floats, sizeof(float));
    values_fill(model->weights, &model->table, 1);
    setenv("FINETUNED_ISA", isa, 1);
    assert_ok(optimizer_open(&model->o, &model->table, model->pool, model->weights, options));
    unsetenv("FINETUNED_ISA");
}

static void model_close(struct model *model) {
    optimizer_close(model->o);
    free(model->weights);
    free(model->gradient);
    pool_close(model->pool);
    param_table_release(&model->table);
}

// Three steps; returns the sum of the norms.
static double model_steps(struct model *model) {
    double norms = 0;
    for (uint32_t step = 0; step < 3; step++) {
        values_fill(model->gradient, &model->table, 100 + step);
        double norm = norm_of(model->o, model->gradient);
        step_of(model->o, model->gradient, norm);
        params_current(model->o);
        norms += norm;
    }
    return norms;
}

static void test_equal_bits(void **state) {
    (void)state;
    struct optimizer_options options = options_plain(0.01);
    options.weight_decay = 0.1;
    options.clip = 1;
    struct model first;
    model_open(&first, 1, "plain", &options);
    double norms = model_steps(&first);
    size_t bytes = first.table.floats * sizeof(float);
    for (enum isa isa = ISA_PLAIN; isa <= isa_best(); isa++)
        for (unsigned threads = 1; threads <= 4; threads++) {
            struct model other;
            model_open(&other, threads, isa_name(isa), &options);
            assert_true(model_steps(&other) == norms);
            assert_memory_equal(other.weights, first.weights, bytes);
            assert_memory_equal(other.o->exp_avg, first.o->exp_avg, bytes);
            assert_memory_equal(other.o->exp_avg_sq, first.o->exp_avg_sq, bytes);
            model_close(&other);
        }
    model_close(&first);
}

// What is in an arena but belongs to no tensor (the last block's missing rows, gaps between parameters) stays +0.
static void test_padding_stays_zero(void **state) {
    (void)state;
    struct optimizer_options options = options_plain(0.01);
    options.weight_decay = 0.1;
    struct model model;
    model_open(&model, 2, isa_name(isa_best()), &options);
    model_steps(&model);
    const float *arenas[] = {model.weights, model.o->exp_avg, model.o->exp_avg_sq};
    float *clean = calloc(model.table.floats, sizeof(float)), *rows = malloc(model.table.floats * sizeof(float));
    for (size_t a = 0; a < 3; a++) {
        for (size_t i = 0; i < model.table.n; i++) {
            const struct param *param = &model.table.at[i];
            param_read_rows(rows, arenas[a], param, 0, param->shape[0]);
            param_write_rows(clean, param, rows, 0, param->shape[0]);
        }
        assert_memory_equal(arenas[a], clean, model.table.floats * sizeof(float));
    }
    free(clean);
    free(rows);
    model_close(&model);
}

// A bucket is untouched until it is read, and then updated once.
static void test_pending(void **state) {
    (void)state;
    struct optimizer_options options = options_plain(0.01);
    struct model model;
    model_open(&model, 1, "plain", &options);
    float *before = malloc(model.table.floats * sizeof(float));
    memcpy(before, model.weights, model.table.floats * sizeof(float));
    values_fill(model.gradient, &model.table, 7);
    step_of(model.o, model.gradient, norm_of(model.o, model.gradient));
    assert_int_equal(model.o->step, 1);
    assert_memory_equal(model.weights, before, model.table.floats * sizeof(float));
    bucket_current(model.o, 1, NULL);
    for (size_t l = 0; l < model.table.n_buckets; l++) {
        const struct param_bucket *bucket = &model.table.buckets[l];
        bool same = memcmp(model.weights + bucket->offset, before + bucket->offset, bucket->size * sizeof(float)) == 0;
        assert_int_equal(same, l != 1);
    }
    params_current(model.o);
    memcpy(before, model.weights, model.table.floats * sizeof(float));
    params_current(model.o);
    bucket_current(model.o, 1, NULL);
    assert_memory_equal(model.weights, before, model.table.floats * sizeof(float));
    free(before);
    model_close(&model);
}

static void test_decay_only_where_marked(void **state) {
    (void)state;
    struct optimizer_options options = options_plain(0.5);
    options.weight_decay = 0.1;
    struct model model;
    model_open(&model, 1, "plain", &options);
    float *before = malloc(model.table.floats * sizeof(float));
    memcpy(before, model.weights, model.table.floats * sizeof(float));
    step_of(model.o, model.gradient, 0); // no gradient: decay alone
    params_current(model.o);
    for (size_t i = 0; i < model.table.n; i++) {
        const struct param *param = &model.table.at[i];
        float keep = param->decay ? (float)(1 - 0.5 * 0.1) : 1;
        for (uint64_t j = param->offset; j < param->offset + param->size; j++)
            assert_true(model.weights[j] == before[j] * keep);
    }
    free(before);
    model_close(&model);
}

// Clipping scales the gradient by min(1, clip/(norm + 1e-6)) before the moments see it; the learning rate 0 of a first
// warm-up step leaves the weights alone and updates the moments.
static void test_clip_and_warmup(void **state) {
    (void)state;
    struct optimizer_options options = options_plain(0.01);
    options.clip = 0.5;
    options.schedule.kind = SCHEDULE_LINEAR;
    options.schedule.warmup = 4;
    struct model model;
    model_open(&model, 1, "plain", &options);
    float *before = malloc(model.table.floats * sizeof(float));
    memcpy(before, model.weights, model.table.floats * sizeof(float));
    values_fill(model.gradient, &model.table, 9);
    double norm = norm_of(model.o, model.gradient);
    assert_true(norm > 1);
    assert_true(step_of(model.o, model.gradient, norm) == 0);
    params_current(model.o);
    assert_memory_equal(model.weights, before, model.table.floats * sizeof(float));
    float scale = 0.5f / ((float)norm + 1e-6f);
    for (uint64_t i = 0; i < model.table.floats; i++) {
        float clipped = model.gradient[i] * scale;
        assert_true(model.o->exp_avg[i] == (float)(1 - 0.9) * clipped);
        assert_true(model.o->exp_avg_sq[i] == (float)(1 - 0.999) * (clipped * clipped));
    }
    assert_near(step_of(model.o, model.gradient, norm), 0.0025, 1e-15, 0);
    params_current(model.o);
    memcpy(before, model.o->exp_avg, model.table.floats * sizeof(float));
    step_of(model.o, model.gradient, 0.25); // below the limit: not scaled up
    params_current(model.o);
    for (uint64_t i = 0; i < model.table.floats; i++)
        assert_true(model.o->exp_avg[i] == 0.9f * before[i] + (float)(1 - 0.9) * model.gradient[i]);
    free(before);
    model_close(&model);
}

// Two steps of torch.optim.AdamW (2.15, float64) with a parameter group a bucket: rates 0.1 times 0.25, 0.5 and 1,
// decay 0.2, 0.2 and none. Decay uses the group's rate. Then, with bucket 0 frozen, the same but for that bucket.
static void shares_check(size_t frozen) {
    static const float start[3][3] = {{0.5f, -1.25f, 2.0f}, {0.75f, -0.5f, 1.5f}, {1.0f, -2.0f, 0.25f}};
    static const float gradients[2][3][3] = {{{0.1f, -0.2f, 0.3f}, {0.4f, 0.05f, -0.6f}, {0.25f, -0.15f, 0.35f}},
                                             {{-0.3f, 0.1f, 0.2f}, {0.15f, -0.45f, 0.2f}, {-0.05f, 0.3f, 0.1f}}};
    static const double wanted[2][3][3] = {{{0.4725000025, -1.218750001, 1.965000001},
                                            {0.6925000012, -0.54499999, 1.534999999},
                                            {0.900000004, -1.900000007, 0.1500000029}},
                                           {{0.4824922478, -1.205997826, 1.930916199},
                                            {0.6411372589, -0.5062684414, 1.539660927},
                                            {0.8488973991, -1.936610358, 0.06512226654}}};
    struct optimizer_options options = options_plain(0.1);
    options.weight_decay = 0.2;
    options.shares = (const double[]){0.25, 0.5, 1};
    struct param_table table = {0};
    struct pool *pool;
    struct optimizer *o;
    for (unsigned l = 0; l < 3; l++)
        assert_ok(param_add(&table, (const char *[]){"a", "b", "c"}[l], PARAM_VECTOR, 3, 1, l < 2, l));
    assert_ok(param_finish(&table));
    table.frozen = frozen;
    assert_ok(pool_open(&pool, 1));
    float *weights = calloc(table.floats, sizeof(float)), *gradient = calloc(table.floats, sizeof(float));
    for (unsigned l = 0; l < 3; l++)
        memcpy(weights + table.at[l].offset, start[l], sizeof start[l]);
    assert_ok(optimizer_open(&o, &table, pool, weights, &options));
    for (unsigned step = 0; step < 2; step++) {
        for (unsigned l = 0; l < 3; l++)
            memcpy(gradient + table.at[l].offset, gradients[step][l], sizeof start[l]);
        assert_true(step_of(o, gradient, 1) == 0.1); // the base rate
        params_current(o);
        for (unsigned l = 0; l < 3; l++)
            for (unsigned i = 0; i < 3; i++)
                assert_near(weights[table.at[l].offset + i], l < frozen ? start[l][i] : wanted[step][l][i], 1e-6, 0);
        for (unsigned l = 0; l < frozen; l++)
            for (unsigned i = 0; i < 3; i++)
                assert_true(o->exp_avg[table.at[l].offset + i] == 0 && o->exp_avg_sq[table.at[l].offset + i] == 0);
    }
    optimizer_close(o);
    free(weights);
    free(gradient);
    pool_close(pool);
    param_table_release(&table);
}

static void test_shares(void **state) {
    (void)state;
    for (size_t frozen = 0; frozen < 3; frozen++)
        shares_check(frozen);
}

// The copy of every matrix in bf16 (model/gemm/pairs.h), element by element.
static void copy_check(const struct param_table *table, const float *weights, const float *copy) {
    uint16_t *halves = malloc(table->pairs * sizeof(float));
    memcpy(halves, copy, table->pairs * sizeof(float));
    for (size_t p = 0; p < table->n; p++) {
        const struct param *param = &table->at[p];
        const uint64_t k_all = param->shape[1], rows = (k_all + 1) / 2;
        for (uint64_t i = 0; param->layout == PARAM_TILES && i < param->size; i++) {
            const uint64_t block = i / (k_all * 32), k = i / 32 % k_all, n = i % 32;
            const uint64_t at = 2 * (param->pairs + (block * rows + k / 2) * 32 + n) + k % 2;
            assert_int_equal(halves[at], bf16_from_float(weights[param->offset + i]));
            if (k + 1 == k_all && k % 2 == 0)
                assert_int_equal(halves[at + 1], 0);
        }
    }
    free(halves);
}

// It is the rounded weights, bit for bit, after each update and when it is made anew; other buckets' wait with them.
static void test_copy(void **state) {
    (void)state;
    for (enum isa isa = ISA_PLAIN; isa <= isa_best(); isa++) {
        struct optimizer_options options = options_plain(0.01);
        struct param_table table = {0};
        small_table(&table);
        assert_int_equal(table.pairs, 2 * 32 * 516 + 32 * 23);
        options.copy = malloc(table.pairs * sizeof(float));
        memset(options.copy, 0xff, table.pairs * sizeof(float));
        param_table_release(&table);
        struct model model;
        model_open(&model, 2, isa_name(isa), &options);
        optimizer_copy(model.o);
        copy_check(&model.table, model.weights, options.copy);
        model_steps(&model);
        copy_check(&model.table, model.weights, options.copy);
        float *before = malloc(model.table.pairs * sizeof(float));
        memcpy(before, options.copy, model.table.pairs * sizeof(float));
        step_of(model.o, model.gradient, 1);
        bucket_current(model.o, 2, NULL);
        assert_memory_equal(options.copy, before, model.table.at[3].pairs * sizeof(float));
        assert_memory_not_equal(options.copy + model.table.at[3].pairs, before + model.table.at[3].pairs, 32 * 23 * 4);
        params_current(model.o);
        copy_check(&model.table, model.weights, options.copy);
        free(before);
        model_close(&model);
        free(options.copy);
    }
}

// Updates far below a bf16's last bit: the master takes them all, the copy follows it.
static void test_small_updates(void **state) {
    (void)state;
    struct optimizer_options options = options_plain(1e-5);
    struct param_table table = {0};
    struct pool *pool;
    struct optimizer *o;
    assert_ok(param_add(&table, "w", PARAM_TILES, 32, 2, true, 0));
    assert_ok(param_finish(&table));
    assert_ok(pool_open(&pool, 1));
    float weights[64], gradient[64], copy[32];
    for (int i = 0; i < 64; i++)
        weights[i] = gradient[i] = 1;
    options.copy = copy;
    assert_ok(optimizer_open(&o, &table, pool, weights, &options));
    for (int step = 0; step < 100; step++) {
        step_of(o, gradient, 1);
        params_current(o);
        copy_check(&table, weights, copy);
    }
    for (int i = 0; i < 64; i++)
        assert_near((double)weights[i], 0.999, 5e-6, 0);
    optimizer_close(o);
    pool_close(pool);
    param_table_release(&table);
}

static void test_bad_options(void **state) {
    (void)state;
    struct param_table table = {0};
    small_table(&table);
    struct optimizer_options options = options_plain(0.01);
    struct optimizer *o;
    options.eps = 1e-60; // 0 in float: rows without a gradient would become 0/0
    assert_status(optimizer_open(&o, &table, NULL, NULL, &options), STATUS_USAGE);
    assert_null(o);
    options = options_plain(0.01);
    options.beta2 = 1;
    assert_status(optimizer_open(&o, &table, NULL, NULL, &options), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "train.betas"));
    param_table_release(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_equal_bits),
        cmocka_unit_test(test_padding_stays_zero),
        cmocka_unit_test(test_pending),
        cmocka_unit_test(test_decay_only_where_marked),
        cmocka_unit_test(test_clip_and_warmup),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_small_updates),
        cmocka_unit_test(test_bad_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
