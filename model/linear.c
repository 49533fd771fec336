// SPDX-License-Identifier: Apache-2.0
// Linear layers over the parameter table: products by model/gemm.h, in bf16 by model/gemm16.h; biases by columns.
#include "model/pass_state.h"

struct linear linear_at(const struct pass *pass, unsigned l, unsigned weight, unsigned bias, unsigned count) {
    const struct param *first = pass_param(pass, l, weight);
    return (struct linear){first, pass_param(pass, l, bias), count, count * first->shape[0], first->shape[1], NULL};
}

// Neighbours whose rows fill their tile blocks are one matrix of count*N rows; others are taken one by one. The chains
// of sums are the same either way.
static unsigned linear_calls(const struct linear *linear) {
    return linear->weight->shape[0] % PARAM_TILE == 0 ? 1 : linear->count;
}

void linear_forward(const struct pass *pass, const float *weights, const struct linear *linear, float *y,
                    const float *x, size_t rows) {
    size_t one = linear->weight->shape[0], k = linear->weight->shape[1];
    unsigned calls = linear_calls(linear);
    for (unsigned i = 0; i < calls; i++) {
        const struct param *weight = &linear->weight[i];
        const float *bias = weights + linear->bias[i].offset;
        const size_t n = one * linear->count / calls;
        if (pass->gemm16)
            gemm16_forward(pass->gemm16, y + i * one, linear->stride, x, linear->stride_x, pass->copy + weight->pairs,
                           bias, rows, n, k, linear->kept);
        else
            gemm_forward(pass->gemm, y + i * one, linear->stride, x, linear->stride_x, weights + weight->offset, bias,
                         rows, n, k);
    }
}

void linear_input(const struct pass *pass, const float *weights, const struct linear *linear, float *dx,
                  const float *dy, size_t rows, bool accumulate) {
    size_t one = linear->weight->shape[0], k = linear->weight->shape[1];
    unsigned calls = linear_calls(linear);
    for (unsigned i = 0; i < calls; i++) {
        const struct param *weight = &linear->weight[i];
        const size_t n = one * linear->count / calls;
        if (pass->gemm16)
            gemm16_input(pass->gemm16, dx, linear->stride_x, dy + i * one, linear->stride, pass->copy + weight->pairs,
                         rows, n, k, accumulate || i > 0);
        else
            gemm_input(pass->gemm, dx, linear->stride_x, dy + i * one, linear->stride, weights + weight->offset, rows,
                       n, k, accumulate || i > 0);
    }
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
    size_t one = linear->weight->shape[0], k = linear->weight->shape[1], ldy = linear->stride, ldx = linear->stride_x;
    unsigned calls = linear_calls(linear);
    for (unsigned i = 0; i < calls; i++) {
        size_t n = one * linear->count / calls;
        float *dtiles = gradients + linear->weight[i].offset;
        double *squares = pass->squares ? pass->squares + linear->weight[i].sums : NULL;
        if (pass->gemm16 && linear->kept)
            gemm16_weight_kept(pass->gemm16, dtiles, dy + i * n, ldy, linear->kept, rows->parts, pass->batch->parts, n,
                               k, squares);
        else if (pass->gemm16)
            gemm16_weight(pass->gemm16, dtiles, dy + i * n, ldy, x, ldx, rows->parts, pass->batch->parts, n, k,
                          squares);
        else
            gemm_weight(pass->gemm, dtiles, dy + i * n, ldy, x, ldx, rows->parts, pass->batch->parts, n, k, squares);
        struct bias_columns b = {pass, gradients + linear->bias[i].offset, dy, rows, ldy, i * n};
        blocks_run(pass, bias_block, &b, n, COLUMNS_BLOCK);
    }
}
