// SPDX-License-Identifier: Apache-2.0
// Every model of golden/models through the Hugging Face export: names, shapes and values of all tensors,
// config.json, and the logits of what was written, against golden.
#include "model_support.h"

#include "base/file.h"
#include "export/export.h"
#include "model/model.h"

// Keys of config.json that decide about the model; Transformers fills in the rest.
static const char *const keys[] = {
    "model_type", "hidden_size",    "num_hidden_layers",   "num_attention_heads",         "intermediate_size",
    "vocab_size", "layer_norm_eps", "pad_token_id",        "max_position_embeddings",     "type_vocab_size",
    "hidden_act", "architectures",  "hidden_dropout_prob", "attention_probs_dropout_prob"};

static void config_same(const char *written, const char *golden) {
    json_t *got = json_read(written, "config.json"), *want = json_read(golden, "config.json");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_equal(json_object_get(got, keys[i]), json_object_get(want, keys[i])))
            fail_msg("%s: config.json: %s differs", golden, keys[i]);
    json_t *names = json_object_get(want, "id2label");
    if (names && !json_equal(json_object_get(got, "id2label"), names))
        fail_msg("%s: id2label differs", golden);
    json_decref(got);
    json_decref(want);
}

static void tensors_same(const char *written, const char *golden) {
    struct safetensors got, want;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/model.safetensors", written);
    assert_ok(safetensors_open(&got, path));
    snprintf(path, sizeof path, "%s/model.safetensors", golden);
    assert_ok(safetensors_open(&want, path));
    assert_int_equal(got.n, want.n);
    for (size_t i = 0; i < want.n; i++) { // both sorted by name
        assert_string_equal(got.at[i].name, want.at[i].name);
        assert_int_equal(got.at[i].rank, want.at[i].rank);
        assert_memory_equal(got.at[i].shape, want.at[i].shape, want.at[i].rank * sizeof *want.at[i].shape);
        assert_int_equal(got.at[i].dtype, TENSOR_F32);
        assert_memory_equal(got.at[i].data, want.at[i].data, want.at[i].elements * sizeof(float));
    }
    safetensors_close(&got);
    safetensors_close(&want);
}

// Column `column` of the logits (rows, labels).
static void column_same(const struct rig *rig, const struct safetensors *expected, const char *name, uint64_t rows,
                        uint32_t column) {
    const struct tensor *logits = safetensors_find(expected, name);
    assert_non_null(logits);
    uint64_t columns = logits->elements / rows; // question answering has a tensor a column
    assert_int_equal(logits->elements, rows * columns);
    for (uint64_t i = 0; i < rows; i++) {
        double want;
        tensor_doubles(&want, logits, i * columns + (columns > 1 ? column : 0), 1);
        assert_near((double)pass_logits(rig->pass)[i * rig->config.labels + column], want, 1e-5, 1e-5);
    }
}

static void logits_same(const struct model *model, const char *golden) {
    struct safetensors expected;
    struct rig rig = {.config = model->config, .table = model->table, .weights = model->weights};
    struct batch batch;
    char path[PATH_MAX];
    json_t *from = json_read(golden, "batch.json");
    snprintf(path, sizeof path, "%s/expected.safetensors", golden);
    assert_ok(safetensors_open(&expected, path));
    batch_room(&batch, json_object_get(from, "ids"));
    batch_read(&batch, from);
    struct pass_options options = {batch.tokens, batch.size, batch.longest, pass_rows_of(&model->config), false,
                                   false,        0};
    rig_pass_open(&rig, isa_best(), 2, &options);
    rig_forward(&rig, &batch, 0);
    bool spans = model->config.head == HEAD_QUESTION_ANSWERING;
    for (uint32_t c = 0; c < model->config.labels; c++)
        column_same(&rig, &expected,
                    !spans   ? "logits"
                    : c == 0 ? "start_logits"
                             : "end_logits",
                    spans ? batch.tokens : batch.size, c);
    rig_pass_close(&rig);
    batch_close(&batch);
    safetensors_close(&expected);
    json_decref(from);
}

static enum status forbidden(const void *context) {
    (void)context;
    return status_set(STATUS_AGAIN, "not any more");
}

static void model_exported(const char *golden) {
    struct rig rig;
    struct pool *pool;
    struct tokenizer *tokenizer;
    struct model model;
    struct export_result result = {0};
    char *folder = support_folder(), *out = path_join(folder, "model");
    rig_read(&rig, golden);
    assert_ok(pool_open(&pool, 1));
    assert_ok(tokenizer_open_bytes(&tokenizer));
    struct export_model what = {
        .config = &rig.config, .table = &rig.table, .weights = rig.weights, .tokenizer = tokenizer, .name = "golden"};
    for (int again = 0; again < 2; again++) { // the second time it replaces the first
        assert_ok(export_hf_directory(&result, &what, out, pool));
        export_result_release(&result);
    }
    // who holds the folder no more publishes nothing
    char *names = path_join(folder, "others"), **left;
    size_t n_left;
    what.may = forbidden;
    assert_ok(file_make_folders(names));
    char *other = path_join(names, "model"), *archive = path_join(names, "a-hf.tar.gz");
    assert_status(export_hf_directory(&result, &what, other, pool), STATUS_AGAIN);
    assert_status(export_archive(&result, &what, archive, NULL, pool), STATUS_AGAIN);
    assert_ok(file_list(&left, &n_left, names));
    assert_int_equal(n_left, 0);
    file_list_free(left, n_left);
    free(archive);
    free(other);
    free(names);
    what.may = NULL;
    tensors_same(out, golden);
    config_same(out, golden);
    assert_ok(model_open(&model, out, NULL));
    logits_same(&model, golden);
    model_close(&model);
    tokenizer_close(tokenizer);
    pool_close(pool);
    rig_close(&rig);
    assert_ok(file_remove(folder));
    free(out);
    free(folder);
}

static void test_golden(void **state) {
    (void)state;
    const char *root = support_path("FINETUNED_GOLDEN", "models");
    char **names;
    size_t n, done = 0;
    SUPPORT_NEED(root, "FINETUNED_GOLDEN/models");
    char *models = strdup(root);
    assert_ok(file_list(&names, &n, models));
    for (size_t i = 0; i < n; i++) {
        char *golden = path_join(models, names[i]);
        fprintf(stderr, "%s\n", names[i]);
        model_exported(golden);
        done++;
        free(golden);
    }
    assert_true(done > 0);
    file_list_free(names, n);
    free(models);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
