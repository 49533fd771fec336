// SPDX-License-Identifier: Apache-2.0
// The state of a pass, and the pieces that its files give one another. Private to model/.
#ifndef FINETUNED_MODEL_PASS_STATE_H
#define FINETUNED_MODEL_PASS_STATE_H

#include "model/activations.h"
#include "model/gemm16.h"
#include "model/pass.h"
#include "model/weights.h"

struct pass {
    const struct model_config *config;
    const struct param_table *table;
    struct pool *pool;
    const struct ops *ops;
    struct gemm *gemm;     // NULL in bf16
    struct gemm16 *gemm16; // of a pass in bf16
    const float *copy;     // of the weights, in bf16
    struct pass_options options;
    struct activations act;

    const struct targets *targets; // of the loss; NULL: the labels alone

    double *squares; // of what layer_backward writes (pass_squares); NULL: not wanted

    const struct batch *batch;
    uint64_t dropout_key; // 0: none
    bool labelled;        // every example of the batch has a label (answer)
};

// The rows that a layer computes: all tokens, or the first token of each example.
struct rows {
    uint32_t n;
    const uint32_t *parts; // [batch->parts + 1] where each part's rows begin
    bool first;
};
struct rows rows_tokens(const struct pass *pass);
struct rows rows_examples(const struct pass *pass);
struct rows rows_of_layer(const struct pass *pass, unsigned l); // the rows of hidden state l

// Dropout sites: layer * 4 + kind.
enum site {
    SITE_EMBEDDINGS = 0,
    SITE_ATTENTION = 0,
    SITE_CONTEXT = 1,
    SITE_OUTPUT = 2,
    SITE_HEAD = 0,
    SITE_HEAD_TANH = 1
};
struct dropout dropout_site(const struct pass *pass, unsigned l, enum site kind, double probability);

// Runs fn over [0, n) in blocks of fixed size, on the pool. `thread` is for pass_scratch.
typedef void block_task(void *context, size_t begin, size_t end, unsigned thread);
void blocks_run(const struct pass *pass, block_task *fn, void *context, size_t n, size_t block);
#define PARTS_LEVELS 13  // of the tree over at most 4096 parts
#define ROWS_BLOCK 16    // rows of a task
#define COLUMNS_BLOCK 64 // columns of a task
float *pass_scratch(const struct pass *pass, unsigned thread);

// Rows [begin, end) of the site's mask as bits (ops.h, dropout_bits).
void rows_bits(const struct pass *pass, uint16_t *kept, const struct rows *rows, size_t begin, size_t end, size_t c,
               const struct dropout *site);
// Rows [begin, end) of y = x with the site's mask; y may be x. (rows.n, c)
void rows_dropout(const struct pass *pass, float *y, const float *x, const struct rows *rows, size_t begin, size_t end,
                  size_t c, const struct dropout *site);
// The same over all rows, on the pool.
void rows_dropout_all(const struct pass *pass, float *y, const float *x, const struct rows *rows, size_t c,
                      const struct dropout *site);
// compact (B, c) = the first row of each example of full (T, c), and back (the other rows of full are written 0).
void rows_gather(const struct pass *pass, float *compact, const float *full, size_t c);
void rows_scatter(const struct pass *pass, float *full, const float *compact, size_t c);

// `count` linear layers of one shape whose parameters are neighbours; outputs side by side in y.
struct linear {
    const struct param *weight, *bias; // of the first
    unsigned count;
    size_t stride;   // floats between rows of y and dy: count * N unless it is set
    size_t stride_x; // of x and dx: K unless it is set
    float *kept;     // training in bf16: x as pairs (rows, ceil(K/2)), from forward to the gradient; NULL: not kept
};
struct linear linear_at(const struct pass *pass, unsigned l, unsigned weight, unsigned bias, unsigned count);
void linear_forward(const struct pass *pass, const float *weights, const struct linear *linear, float *y,
                    const float *x, size_t rows);
// dx (rows, K) from dy (rows, count*N); added to dx with `accumulate`.
void linear_input(const struct pass *pass, const float *weights, const struct linear *linear, float *dx,
                  const float *dy, size_t rows, bool accumulate);
// Gradients of weight and bias.
void linear_parameters(const struct pass *pass, float *gradients, const struct linear *linear, const float *dy,
                       const float *x, const struct rows *rows);

// A LayerNorm of the model, and the dropout before it.
struct norm_place {
    const struct param *weight, *bias;
    const struct norm_activations *act;
    struct rows rows;
    struct dropout site; // threshold 0 unless it is set
};
struct norm_place norm_at(const struct pass *pass, unsigned l, unsigned weight, const struct norm_activations *act,
                          const struct rows *rows);
// Rows [begin, end) of y = LayerNorm(residual + dropout(act->x)); residual may be NULL.
void norm_forward(const struct pass *pass, const float *weights, const struct norm_place *place, float *y,
                  const float *residual, size_t begin, size_t end);
// act.dhidden, the gradient of y, becomes that of the sum (it changes places with dspare); gradients of weight and
// bias. Returns the gradient before dropout: in drows, or dhidden if nothing is dropped.
const float *norm_backward(struct pass *pass, const float *weights, float *gradients, const struct norm_place *place);

void embeddings_forward(struct pass *pass, const float *weights);
void embeddings_backward(struct pass *pass, const float *weights, float *gradients);
void encoder_forward(struct pass *pass, const float *weights, unsigned l);
void encoder_backward(struct pass *pass, const float *weights, float *gradients, unsigned l);
void head_forward(struct pass *pass, const float *weights);
void head_backward(struct pass *pass, const float *weights, float *gradients);
// The same for question answering.
void head_spans_forward(struct pass *pass, const float *weights);
void head_spans_backward(struct pass *pass, const float *weights, float *gradients);
void loss_spans(struct pass *pass, double *part_losses, float scale);

// One attention segment of layer l: example b, head h; forward and backward fill in the rest.
struct attention attention_segment(const struct pass *pass, unsigned l, const struct rows *rows, uint32_t b,
                                   uint32_t h);

// A task of attention: neighbouring heads [begin, end) of example b; the next one's rows are asked for ahead.
#define HEADS_A_TASK 3
struct head_run {
    uint32_t b, begin, end;
};
static inline size_t head_runs(const struct pass *pass) { // of an example
    return (pass->config->heads + HEADS_A_TASK - 1) / HEADS_A_TASK;
}
struct head_run head_run(const struct pass *pass, size_t task);
// Where its output lies in (rows, H).
size_t attention_place(const struct pass *pass, const struct rows *rows, uint32_t b, uint32_t h);
// Rows of act.heads from its first column on: queries, or all three; from column H on: keys and values.
struct linear linear_query(const struct pass *pass, unsigned l, unsigned count);
struct linear linear_keys(const struct pass *pass, unsigned l);
struct linear linear_up(const struct pass *pass, unsigned l);   // of the feed-forward part
struct linear linear_down(const struct pass *pass, unsigned l); // likewise

static inline const struct param *pass_param(const struct pass *pass, unsigned l, unsigned i) {
    return weights_param(pass->table, l, i);
}

#endif
