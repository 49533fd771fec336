// SPDX-License-Identifier: Apache-2.0
// Weights in and out: names, prefixes, dtypes, shapes, heads and labels.
#include "model_support.h"

// How a file differs from what weights_save writes.
struct change {
    const char *strip;   // prefix to leave away
    bool old;            // gamma and beta
    const char *skip;    // leave out names that hold this
    const char *reshape; // this one gets a row more
    const char *spoil;   // this one gets a NaN
    enum tensor_dtype dtype;
    const char *extra; // a tensor more, of one float
    bool positions;    // an I64 position_ids
};

static void name_change(char out[256], const char *name, const struct change *change) {
    size_t strip =
        change->strip && strncmp(name, change->strip, strlen(change->strip)) == 0 ? strlen(change->strip) : 0;
    snprintf(out, 256, "%s", name + strip);
    char *norm = change->old ? strstr(out, "LayerNorm.") : NULL;
    if (norm)
        snprintf(norm, 64, "LayerNorm.%s", strcmp(norm, "LayerNorm.weight") == 0 ? "gamma" : "beta");
}

// By hand, so that the writer of the product is not its own judge.
struct build {
    json_t *header;
    char *data;
    size_t size;
};

static void build_add(struct build *b, const char *name, const char *dtype, json_t *shape, const void *bytes,
                      size_t size) {
    json_object_set_new(b->header, name,
                        json_pack("{s:s, s:o, s:[I,I]}", "dtype", dtype, "shape", shape, "data_offsets",
                                  (json_int_t)b->size, (json_int_t)(b->size + size)));
    b->data = realloc(b->data, b->size + size);
    assert_non_null(b->data);
    memcpy(b->data + b->size, bytes, size);
    b->size += size;
}

// Round to half: enough for numbers whose half is normal.
static uint16_t half_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    int32_t exponent = (int32_t)((bits >> 23) & 255) - 112;
    if (exponent <= 0)
        return (uint16_t)(bits >> 16 & 0x8000);
    return (uint16_t)((bits >> 16 & 0x8000) | ((uint32_t)exponent << 10) | ((bits >> 13) & 1023));
}

static void build_param(struct build *b, const struct rig *rig, const struct param *param,
                        const struct change *change) {
    char name[256];
    uint64_t more = change->reshape && strcmp(param->name, change->reshape) == 0,
             n = param_elements(param) + more * param->shape[1];
    float *values = calloc(n, sizeof *values);
    uint16_t *halves = calloc(n, sizeof *halves);
    param_read_rows(values, rig->weights, param, 0, param->shape[0]);
    if (change->spoil && strcmp(param->name, change->spoil) == 0)
        values[n - 1] = NAN;
    for (uint64_t i = 0; i < n; i++)
        halves[i] = half_of(values[i]);
    json_t *shape = json_pack("[I]", (json_int_t)(param->shape[0] + more));
    if (param->rank == 2)
        json_array_append_new(shape, json_integer((json_int_t)param->shape[1]));
    name_change(name, param->name, change);
    if (change->dtype == TENSOR_F16)
        build_add(b, name, "F16", shape, halves, n * 2);
    else
        build_add(b, name, "F32", shape, values, n * 4);
    free(values);
    free(halves);
}

static void folder_write(const struct rig *rig, const char *folder, const struct change *change) {
    struct build b = {.header = json_object()};
    const int64_t ids[2] = {0, 1};
    const float one = 1;
    for (size_t i = 0; i < rig->table.n; i++)
        if (!change->skip || !strstr(rig->table.at[i].name, change->skip))
            build_param(&b, rig, &rig->table.at[i], change);
    if (change->positions)
        build_add(&b, "embeddings.position_ids", "I64", json_pack("[i,i]", 1, 2), ids, sizeof ids);
    if (change->extra)
        build_add(&b, change->extra, "F32", json_pack("[i]", 1), &one, 4);
    char *header = json_dumps(b.header, JSON_COMPACT), *path = path_join(folder, "model.safetensors");
    uint64_t length = strlen(header);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite(&length, 8, 1, file);
    fwrite(header, length, 1, file);
    fwrite(b.data, b.size, 1, file);
    fclose(file);
    free(header);
    free(path);
    free(b.data);
    json_decref(b.header);
}

