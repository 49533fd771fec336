// SPDX-License-Identifier: Apache-2.0
// Linear layers and LayerNorm over the parameter table: products by model/gemm.h, vectors by columns.
#include "model/pass_state.h"

struct linear linear_at(const struct pass *pass, unsigned l, unsigned weight, unsigned bias, unsigned count) {
    return (struct linear){pass_param(pass, l, weight), pass_param(pass, l, bias), count};
}

// Neighbours whose rows fill their tile blocks are one matrix of count*N rows; others are taken one by one. The chains
// of sums are the same either way.
static unsigned linear_calls(const struct linear *linear) {
    return linear->weight->shape[0] % PARAM_TILE == 0 ? 1 : linear->count;
}

void linear_forward(const struct pass *pass, const float *weights, const struct linear *linear, float *y,
                    const float *x, size_t rows) {
    size_t one = linear->weight->shape[0], k = linear->weight->shape[1], ldy = one * linear->count;
    unsigned calls = linear_calls(linear);
    for (unsigned i = 0; i < calls; i++)
        gemm_forward(pass->gemm, y + i * one, ldy, x, k, weights + linear->weight[i].offset,
                     weights + linear->bias[i].offset, rows, ldy / calls, k);
}

void linear_input(const struct pass *pass, const float *weights, const struct linear *linear, float *dx,
                  const float *dy, size_t rows, bool accumulate) {
    size_t one = linear->weight->shape[0], k = linear->weight->shape[1], ldy = one * linear->count;
    unsigned calls = linear_calls(linear);
    for (unsigned i = 0; i < calls; i++)
        gemm_input(pass->gemm, dx, k, dy + i * one, ldy, weights + linear->weight[i].offset, rows, ldy / calls, k,
                   accumulate || i > 0);
}

struct bias_columns {
    const struct pass *pass;
    float *dbias;
    const float *dy; // (rows, c)
    const struct rows *rows;
    size_t c;
    size_t base; // column of dy that is dbias[0]
};

static void bias_block(void *context, size_t begin, size_t end, unsigned thread) {
    const struct bias_columns *b = context;
    float *columns = b->dbias - b->base; // indexed by dy's columns
    (void)thread;
    b->pass->ops->column_sums(columns, b->dy, b->rows->parts, b->pass->batch->parts, b->c, b->base + begin,
                              b->base + end);
}

void linear_parameters(const struct pass *pass, float *gradients, const struct linear *linear, const float *dy,
                       const float *x, const struct rows *rows) {
    size_t one = linear->weight->shape[0], k = linear->weight->shape[1], ldy = one * linear->count;
    unsigned calls = linear_calls(linear);
    for (unsigned i = 0; i < calls; i++) {
        size_t n = ldy / calls;
        gemm_weight(pass->gemm, gradients + linear->weight[i].offset, dy + i * n, ldy, x, k, rows->parts,
                    pass->batch->parts, n, k, pass->squares ? pass->squares + linear->weight[i].sums : NULL);
        struct bias_columns b = {pass, gradients + linear->bias[i].offset, dy, rows, ldy, i * n};
        blocks_run(pass, bias_block, &b, n, COLUMNS_BLOCK);
    }
}

void norm_forward(const struct pass *pass, const float *weights, unsigned l, unsigned weight,
                  const struct norm_activations *norm, float *y, size_t begin, size_t end) {
    size_t c = pass->config->hidden;
    const float *gamma = weights + pass_param(pass, l, weight)->offset,
                *beta = weights + pass_param(pass, l, weight + 1)->offset;
    pass->ops->layernorm_forward(y + begin * c, norm->mean + begin, norm->rstd + begin, norm->x + begin * c, gamma,
                                 beta, end - begin, c, (float)pass->config->layer_norm_eps);
}

struct norm_job {
    const struct pass *pass;
    float *dgamma, *dbeta, *dy; // dy: (rows, c)
    const float *gamma;
    const struct norm_activations *norm;
    const struct rows *rows;
    size_t c;
};

static void norm_columns(void *context, size_t begin, size_t end, unsigned thread) {
    const struct norm_job *j = context;
    (void)thread;
    j->pass->ops->layernorm_parameters(j->dgamma, j->dbeta, j->dy, j->norm->x, j->norm->mean, j->norm->rstd,
                                       j->rows->parts, j->pass->batch->parts, j->c, begin, end);
}

static void norm_rows(void *context, size_t begin, size_t end, unsigned thread) {
    const struct norm_job *j = context;
    float *dy = j->dy + begin * j->c;
    (void)thread;
    j->pass->ops->layernorm_backward(dy, dy, j->norm->x + begin * j->c, j->norm->mean + begin, j->norm->rstd + begin,
                                     j->gamma, end - begin, j->c);
}

void norm_backward(const struct pass *pass, const float *weights, float *gradients, unsigned l, unsigned weight,
                   const struct norm_activations *norm, float *dy, const struct rows *rows) {
    const struct param *gamma = pass_param(pass, l, weight), *beta = pass_param(pass, l, weight + 1);
    struct norm_job job = {pass, gradients + gamma->offset, gradients + beta->offset, dy, weights + gamma->offset, norm,
                           rows, pass->config->hidden};
    blocks_run(pass, norm_columns, &job, job.c, COLUMNS_BLOCK);
    blocks_run(pass, norm_rows, &job, rows->n, ROWS_BLOCK);
}
