// SPDX-License-Identifier: Apache-2.0
// The real all-MiniLM-L6-v2 weights give golden/minilm_real: mean of the last hidden states (normalised), the first
// one, and cosines.
#include "model_support.h"

#include "base/hash.h"

#define ITEMS_MAX 64

static const char *folder, *golden;

// The embedding of one item: the mean of its rows of the last hidden state, of length 1.
static void embedding(double *out, const float *rows, uint32_t n, uint32_t hidden) {
    double norm = 0;
    for (uint32_t c = 0; c < hidden; c++) {
        out[c] = 0;
        for (uint32_t r = 0; r < n; r++)
            out[c] += (double)rows[(size_t)r * hidden + c] / n;
        norm += out[c] * out[c];
    }
    for (uint32_t c = 0; c < hidden; c++)
        out[c] /= sqrt(norm);
}

static void floats_check(const double *got, const json_t *want, uint32_t n, double bound) {
    assert_int_equal(json_array_size(want), n);
    for (uint32_t i = 0; i < n; i++)
        assert_near(got[i], json_number_value(json_array_get(want, i)), bound, 0);
}

static void item_check(double *out, struct rig *rig, struct batch *batch, uint32_t b, const json_t *item) {
    uint32_t hidden = rig->config.hidden;
    double first[1024];
    const float *rows = pass_hidden(rig->pass, rig->config.layers) + (size_t)batch->cu_seqlens[b] * hidden;
    assert_true(hidden <= 1024);
    for (uint32_t c = 0; c < hidden; c++)
        first[c] = (double)rows[c];
    embedding(out, rows, batch->cu_seqlens[b + 1] - batch->cu_seqlens[b], hidden);
    floats_check(first, json_object_get(item, "cls"), hidden, 3e-5);
    floats_check(out, json_object_get(item, "embedding"), hidden, 5e-6);
}

static void cosines_check(const double *embeddings, const json_t *want, size_t n, uint32_t hidden) {
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double dot = 0;
            for (uint32_t c = 0; c < hidden; c++)
                dot += embeddings[i * hidden + c] * embeddings[j * hidden + c];
            assert_near(dot, json_number_value(json_array_get(json_array_get(want, i), j)), 1e-5, 0);
        }
}

static void rig_check(struct rig *rig, const json_t *expected, enum isa isa) {
    const json_t *items = json_object_get(expected, "items");
    size_t n = json_array_size(items);
    json_t *lists = json_array();
    struct batch batch;
    for (size_t i = 0; i < n; i++)
        json_array_append(lists, json_object_get(json_array_get(items, i), "ids"));
    batch_room(&batch, lists);
    batch_clear(&batch);
    for (size_t i = 0; i < n; i++)
        batch_add_json(&batch, json_array_get(lists, i), NULL, -1);
    struct pass_options options = {batch.tokens, batch.size, batch.longest, PASS_ALL, false, false, 0};
    rig_pass_open(rig, isa, 2, &options);
    rig_forward(rig, &batch, 0);
    double *embeddings = calloc(n * rig->config.hidden, sizeof *embeddings);
    assert_non_null(embeddings);
    for (size_t i = 0; i < n; i++)
        item_check(embeddings + i * rig->config.hidden, rig, &batch, (uint32_t)i, json_array_get(items, i));
    cosines_check(embeddings, json_object_get(expected, "cosine"), n, rig->config.hidden);
    free(embeddings);
    batch_close(&batch);
    json_decref(lists);
}

static void test_hidden(void **state) {
    (void)state;
    struct rig rig;
    char sum[65];
    json_t *expected = json_read(golden, "expected.json");
    char *weights = path_join(folder, "model.safetensors");
    assert_ok(hash_sha256_file(sum, weights));
    assert_string_equal(sum, json_string_value(json_object_get(expected, "model_safetensors_sha256")));
    rig_read(&rig, folder);
    for (enum isa isa = ISA_PLAIN; isa < ISA_COUNT; isa++)
        if (ops_table(isa))
            rig_check(&rig, expected, isa);
    rig_close(&rig);
    json_decref(expected);
    free(weights);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hidden)};
    const char *weights = support_path("FINETUNED_MINILM", "model.safetensors");
    golden = support_path("FINETUNED_GOLDEN", "minilm_real");
    folder = getenv("FINETUNED_MINILM");
    if (!weights || !golden) {
        fprintf(stderr, "SKIPPED: %s is not here\n",
                weights ? "FINETUNED_GOLDEN/minilm_real" : "FINETUNED_MINILM (./check fetches it)");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