static void rig_small(struct rig *rig, enum model_kind kind) {
    struct model_config config = config_small(kind, 27);
    rig_init(rig, &config);
    rig_random(rig, 5);
}

static enum status load(const struct rig *rig, float *arena, struct weights_report *report,
                        const struct model_config *base, const char *folder) {
    memset(arena, 0, rig->table.floats * sizeof *arena);
    return rig_load(rig, arena, report, base ? base : &rig->config, folder, 9);
}

// What `change` writes loads as the rig's own weights.
static void same_check(enum model_kind kind, const struct change *change, unsigned ignored, double bound) {
    struct rig rig;
    struct weights_report report;
    char *folder = support_folder();
    rig_small(&rig, kind);
    folder_write(&rig, folder, change);
    assert_ok(load(&rig, rig.gradients, &report, NULL, folder));
    for (uint64_t i = 0; i < rig.table.floats; i++)
        assert_near((double)rig.gradients[i], (double)rig.weights[i], bound > 0 ? 1e-4 : 0, bound);
    assert_false(report.head_new || report.pooler_new);
    assert_int_equal(report.ignored, ignored);
    assert_string_equal(report.note, "");
    assert_ok(file_remove(folder));
    free(folder);
    rig_close(&rig);
}

static void test_names(void **state) {
    (void)state;
    same_check(MODEL_ROBERTA, &(struct change){0}, 0, 0);
    same_check(MODEL_ROBERTA, &(struct change){.strip = "roberta."}, 0, 0);
    same_check(MODEL_BERT, &(struct change){0}, 0, 0);
    same_check(MODEL_BERT, &(struct change){.strip = "bert.", .old = true}, 0, 0);
    same_check(MODEL_BERT, &(struct change){.old = true, .positions = true, .extra = "cls.predictions.bias"}, 2, 0);
    same_check(MODEL_BERT, &(struct change){.dtype = TENSOR_F16}, 0, 1e-3);
}

static void refused(enum model_kind kind, const struct change *change, const char *one, const char *two) {
    struct rig rig;
    struct weights_report report;
    char *folder = support_folder();
    rig_small(&rig, kind);
    folder_write(&rig, folder, change);
    assert_status(load(&rig, rig.gradients, &report, NULL, folder), STATUS_DATA);
    if (!strstr(status_message(), one) || !strstr(status_message(), two))
        fail_msg("\"%s\" does not say \"%s\" and \"%s\"", status_message(), one, two);
    assert_ok(file_remove(folder));
    free(folder);
    rig_close(&rig);
}

static void test_refused(void **state) {
    (void)state;
    const char *query = "bert.encoder.layer.1.attention.self.query.weight";
    refused(MODEL_BERT, &(struct change){.skip = query}, query, "missing");
    refused(MODEL_BERT, &(struct change){.skip = "word_embeddings"}, "bert.embeddings.word_embeddings.weight",
            "missing");
    refused(MODEL_ROBERTA, &(struct change){.skip = "layer.0.output.LayerNorm.bias"},
            "roberta.encoder.layer.0.output.LayerNorm.bias", "missing");
    refused(MODEL_BERT, &(struct change){.reshape = query}, "[28, 27]", "[27, 27]");
    refused(MODEL_BERT, &(struct change){.reshape = "bert.embeddings.LayerNorm.bias"}, "[28]", "[27]");
    refused(MODEL_BERT, &(struct change){.reshape = "bert.pooler.dense.bias"}, "[28]", "[27]");
    refused(MODEL_BERT, &(struct change){.spoil = query}, query, "not finite");
    struct rig rig;
    struct weights_report report;
    char *folder = support_folder();
    rig_small(&rig, MODEL_BERT);
    assert_status(load(&rig, rig.gradients, &report, NULL, folder), STATUS_DATA);
    char *path = path_join(folder, "pytorch_model.bin");
    assert_ok(file_replace(path, "x", 1));
    assert_status(load(&rig, rig.gradients, &report, NULL, folder), STATUS_DATA);
    assert_non_null(strstr(status_message(), "pytorch_model.bin"));
    assert_ok(file_remove(folder));
    free(path);
    free(folder);
    rig_close(&rig);
}

