// SPDX-License-Identifier: Apache-2.0
// The plan is one list of buffers (plan_all), walked twice: once to add up sizes, once to hand out memory.
#include "model/activations.h"

#include "model/ops.h"
#include "model/pass_state.h"

#include <stdlib.h>

struct plan {
    struct arena *arena; // NULL: only add up
    size_t bytes;
    bool overflow;
};

static void *piece(struct plan *plan, size_t rows, size_t columns, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(rows, columns, &bytes) || __builtin_mul_overflow(bytes, size, &bytes) ||
        bytes > SIZE_MAX / 4 || plan->bytes > SIZE_MAX / 4)
        plan->overflow = true;
    else
        plan->bytes += arena_piece(bytes);
    return plan->arena ? arena_take(plan->arena, bytes) : NULL;
}

static float *floats(struct plan *plan, size_t rows, size_t columns) {
    return piece(plan, rows, columns, sizeof(float));
}

// A row's bf16 pairs.
static float *pairs(struct plan *plan, size_t rows, size_t columns) {
    return floats(plan, rows, columns / 2 + columns % 2);
}

static struct norm_activations plan_norm(struct plan *plan, size_t rows, size_t hidden, bool training) {
    return (struct norm_activations){
        .x = floats(plan, rows, hidden),
        .mean = floats(plan, rows, 1),
        .rstd = floats(plan, rows, 1),
        .kept = piece(plan, training ? rows : 0, dropout_stride(hidden), sizeof(uint16_t)),
    };
}

// Rows that lie a multiple of 4 KiB apart, as F = 3072 would have it, all begin in the same set of a core's first
// cache, and the rows of a product's piece would drive each other out: they get a line more.
static size_t ffn_stride(size_t ffn) {
    return ffn * sizeof(float) % 4096 == 0 ? ffn + 64 / sizeof(float) : ffn;
}

// `one`: context, middle and gelu too, which layers of a pass in bf16 share.
static struct layer_activations plan_layer(struct plan *plan, size_t tokens, size_t rows,
                                           const struct model_config *config, bool training, bool one) {
    size_t hidden = config->hidden, ffn = config->ffn, own = one ? rows : 0;
    return (struct layer_activations){
        .heads = floats(plan, tokens, 3 * hidden),
        .context = floats(plan, own, hidden),
        .norm1 = plan_norm(plan, rows, hidden, training),
        .middle = floats(plan, own, hidden),
        .slope = floats(plan, rows, ffn_stride(ffn)),
        .gelu = floats(plan, own, ffn_stride(ffn)),
        .norm2 = plan_norm(plan, rows, hidden, training),
    };
}

// Inputs of linear layers kept as pairs: the floats of the layer before are free again.
static void plan_layer_kept(struct layer_activations *layer, const struct layer_activations *before, struct plan *plan,
                            size_t rows, const struct model_config *config) {
    layer->context = before->context;
    layer->middle = before->middle;
    layer->gelu = before->gelu;
    layer->context16 = pairs(plan, rows, config->hidden);
    layer->middle16 = pairs(plan, rows, config->hidden);
    layer->gelu16 = pairs(plan, rows, config->ffn);
}

static void plan_layers(struct activations *out, struct plan *plan, const struct model_config *config,
                        const struct pass_options *options) {
    const size_t tokens = options->max_tokens;
    const bool kept = options->training && options->bf16;
    for (unsigned l = 1; l <= config->layers; l++) {
        const bool first = options->rows == PASS_FIRST && l == config->layers;
        const size_t rows = first && options->training ? options->max_examples : tokens;
        if (options->training || l == 1)
            out->layers[l] = plan_layer(plan, tokens, rows, config, options->training, !kept);
        else
            out->layers[l] = out->layers[1];
        if (kept)
            plan_layer_kept(&out->layers[l], &out->layers[0], plan, rows, config);
        out->hidden16[l] = kept && l < config->layers ? pairs(plan, tokens, config->hidden) : NULL;
        out->hidden[l] = kept && l >= 2 && !first
                             ? out->hidden[l - 2]
                             : floats(plan, first ? options->max_examples : tokens, config->hidden);
    }
}

// What layers of a pass that trains in bf16 share.
static void plan_shared(struct activations *out, struct plan *plan, const struct model_config *config,
                        const struct pass_options *options) {
    const size_t tokens = options->max_tokens;
    if (!options->training || !options->bf16)
        return;
    out->layers[0].context = floats(plan, tokens, config->hidden);
    out->layers[0].middle = floats(plan, tokens, config->hidden);
    out->layers[0].gelu = floats(plan, tokens, ffn_stride(config->ffn));
    out->hidden16[0] = pairs(plan, tokens, config->hidden);
}

