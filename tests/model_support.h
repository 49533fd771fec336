// SPDX-License-Identifier: Apache-2.0
// What the tests of model/ share: a model on its feet with weights, gradients and a pass; batches from lists of ids or
// at random.
#ifndef FINETUNED_TESTS_MODEL_SUPPORT_H
#define FINETUNED_TESTS_MODEL_SUPPORT_H

#include "support.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/pool.h"
#include "base/rng.h"
#include "data/batch.h"
#include "model/config.h"
#include "model/ops.h"
#include "model/pass.h"
#include "model/safetensors.h"
#include "model/weights.h"

#include <jansson.h>
#include <math.h>

struct rig {
    struct model_config config;
    struct param_table table;
    struct arena arenas[2];
    float *weights, *gradients, *copy; // copy: of the weights in bf16, for a pass in bf16
    struct pool *pool;
    struct pass *pass;
};

// All weights of a Hugging Face folder.
static inline enum status rig_load(const struct rig *rig, float *arena, struct weights_report *report,
                                   const struct model_config *base, const char *folder, uint64_t seed) {
    struct weight_files files;
    TRY(weight_files_open(&files, folder));
    enum status status = weights_load(arena, report, &rig->table, &rig->config, base, &files, seed, rig->pool);
    weight_files_close(&files);
    return status;
}

// A model of `config` (taken over) with nothing in its weights yet.
static inline void rig_init(struct rig *rig, struct model_config *config) {
    *rig = (struct rig){.config = *config};
    *config = (struct model_config){0};
    assert_ok(weights_table(&rig->table, &rig->config));
    for (int i = 0; i < 2; i++)
        assert_ok(arena_init(&rig->arenas[i], rig->table.floats * sizeof(float), false));
    rig->weights = arena_take(&rig->arenas[0], rig->table.floats * sizeof(float));
    rig->gradients = arena_take(&rig->arenas[1], rig->table.floats * sizeof(float));
}

// A Hugging Face folder.
static inline void rig_read(struct rig *rig, const char *folder) {
    struct model_config config, base;
    struct weights_report report;
    assert_ok(model_config_read(&config, folder));
    assert_ok(model_config_copy(&base, &config));
    rig_init(rig, &config);
    assert_ok(rig_load(rig, rig->weights, &report, &base, folder, 1));
    model_config_release(&base);
}

static inline void rig_pass_close(struct rig *rig) {
    pass_close(rig->pass);
    rig->pass = NULL;
    free(rig->copy);
    rig->copy = NULL;
    if (rig->pool)
        pool_close(rig->pool);
    rig->pool = NULL;
}

// The bf16 copy of the weights as they are now.
static inline void rig_copy(struct rig *rig, const struct ops *ops) {
    rig->copy = malloc((rig->table.pairs + 1) * sizeof *rig->copy);
    assert_non_null(rig->copy);
    for (size_t i = 0; i < rig->table.n; i++) {
        const struct param *param = &rig->table.at[i];
        const uint64_t k = param->shape[1], blocks = param->layout == PARAM_TILES ? param->size / (k * PARAM_TILE) : 0;
        for (uint64_t b = 0; b < blocks; b++)
            ops->pairs_tile(rig->copy + param->pairs + b * param_pairs(param),
                            rig->weights + param->offset + b * k * PARAM_TILE, k);
    }
    pass_copy(rig->pass, rig->copy);
}

static inline void rig_pass_open(struct rig *rig, enum isa isa, unsigned threads, const struct pass_options *options) {
    rig_pass_close(rig);
    assert_ok(pool_open(&rig->pool, threads));
    assert_ok(pass_open(&rig->pass, &rig->config, &rig->table, rig->pool, ops_table(isa), options));
    if (options->bf16)
        rig_copy(rig, ops_table(isa));
}

static inline void rig_close(struct rig *rig) {
    rig_pass_close(rig);
    arena_release(&rig->arenas[0]);
    arena_release(&rig->arenas[1]);
    param_table_release(&rig->table);
    model_config_release(&rig->config);
}