// The head's own parameters: matrices drawn with initializer_range, biases 0; again the same from the same seed.
static void head_check(const struct rig *rig, const float *arena, unsigned first) {
    for (unsigned i = first; i < HEAD_PARAMS; i++) {
        const struct param *param = weights_param(&rig->table, rig->config.layers + 1, i);
        float *values = param_values(arena, param);
        double sum = 0, n = (double)param_elements(param);
        for (uint64_t k = 0; k < param_elements(param); k++)
            sum += (double)values[k] * (double)values[k];
        if (param->layout == PARAM_VECTOR)
            assert_true(sum == 0);
        else
            assert_near(sqrt(sum / n), rig->config.initializer_range, 0, 0.3);
        free(values);
    }
}

static void new_check(enum model_kind kind, const struct change *change, const struct model_config *base,
                      bool pooler_new, const char *said) {
    struct rig rig;
    struct weights_report report;
    char *folder = support_folder();
    rig_small(&rig, kind);
    folder_write(&rig, folder, change);
    assert_ok(load(&rig, rig.gradients, &report, base, folder));
    assert_true(report.head_new);
    assert_int_equal(report.pooler_new, pooler_new);
    if (!strstr(report.note, said))
        fail_msg("\"%s\" does not say \"%s\"", report.note, said);
    uint64_t body = rig.table.buckets[rig.config.layers + 1].offset;
    assert_memory_equal(rig.gradients, rig.weights, body * sizeof(float));
    head_check(&rig, rig.gradients, kind == MODEL_ROBERTA || pooler_new ? HEAD_DENSE : HEAD_OUTPUT);
    memcpy(rig.weights, rig.gradients, rig.table.floats * sizeof(float));
    assert_ok(load(&rig, rig.gradients, &report, base, folder));
    assert_memory_equal(rig.gradients, rig.weights, rig.table.floats * sizeof(float));
    assert_ok(file_remove(folder));
    free(folder);
    rig_close(&rig);
}

static void test_new_head(void **state) {
    (void)state;
    struct model_config base = config_small(MODEL_BERT, 27);
    new_check(MODEL_ROBERTA, &(struct change){.skip = "classifier"}, NULL, false, "not in the base");
    new_check(MODEL_ROBERTA, &(struct change){.skip = "out_proj"}, NULL, false, "another shape");
    new_check(MODEL_ROBERTA, &(struct change){.skip = "classifier", .extra = "classifier.weight"}, NULL, false,
              "another shape");
    new_check(MODEL_ROBERTA, &(struct change){.skip = "classifier", .extra = "lm_head.bias"}, NULL, false,
              "not in the base");
    new_check(MODEL_ROBERTA, &(struct change){.reshape = "classifier.out_proj.weight"}, NULL, false,
              "another shape or label count");
    new_check(MODEL_BERT, &(struct change){.skip = "classifier"}, NULL, false, "not in the base");
    new_check(MODEL_BERT, &(struct change){.skip = "pooler"}, &(struct model_config){.labels = 2}, true,
              "pooler is not in the base");
    new_check(MODEL_BERT, &(struct change){.reshape = "classifier.weight"}, NULL, false,
              "another shape or label count");
    base.labels = 2;
    new_check(MODEL_BERT, &(struct change){0}, &base, false, "other names");
    base.labels = 4; // its config.json says more than its file holds
    new_check(MODEL_BERT, &(struct change){0}, &base, false, "other names");
    new_check(MODEL_BERT, &(struct change){.skip = "classifier", .extra = "strange.weight"}, NULL, false,
              "strange.weight");
}

// Question answering takes qa_outputs where it fits; classification heads and poolers are of no use to it.
static void test_answers(void **state) {
    (void)state;
    struct rig rig;
    struct weights_report report;
    struct model_config config = config_small_spans(MODEL_BERT, 27);
    const struct change changes[] = {
        {.extra = "bert.pooler.dense.weight"}, {.skip = "qa_outputs.bias"}, {.reshape = "qa_outputs.weight"}};
    char *folder = support_folder();
    rig_init(&rig, &config);
    rig_random(&rig, 5);
    const struct param *head = weights_param(&rig.table, 3, QA_OUTPUT), *bias = head + 1;
    for (size_t i = 0; i < 3; i++) {
        folder_write(&rig, folder, &changes[i]);
        assert_ok(load(&rig, rig.gradients, &report, NULL, folder));
        assert_true(report.head_new == (i > 0) && !report.pooler_new);
        assert_true((strstr(report.note, "question answering") != NULL) == (i > 0));
        bool same = memcmp(rig.gradients + head->offset, rig.weights + head->offset, head->size * sizeof(float)) == 0;
        assert_true(same == (i == 0) && rig.gradients[head->offset] != 0);
        assert_true(rig.gradients[bias->offset] == (i == 0 ? rig.weights[bias->offset] : 0));
    }
    assert_ok(file_remove(folder));
    free(folder);
    rig_close(&rig);
}