// Question answering has logits for every token, and no dense layer before them.
static size_t logit_rows(const struct model_config *config, const struct pass_options *options) {
    return config->head == HEAD_QUESTION_ANSWERING ? options->max_tokens : options->max_examples;
}

static size_t dense_rows(const struct model_config *config, const struct pass_options *options) {
    return config->head == HEAD_QUESTION_ANSWERING ? 0 : options->max_examples;
}

static void plan_backward(struct activations *out, struct plan *plan, const struct model_config *config,
                          const struct pass_options *options) {
    size_t tokens = options->max_tokens, hidden = config->hidden;
    out->dlogits = floats(plan, logit_rows(config, options), config->labels);
    out->dpooled = floats(plan, dense_rows(config, options), hidden);
    out->dhidden = floats(plan, tokens, hidden);
    out->drows = floats(plan, tokens, hidden);
    out->dspare = floats(plan, tokens, hidden);
    out->dheads = floats(plan, tokens, 3 * hidden);
    out->dffn = floats(plan, tokens, ffn_stride(config->ffn));
    out->order = piece(plan, tokens, 1, sizeof *out->order);
    out->keys = piece(plan, tokens, 1, sizeof *out->keys);
    out->spare = piece(plan, tokens, 1, sizeof *out->spare);
    out->starts = piece(plan, tokens + 1, 1, sizeof *out->starts);
}

static void plan_all(struct activations *out, struct plan *plan, const struct model_config *config,
                     const struct pass_options *options, unsigned threads) {
    size_t tokens = options->max_tokens, examples = options->max_examples, hidden = config->hidden;
    size_t dense = dense_rows(config, options);
    out->ffn_stride = ffn_stride(config->ffn);
    out->hidden[0] = floats(plan, tokens, hidden);
    out->norm0 = plan_norm(plan, tokens, hidden, false);
    plan_shared(out, plan, config, options);
    plan_layers(out, plan, config, options);
    out->first = floats(plan, examples, hidden);
    out->pooled = floats(plan, dense, hidden);
    out->tanh = floats(plan, dense, hidden);
    out->dropped = floats(plan, dense, hidden);
    out->logits = floats(plan, logit_rows(config, options), config->labels);
    out->losses = piece(plan, examples, 1, sizeof *out->losses);
    out->scratch = floats(plan, threads, out->scratch_floats);
    if (options->training)
        plan_backward(out, plan, config, options);
}

// A thread's scratch: one attention segment, or the partial sums of an embedding row. Whole cache lines.
static size_t scratch_floats(const struct model_config *config, const struct pass_options *options) {
    size_t attention = attention_scratch(options->max_length, config->hidden / config->heads);
    size_t rows = (size_t)PARTS_LEVELS * config->hidden;
    size_t most = attention > rows ? attention : rows;
    return (most + 15) / 16 * 16;
}

enum status activations_open(struct activations *out, const struct model_config *config,
                             const struct pass_options *options, unsigned threads) {
    *out = (struct activations){.scratch_floats = scratch_floats(config, options)};
    out->hidden = calloc(config->layers + 1, sizeof *out->hidden);
    out->hidden16 = calloc(config->layers + 1, sizeof *out->hidden16);
    out->layers = calloc(config->layers + 1, sizeof *out->layers);
    struct plan measure = {0}, give = {.arena = &out->arena};
    enum status status = STATUS_OK;
    if (!out->hidden || !out->hidden16 || !out->layers)
        status = status_set(STATUS_SYSTEM, "activations: no memory");
    if (status == STATUS_OK) {
        plan_all(out, &measure, config, options, threads);
        status = measure.overflow
                     ? status_set(STATUS_USAGE, "activations: train.max_tokens %u is too large for this model",
                                  options->max_tokens)
                     : arena_init(&out->arena, measure.bytes, true);
    }
    if (status == STATUS_OK)
        plan_all(out, &give, config, options, threads);
    else
        activations_close(out);
    return status;
}

void activations_close(struct activations *activations) {
    arena_release(&activations->arena);
    free(activations->hidden);
    free(activations->hidden16);
    free(activations->layers);
    *activations = (struct activations){0};
}