static inline void rig_forward(struct rig *rig, const struct batch *batch, uint64_t key) {
    assert_ok(pass_begin(rig->pass, batch, key));
    for (unsigned l = 0; l <= rig->config.layers + 1; l++)
        layer_forward(rig->pass, rig->weights, l);
}

// Forward, loss and backward; gradients into rig->gradients. Returns the sum of the part losses times scale.
static inline double rig_step(struct rig *rig, const struct batch *batch, uint64_t key, double *part_losses,
                              float scale) {
    double loss = 0;
    rig_forward(rig, batch, key);
    pass_loss(rig->pass, part_losses, scale);
    memset(rig->gradients, 0, rig->table.buckets[0].size * sizeof(float)); // rows that are not read stay 0
    for (unsigned l = rig->config.layers + 2; l-- > 0;)
        layer_backward(rig->pass, rig->weights, rig->gradients, l);
    for (uint32_t p = 0; p < batch->parts; p++)
        loss += part_losses[p] * (double)scale;
    return loss;
}

static inline json_t *json_read(const char *folder, const char *name) {
    char path[PATH_MAX];
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    json_t *root = json_load_file(path, 0, &error);
    if (!root)
        fail_msg("%s: %s", path, error.text);
    return root;
}

// Room for everything in a list of lists of ids.
static inline void batch_room(struct batch *batch, const json_t *lists) {
    size_t tokens = 0, i;
    json_t *ids;
    json_array_foreach(lists, i, ids) {
        tokens += json_array_size(ids);
    }
    assert_ok(batch_open(batch, (uint32_t)tokens, (uint32_t)json_array_size(lists), 4096));
}

static inline void batch_add_json(struct batch *batch, const json_t *ids, const json_t *types, int32_t label) {
    static int32_t id[65536];
    static uint8_t type[65536];
    size_t n = json_array_size(ids);
    assert_true(n < 65536);
    for (size_t i = 0; i < n; i++) {
        id[i] = (int32_t)json_integer_value(json_array_get(ids, i));
        type[i] = (uint8_t)json_integer_value(json_array_get(types, i));
    }
    batch_add(batch, id, type, (uint32_t)n, label, batch->size);
}

// One part; {"ids", "token_type_ids", "labels" or "start_positions" and "end_positions"} of a batch.json or a step of
// train10.json.
static inline void batch_read(struct batch *batch, const json_t *from) {
    const json_t *lists = json_object_get(from, "ids"), *types = json_object_get(from, "token_type_ids");
    const json_t *ends = json_object_get(from, "end_positions");
    const json_t *labels = json_object_get(from, ends ? "start_positions" : "labels");
    batch_clear(batch);
    for (size_t i = 0; i < json_array_size(lists); i++) {
        batch_add_json(batch, json_array_get(lists, i), json_array_get(types, i),
                       (int32_t)json_integer_value(json_array_get(labels, i)));
        if (ends)
            batch->ends[i] = (int32_t)json_integer_value(json_array_get(ends, i));
    }
}

// Cuts a batch into a part a text, and empty ones up to a power of two.
static inline void batch_cut_single(struct batch *batch) {
    batch->parts = 1;
    while (batch->parts < batch->size)
        batch->parts *= 2;
    for (uint32_t p = 0; p <= batch->parts; p++) {
        batch->part_examples[p] = p < batch->size ? p : batch->size;
        batch->part_tokens[p] = batch->cu_seqlens[batch->part_examples[p]];
    }
}