static struct labels labels_of(const char *const *names, uint32_t n) {
    struct labels labels = {0};
    for (uint32_t i = 0; i < n; i++)
        assert_ok(labels_add(&labels, names[i]));
    return labels;
}

// The base says (sad, angry, joy); the run says (joy, sad, angry).
static void permuted_check(enum model_kind kind) {
    static const char *const run_names[] = {"joy", "sad", "angry"}, *const base_names[] = {"sad", "angry", "joy"};
    static const int source[] = {2, 0, 1};
    struct rig rig;
    struct weights_report report;
    struct model_config base = config_small(kind, 27);
    char *folder = support_folder();
    rig_small(&rig, kind);
    rig.config.label_names = labels_of(run_names, 3);
    base.label_names = labels_of(base_names, 3);
    folder_write(&rig, folder, &(struct change){0});
    assert_ok(load(&rig, rig.gradients, &report, &base, folder));
    assert_false(report.head_new);
    assert_non_null(strstr(report.note, "aligned by name"));
    for (unsigned i = HEAD_OUTPUT; i < HEAD_PARAMS; i++) {
        const struct param *param = weights_param(&rig.table, rig.config.layers + 1, i);
        float *got = param_values(rig.gradients, param), *want = param_values(rig.weights, param);
        for (uint64_t r = 0; r < 3; r++)
            assert_memory_equal(got + r * param->shape[1], want + (uint64_t)source[r] * param->shape[1],
                                param->shape[1] * sizeof *got);
        free(got);
        free(want);
    }
    free(base.label_names.names[2]);
    base.label_names.names[2] = strdup("fear");
    assert_ok(load(&rig, rig.gradients, &report, &base, folder));
    assert_true(report.head_new);
    labels_release(&base.label_names);
    assert_ok(file_remove(folder));
    free(folder);
    rig_close(&rig);
}

static void test_labels(void **state) {
    (void)state;
    permuted_check(MODEL_ROBERTA);
    permuted_check(MODEL_BERT);
}

static void test_save(void **state) {
    (void)state;
    struct rig rig;
    struct weights_report report;
    char *folder = support_folder(), *path = path_join(folder, "model.safetensors");
    rig_small(&rig, MODEL_ROBERTA);
    assert_ok(weights_save(rig.weights, &rig.table, path, false));
    assert_ok(load(&rig, rig.gradients, &report, NULL, folder));
    assert_memory_equal(rig.gradients, rig.weights, rig.table.floats * sizeof(float));
    assert_ok(weights_save(rig.weights, &rig.table, path, true));
    assert_ok(load(&rig, rig.gradients, &report, NULL, folder));
    for (uint64_t i = 0; i < rig.table.floats; i++)
        assert_near((double)rig.gradients[i], (double)rig.weights[i], 0, 1.0 / 256);
    assert_ok(file_remove(folder));
    free(path);
    free(folder);
    rig_close(&rig);
}

static void test_random(void **state) {
    (void)state;
    struct rig rig;
    struct model_config config = config_small(MODEL_ROBERTA, 27);
    rig_init(&rig, &config);
    assert_ok(weights_random(rig.weights, &rig.table, &rig.config, 1, NULL, ops_table(ISA_PLAIN)));
    assert_ok(weights_random(rig.gradients, &rig.table, &rig.config, 2, NULL, ops_table(ISA_PLAIN)));
    head_check(&rig, rig.weights, HEAD_DENSE);
    assert_true(memcmp(rig.weights, rig.gradients, 64) != 0);
    const float *words = rig.weights + weights_param(&rig.table, 0, EMBEDDING_WORDS)->offset;
    for (uint32_t c = 0; c < 27; c++)
        assert_true(words[rig.config.pad_id * 27 + (int)c] == 0 && words[2 * 27 + c] != 0);
    const float *norm = rig.weights + weights_param(&rig.table, 1, LAYER_NORM2)->offset;
    assert_true(norm[0] == 1 && norm[26] == 1);
    rig_close(&rig);
}

