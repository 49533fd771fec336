// SPDX-License-Identifier: Apache-2.0
// Opening a pass, checking what goes in, and which file runs which layer.
#include "model/pass.h"

#include "model/pass_state.h"

#include <assert.h>
#include <stdlib.h>

static size_t most(size_t a, size_t b) {
    return a > b ? a : b;
}

static unsigned head_params(const struct model_config *config) {
    return config->head == HEAD_QUESTION_ANSWERING ? (unsigned)QA_PARAMS : (unsigned)HEAD_PARAMS;
}

static enum status options_check(const struct model_config *config, const struct param_table *table,
                                 const struct pass_options *options) {
    if (options->max_tokens == 0 || options->max_tokens > INT32_MAX || options->max_examples == 0 ||
        options->max_length == 0)
        return status_set(STATUS_ARGUMENT, "pass: no room (%u tokens, %u examples, %u tokens a text)",
                          options->max_tokens, options->max_examples, options->max_length);
    if (options->max_length > model_usable_length(config))
        return status_set(STATUS_USAGE,
                          "data.max_length: %u, but this model takes at most %u tokens, special ones included",
                          options->max_length, model_usable_length(config));
    if (table->n_buckets != config->layers + 2 || table->buckets[0].n != EMBEDDING_PARAMS ||
        table->buckets[1].n != LAYER_PARAMS || table->buckets[config->layers + 1].n != head_params(config))
        return status_set(STATUS_ARGUMENT, "pass: the parameter table is not this model's");
    if (config->head == HEAD_QUESTION_ANSWERING && options->rows != PASS_ALL)
        return status_set(STATUS_ARGUMENT, "pass: question answering reads all rows of the last layer");
    return STATUS_OK;
}

static enum status products_open(struct pass *pass) {
    const struct model_config *config = pass->config;
    const size_t width = most(config->ffn, most(3 * (size_t)config->hidden, config->labels));
    const struct gemm16_room room = {pass->options.max_tokens, width, pass->options.max_parts,
                                     config->hidden % 2 || config->ffn % 2};
    if (pass->options.bf16)
        return gemm16_open(&pass->gemm16, pass->pool, pass->ops, &room);
    return gemm_open(&pass->gemm, pass->pool, pass->ops);
}

enum status pass_open(struct pass **out, const struct model_config *config, const struct param_table *table,
                      struct pool *pool, const struct ops *ops, const struct pass_options *options) {
    *out = NULL;
    TRY(options_check(config, table, options));
    struct pass *pass = calloc(1, sizeof *pass);
    if (!pass)
        return status_set(STATUS_SYSTEM, "pass: no memory");
    *pass = (struct pass){.config = config, .table = table, .pool = pool, .ops = ops, .options = *options};
    if (pass->options.max_examples > options->max_tokens) // a text has a token at least
        pass->options.max_examples = options->max_tokens;
    if (pass->options.max_parts == 0)
        pass->options.max_parts = PASS_PARTS_MAX;
    enum status status = activations_open(&pass->act, config, &pass->options, pool_threads(pool));
    if (status == STATUS_OK)
        status = products_open(pass);
    if (status == STATUS_OK)
        *out = pass;
    else
        pass_close(pass);
    return status;
}

void pass_close(struct pass *pass) {
    if (!pass)
        return;
    gemm_close(pass->gemm);
    gemm16_close(pass->gemm16);
    activations_close(&pass->act);
    free(pass);
}

uint64_t pass_bytes(const struct pass *pass) {
    return pass->act.arena.size + (pass->gemm16 ? gemm16_bytes(pass->gemm16) : 0);
}

const struct ops *pass_ops(const struct pass *pass) {
    return pass->ops;
}

void pass_use(struct pass *pass, const struct ops *ops) {
    pass->ops = ops;
    if (pass->gemm16)
        gemm16_use(pass->gemm16, ops);
    else
        gemm_use(pass->gemm, ops);
}

void pass_copy(struct pass *pass, const float *copy) {
    pass->copy = copy;
}

static enum status room_check(const struct pass *pass, const struct batch *batch) {
    const struct pass_options *room = &pass->options;
    if (batch->tokens > room->max_tokens || batch->size > room->max_examples)
        return status_set(STATUS_DATA, "batch: %u tokens in %u texts; there is room for %u in %u", batch->tokens,
                          batch->size, room->max_tokens, room->max_examples);
    if (batch->parts == 0 || batch->parts > room->max_parts || (batch->parts & (batch->parts - 1)))
        return status_set(STATUS_ARGUMENT, "batch: %u parts are no power of two up to %u", batch->parts,
                          room->max_parts);
    return STATUS_OK;
}

