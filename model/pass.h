// SPDX-License-Identifier: Apache-2.0
// Forward and backward over one packed batch, a layer at a time. Layers l: 0 = embeddings, 1..L = the encoder's layers,
// L+1 = the head: the same numbers as the parameter table's buckets. The model knows nothing of ranks.
#ifndef FINETUNED_MODEL_PASS_H
#define FINETUNED_MODEL_PASS_H

#include "base/param.h"
#include "base/pool.h"
#include "base/row_set.h"
#include "data/batch.h"
#include "model/config.h"
#include "model/ops.h"

#include <stdbool.h>
#include <stdint.h>

// Which rows the last encoder layer computes: the <s> rows (classification only), or all.
enum pass_rows { PASS_FIRST, PASS_ALL };
// What the model's head reads.
static inline enum pass_rows pass_rows_of(const struct model_config *config) {
    return config->head == HEAD_QUESTION_ANSWERING ? PASS_ALL : PASS_FIRST;
}

struct pass_options {
    uint32_t max_tokens, max_examples, max_length; // of any batch it will see
    enum pass_rows rows;
    bool training;      // memory for backward; dropout
    bool bf16;          // products of linear layers in bf16 (model/gemm16.h), of the weights' copy (pass_copy)
    uint32_t max_parts; // of any batch; 0: PASS_PARTS_MAX
};

#define PASS_PARTS_MAX 4096u // parts of one batch

struct pass;

// Plans and allocates the activation arena (sizes by pass_bytes). `config` and `table` are borrowed. Question answering
// with PASS_FIRST: STATUS_ARGUMENT.
enum status pass_open(struct pass **out, const struct model_config *config, const struct param_table *table,
                      struct pool *pool, const struct ops *ops, const struct pass_options *options);
void pass_close(struct pass *pass);
uint64_t pass_bytes(const struct pass *pass); // of the activation arena, mapped
const struct ops *pass_ops(const struct pass *pass);
void pass_use(struct pass *pass, const struct ops *ops); // from now on these ops: a decorator of the same set

// The bf16 copy of the weights that a pass in bf16 reads from now on (table->pairs; optim/optimizer.h); borrowed. It
// must be up to date with the weights of each layer that is run.
void pass_copy(struct pass *pass, const float *copy);

// Starts a batch. Ids, positions and lengths are checked here against the model (STATUS_DATA, never read out of range).
// dropout_key 0: no dropout (evaluation). Borrows `batch` until the next one.
enum status pass_begin(struct pass *pass, const struct batch *batch, uint64_t dropout_key);

void layer_forward(struct pass *pass, const float *weights, unsigned l);
// Adds to `rows` those of the embeddings that a text of n tokens reads.
void embeddings_read(struct row_set *rows, const struct param_table *table, const struct model_config *config,
                     const int32_t *ids, const uint8_t *types, uint32_t n);
// After layer L+1: logits (B, labels); question answering: (T, 2), a row a token: start, end.
const float *pass_logits(const struct pass *pass);
// Rows of hidden state l (0 = after the embedding LayerNorm, k = after layer k), (T, hidden); with PASS_FIRST the last
// is (B, hidden). Of a pass that trains in bf16 only the last two are still there.
const float *pass_hidden(const struct pass *pass, unsigned l);

// What pass_loss asks for instead of the labels alone (label smoothing, class weights); borrowed, NULL: nothing else.
void pass_targets(struct pass *pass, const struct targets *targets);
// Cross entropy. part_losses[p] (double, P = batch->parts): the sum over the examples of part p, in order. dlogits =
// (softmax - onehot) * scale, kept for layer_backward; `scale` is 1 / the weight of the global batch (its examples, or
// with class weights the sum of those of its labels). Question answering: an example's loss is the mean of its first
// and its last token's (batch->labels, batch->ends), see ops.h, span_loss; targets don't apply.
void pass_loss(struct pass *pass, double *part_losses, float scale);

// From now on layer_backward writes the sums of squares of the matrices' pieces (param_sum; table->sums doubles) there,
// while they are in cache. NULL: not wanted.
void pass_squares(struct pass *pass, double *squares);
// Gradients of layer l's parameters are written (not added) into the arena `gradients`: the tree over this batch's
// parts. Order: L+1 .. 0. Rows of embeddings that the batch does not read are left as they are.
void layer_backward(struct pass *pass, const float *weights, float *gradients, unsigned l);

#endif