// The same weights by any number of threads and any instruction set's ops, and no row twice.
static void test_random_equal(void **state) {
    (void)state;
    struct rig rig;
    struct pool *pool;
    struct model_config config = config_small(MODEL_ROBERTA, 32);
    rig_init(&rig, &config);
    assert_ok(pool_open(&pool, 2));
    assert_ok(weights_random(rig.weights, &rig.table, &rig.config, 1, NULL, ops_table(ISA_PLAIN)));
    assert_ok(weights_random(rig.gradients, &rig.table, &rig.config, 1, pool, ops_table(isa_best())));
    assert_memory_equal(rig.gradients, rig.weights, rig.table.floats * sizeof(float));
    const float *words = rig.weights + weights_param(&rig.table, 0, EMBEDDING_WORDS)->offset;
    const float *positions = rig.weights + weights_param(&rig.table, 0, EMBEDDING_POSITIONS)->offset;
    for (uint32_t row = 3; row < rig.config.vocab; row++)
        assert_true(memcmp(words + row * 32, words + 2 * 32, 32 * sizeof(float)) != 0);
    assert_true(memcmp(words + 2 * 32, positions + 2 * 32, 32 * sizeof(float)) != 0);
    pool_close(pool);
    rig_close(&rig);
}

// Threads copy what one thread copies, and the first tensor that is not finite is named whoever finds it.
static void test_threads(void **state) {
    (void)state;
    struct rig rig;
    struct weights_report report;
    char *folder = support_folder();
    rig_small(&rig, MODEL_ROBERTA);
    folder_write(&rig, folder, &(struct change){0});
    assert_ok(pool_open(&rig.pool, 2));
    assert_ok(load(&rig, rig.gradients, &report, NULL, folder));
    assert_memory_equal(rig.gradients, rig.weights, rig.table.floats * sizeof(float));
    folder_write(&rig, folder, &(struct change){.spoil = "roberta.encoder.layer.0.attention.self.key.weight"});
    assert_status(load(&rig, rig.gradients, &report, NULL, folder), STATUS_DATA);
    assert_non_null(strstr(status_message(), "layer.0.attention.self.key.weight holds a value that is not finite"));
    assert_ok(file_remove(folder));
    free(folder);
    rig_close(&rig);
}

static void test_table(void **state) {
    (void)state;
    struct param_table table;
    struct model_config config = config_small(MODEL_BERT, 32);
    assert_ok(weights_table(&table, &config));
    assert_int_equal(table.n_buckets, 4);
    const struct param *key = param_find(&table, "bert.encoder.layer.1.attention.self.key.weight");
    assert_true(key == weights_param(&table, 2, LAYER_KEY));
    assert_int_equal(key->layout, PARAM_TILES);
    assert_int_equal(key->offset + key->size, weights_param(&table, 2, LAYER_VALUE)->offset);
    assert_true(key->decay && !weights_param(&table, 2, LAYER_NORM2)->decay &&
                !weights_param(&table, 3, HEAD_OUTPUT_BIAS)->decay);
    assert_string_equal(weights_param(&table, 3, HEAD_DENSE)->name, "bert.pooler.dense.weight");
    param_table_release(&table);
    config = config_small_spans(MODEL_BERT, 32);
    assert_ok(weights_table(&table, &config));
    assert_int_equal(table.buckets[3].n, QA_PARAMS);
    assert_string_equal(weights_param(&table, 3, QA_OUTPUT)->name, "qa_outputs.weight");
    assert_string_equal(weights_param(&table, 3, QA_OUTPUT_BIAS)->name, "qa_outputs.bias");
    assert_int_equal(weights_param(&table, 3, QA_OUTPUT)->shape[0], 2);
    assert_true(weights_param(&table, 3, QA_OUTPUT)->decay && !weights_param(&table, 3, QA_OUTPUT_BIAS)->decay);
    param_table_release(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names),        cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_new_head),     cmocka_unit_test(test_labels),
                                       cmocka_unit_test(test_save),         cmocka_unit_test(test_random),
                                       cmocka_unit_test(test_random_equal), cmocka_unit_test(test_threads),
                                       cmocka_unit_test(test_table),        cmocka_unit_test(test_answers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