// Part p's texts are part_examples[p..p+1), and its tokens are theirs.
static enum status parts_check(const struct batch *batch) {
    bool good = batch->cu_seqlens[0] == 0 && batch->cu_seqlens[batch->size] == batch->tokens &&
                batch->part_examples[0] == 0 && batch->part_examples[batch->parts] == batch->size;
    for (uint32_t p = 0; good && p <= batch->parts; p++)
        good = batch->part_examples[p] <= batch->size &&
               (p == 0 || batch->part_examples[p - 1] <= batch->part_examples[p]) &&
               batch->part_tokens[p] == batch->cu_seqlens[batch->part_examples[p]];
    return good ? STATUS_OK : status_set(STATUS_ARGUMENT, "batch: its parts are not cut between texts");
}

static enum status tokens_check(const struct pass *pass, const struct batch *batch, uint32_t b) {
    const struct model_config *config = pass->config;
    uint32_t usable = model_usable_length(config), example = batch->examples[b];
    for (uint32_t t = batch->cu_seqlens[b]; t < batch->cu_seqlens[b + 1]; t++) {
        if (batch->ids[t] < 0 || (uint32_t)batch->ids[t] >= config->vocab)
            return status_set(STATUS_DATA, "example %u: token id %d is outside the model's vocabulary of %u", example,
                              batch->ids[t], config->vocab);
        if (batch->types[t] >= config->types)
            return status_set(STATUS_DATA, "example %u: token type %u, the model has %u", example, batch->types[t],
                              config->types);
        if (batch->positions[t] < 0 || (uint32_t)batch->positions[t] >= usable)
            return status_set(STATUS_DATA, "example %u: position %d, the model has %u", example, batch->positions[t],
                              usable);
    }
    return STATUS_OK;
}

// An answer is two tokens of its example, in any order; or both are -1.
static enum status answer_check(const struct batch *batch, uint32_t b) {
    int64_t length = (int64_t)batch->cu_seqlens[b + 1] - batch->cu_seqlens[b];
    int32_t first = batch->labels[b], last = batch->ends[b];
    if (first < -1 || last < -1 || first >= length || last >= length || (first < 0) != (last < 0))
        return status_set(STATUS_DATA, "example %u: its answer is tokens %d to %d, it has %lld", batch->examples[b],
                          first, last, (long long)length);
    return STATUS_OK;
}

static enum status label_check(const struct pass *pass, const struct batch *batch, uint32_t b) {
    if (pass->config->head == HEAD_QUESTION_ANSWERING)
        return answer_check(batch, b);
    if (batch->labels[b] < -1 || batch->labels[b] >= (int64_t)pass->config->labels)
        return status_set(STATUS_DATA, "example %u: label %d is outside the model's %u", batch->examples[b],
                          batch->labels[b], pass->config->labels);
    return STATUS_OK;
}

static enum status example_check(const struct pass *pass, const struct batch *batch, uint32_t b) {
    uint32_t begin = batch->cu_seqlens[b], end = batch->cu_seqlens[b + 1], example = batch->examples[b];
    if (end <= begin || end > batch->tokens)
        return status_set(STATUS_DATA, "example %u: no tokens", example);
    if (end - begin > pass->options.max_length)
        return status_set(STATUS_DATA,
                          "example %u: %u tokens are above the %u that this pass takes (the model's limit: %u)",
                          example, end - begin, pass->options.max_length, model_usable_length(pass->config));
    TRY(label_check(pass, batch, b));
    return tokens_check(pass, batch, b);
}

enum status pass_begin(struct pass *pass, const struct batch *batch, uint64_t dropout_key) {
    bool labelled = true;
    TRY(room_check(pass, batch));
    for (uint32_t b = 0; b < batch->size; b++) {
        TRY(example_check(pass, batch, b));
        labelled = labelled && batch->labels[b] >= 0;
    }
    TRY(parts_check(batch));
    pass->batch = batch;
    pass->dropout_key = dropout_key;
    pass->labelled = labelled;
    return STATUS_OK;
}

void pass_squares(struct pass *pass, double *squares) {
    pass->squares = squares;
}

void layer_forward(struct pass *pass, const float *weights, unsigned l) {
    assert(pass->batch && l <= pass->config->layers + 1 && !pass->gemm16 == !pass->copy);
    if (l == 0)
        embeddings_forward(pass, weights);
    else if (l <= pass->config->layers)
        encoder_forward(pass, weights, l);
    else if (pass->config->head == HEAD_QUESTION_ANSWERING)
        head_spans_forward(pass, weights);
    else
        head_forward(pass, weights);
}

void layer_backward(struct pass *pass, const float *weights, float *gradients, unsigned l) {
    assert(pass->batch && pass->options.training && l <= pass->config->layers + 1);
    if (l == 0)
        embeddings_backward(pass, weights, gradients);
    else if (l <= pass->config->layers)
        encoder_backward(pass, weights, gradients, l);
    else if (pass->config->head == HEAD_QUESTION_ANSWERING)
        head_spans_backward(pass, weights, gradients);
    else
        head_backward(pass, weights, gradients);
}

const float *pass_logits(const struct pass *pass) {
    return pass->act.logits;
}

const float *pass_hidden(const struct pass *pass, unsigned l) {
    assert(l <= pass->config->layers);
    return pass->act.hidden[l];
}