// Texts at random, `parts` parts of 0..most texts each.
static inline void batch_random(struct batch *batch, const struct model_config *config, struct rng *rng, uint32_t parts,
                                uint32_t most, uint32_t longest) {
    int32_t ids[512];
    uint8_t types[512];
    uint32_t ends[64];
    assert_true(parts <= 64 && longest <= 512);
    batch_clear(batch);
    for (uint32_t p = 0; p < parts; p++) {
        for (uint32_t n = (uint32_t)rng_below(rng, most + 1); n > 0; n--) {
            uint32_t length = 1 + (uint32_t)rng_below(rng, longest);
            for (uint32_t i = 0; i < length; i++) {
                ids[i] = (int32_t)rng_below(rng, config->vocab);
                types[i] = (uint8_t)rng_below(rng, config->types);
            }
            int32_t label = (int32_t)rng_below(rng, config->labels);
            batch_add(batch, ids, types, length, label, (uint32_t)rng_below(rng, 1000000));
        }
        ends[p] = batch->size;
    }
    batch->parts = parts; // batch_add keeps one part's ends
    for (uint32_t p = 0; p < parts; p++) {
        batch->part_examples[p + 1] = ends[p];
        batch->part_tokens[p + 1] = batch->cu_seqlens[ends[p]];
    }
}

// A part of `from` alone.
static inline void batch_part(struct batch *batch, const struct batch *from, uint32_t part) {
    batch_clear(batch);
    for (uint32_t b = from->part_examples[part]; b < from->part_examples[part + 1]; b++) {
        uint32_t begin = from->cu_seqlens[b];
        batch_add(batch, from->ids + begin, from->types + begin, from->cu_seqlens[b + 1] - begin, from->labels[b],
                  from->examples[b]);
        batch->ends[batch->size - 1] = from->ends[b];
    }
}

// Answers at random instead of labels: question answering.
static inline void batch_answers(struct batch *batch, struct rng *rng) {
    for (uint32_t b = 0; b < batch->size; b++) {
        uint32_t length = batch->cu_seqlens[b + 1] - batch->cu_seqlens[b];
        batch->labels[b] = (int32_t)rng_below(rng, length);
        batch->ends[b] = (int32_t)rng_below(rng, length);
    }
}

// A small model with nothing round: sizes that fill no tile, dropout everywhere.
static inline struct model_config config_small(enum model_kind kind, uint32_t hidden) {
    return (struct model_config){
        .kind = kind,
        .layers = 2,
        .hidden = hidden,
        .heads = hidden % 32 == 0 ? 4 : 3,
        .ffn = hidden * 2 - 5,
        .vocab = 61,
        .max_positions = 40,
        .types = kind == MODEL_BERT ? 2 : 1,
        .labels = 3,
        .pad_id = kind == MODEL_BERT ? 0 : 1,
        .bos_id = -1,
        .eos_id = -1,
        .layer_norm_eps = 1e-5,
        .initializer_range = 0.3,
        .dropout_hidden = 0.15,
        .dropout_attention = 0.2,
        .dropout_classifier = 0.25,
    };
}

static inline struct model_config config_small_spans(enum model_kind kind, uint32_t hidden) {
    struct model_config config = config_small(kind, hidden);
    config.head = HEAD_QUESTION_ANSWERING;
    config.labels = 2;
    return config;
}

// Weights at random with biases and LayerNorm weights that are not trivial.
static inline void rig_random(struct rig *rig, uint64_t seed) {
    struct rng rng = rng_stream(seed, 99);
    assert_ok(weights_random(rig->weights, &rig->table, &rig->config, seed, NULL, ops_table(ISA_PLAIN)));
    for (size_t i = 0; i < rig->table.n; i++)
        for (uint64_t k = 0; rig->table.at[i].layout == PARAM_VECTOR && k < rig->table.at[i].shape[0]; k++)
            rig->weights[rig->table.at[i].offset + k] += (float)(0.2 * rng_normal(&rng));
}

// A parameter in Hugging Face's layout; free it.
static inline float *param_values(const float *arena, const struct param *param) {
    float *out = malloc(param_elements(param) * sizeof *out);
    assert_non_null(out);
    param_read_rows(out, arena, param, 0, param->shape[0]);
    return out;
}

#endif
