// SPDX-License-Identifier: Apache-2.0
// Ops have no argument to hang a trace on, so there is one traced table a process. An op that has no wrapper here is
// passed through untimed.
#include "model/ops_trace.h"

#define TIMED(kind, flops, call)                                                                                       \
    do {                                                                                                               \
        const uint64_t begin_ = trace_now();                                                                           \
        inner->call;                                                                                                   \
        trace_op(trace, kind, begin_, flops);                                                                          \
    } while (0)

const char *const ops_kind_names[TRACE_OPS] = {
    [OPS_GEMM] = "gemm",       [OPS_ATTENTION] = "attention",   [OPS_LAYERNORM] = "layernorm", [OPS_GELU] = "gelu",
    [OPS_DROPOUT] = "dropout", [OPS_EMBEDDINGS] = "embeddings", [OPS_BIAS] = "bias",           [OPS_ADD] = "add",
    [OPS_TANH] = "tanh",       [OPS_ROUND] = "round",
};

static const struct ops *inner;
static struct trace *trace;

static void embed_row(float *out, const float *word, const float *position, const float *type, size_t c) {
    TIMED(OPS_EMBEDDINGS, 0, embed_row(out, word, position, type, c));
}

static void layernorm_forward(float *y, const struct layernorm *norm, const float *residual) {
    TIMED(OPS_LAYERNORM, 0, layernorm_forward(y, norm, residual));
}

static void layernorm_backward(float *dx, float *masked, const float *dy, const struct layernorm *norm) {
    TIMED(OPS_LAYERNORM, 0, layernorm_backward(dx, masked, dy, norm));
}

static void layernorm_parameters(float *dgamma, float *dbeta, const float *dy, const struct layernorm *norm,
                                 const uint32_t *offsets, uint32_t parts, size_t c0, size_t c1) {
    TIMED(OPS_LAYERNORM, 0, layernorm_parameters(dgamma, dbeta, dy, norm, offsets, parts, c0, c1));
}

static void column_sums(float *dbias, const float *dy, const uint32_t *offsets, uint32_t parts, size_t c, size_t c0,
                        size_t c1) {
    TIMED(OPS_BIAS, 0, column_sums(dbias, dy, offsets, parts, c, c0, c1));
}

static void dropout_bits(uint16_t *kept, size_t rows, size_t c, uint32_t first_row, uint32_t example,
                         const struct dropout *d) {
    TIMED(OPS_DROPOUT, 0, dropout_bits(kept, rows, c, first_row, example, d));
}

static void dropout(float *y, const float *x, size_t rows, size_t c, uint32_t first_row, uint32_t example,
                    const struct dropout *d) {
    TIMED(OPS_DROPOUT, 0, dropout(y, x, rows, c, first_row, example, d));
}

static void add(float *y, const float *x, size_t n) {
    TIMED(OPS_ADD, 0, add(y, x, n));
}

static void gelu_forward(float *y, float *slope, const float *x, size_t rows, size_t columns, size_t ld) {
    TIMED(OPS_GELU, 0, gelu_forward(y, slope, x, rows, columns, ld));
}

static void gelu_backward(float *dx, const float *dy, const float *slope, size_t rows, size_t columns, size_t ld) {
    TIMED(OPS_GELU, 0, gelu_backward(dx, dy, slope, rows, columns, ld));
}

static void tanh_forward(float *y, const float *x, size_t n) {
    TIMED(OPS_TANH, 0, tanh_forward(y, x, n));
}

static void tanh_backward(float *dx, const float *dy, const float *y, size_t n) {
    TIMED(OPS_TANH, 0, tanh_backward(dx, dy, y, n));
}

static void attention_forward(float *out, const struct attention *a, float *scratch) {
    TIMED(OPS_ATTENTION, 0, attention_forward(out, a, scratch));
}

static void attention_backward(float *dq, float *dk, float *dv, const float *dout, const struct attention *a,
                               float *scratch) {
    TIMED(OPS_ATTENTION, 0, attention_backward(dq, dk, dv, dout, a, scratch));
}

static void gemm_tile(float *y, size_t ldy, const float *x, size_t ldx, const float *block, const float *bias,
                      size_t rows, size_t k, size_t columns, bool accumulate, const struct gemm_ahead *ahead) {
    TIMED(OPS_GEMM, 2.0 * (double)rows * (double)k * (double)columns,
          gemm_tile(y, ldy, x, ldx, block, bias, rows, k, columns, accumulate, ahead));
}

static void gemm_weight_tile(float *dblock, const float *dy, size_t ldy, const float *x, size_t ldx,
                             const uint32_t *offsets, uint32_t parts, size_t k0, size_t k1, size_t columns,
                             const float *ahead, size_t ld_ahead) {
    TIMED(OPS_GEMM, 2.0 * (offsets[parts] - offsets[0]) * (double)(k1 - k0) * (double)columns,
          gemm_weight_tile(dblock, dy, ldy, x, ldx, offsets, parts, k0, k1, columns, ahead, ld_ahead));
}

static void gemm_transpose(float *panel, const float *tiles, size_t n, size_t k, size_t k0) {
    TIMED(OPS_GEMM, 0, gemm_transpose(panel, tiles, n, k, k0));
}

// A pair is two products.
static void gemm_tile_pairs(float *y, size_t ldy, const float *x, size_t ldx, const float *block, const float *bias,
                            size_t rows, size_t k, size_t columns, bool accumulate, const struct gemm_ahead *ahead) {
    TIMED(OPS_GEMM, 4.0 * (double)rows * (double)k * (double)columns,
          gemm_tile_pairs(y, ldy, x, ldx, block, bias, rows, k, columns, accumulate, ahead));
}

static void gemm_weight_tile_pairs(float *dblock, const float *dy, size_t ldy, const float *x, size_t ldx,
                                   const uint32_t *offsets, uint32_t parts, size_t k0, size_t k1, size_t columns,
                                   const float *ahead, size_t ld_ahead) {
    TIMED(OPS_GEMM, 4.0 * (offsets[parts] - offsets[0]) * (double)(k1 - k0) * (double)columns,
          gemm_weight_tile_pairs(dblock, dy, ldy, x, ldx, offsets, parts, k0, k1, columns, ahead, ld_ahead));
}

static void gemm_transpose_pairs(float *panel, const float *tiles, size_t n, size_t k, size_t k0) {
    TIMED(OPS_GEMM, 0, gemm_transpose_pairs(panel, tiles, n, k, k0));
}

static void pairs_row(float *to, const float *from, size_t n) {
    TIMED(OPS_ROUND, 0, pairs_row(to, from, n));
}

static void pairs_rows(float *to, const float *even, const float *odd, size_t n) {
    TIMED(OPS_ROUND, 0, pairs_rows(to, even, odd, n));
}

static void pairs_rows_kept(float *to, const float *even, const float *odd, size_t n) {
    TIMED(OPS_ROUND, 0, pairs_rows_kept(to, even, odd, n));
}

const struct ops *ops_traced(const struct ops *table, struct trace *into) {
    static struct ops traced;
    inner = table;
    trace = into;
    traced = *table;
    traced.embed_row = embed_row;
    traced.layernorm_forward = layernorm_forward;
    traced.layernorm_backward = layernorm_backward;
    traced.layernorm_parameters = layernorm_parameters;
    traced.column_sums = column_sums;
    traced.dropout_bits = dropout_bits;
    traced.dropout = dropout;
    traced.add = add;
    traced.gelu_forward = gelu_forward;
    traced.gelu_backward = gelu_backward;
    traced.tanh_forward = tanh_forward;
    traced.tanh_backward = tanh_backward;
    traced.attention_forward = attention_forward;
    traced.attention_backward = attention_backward;
    traced.gemm_tile = gemm_tile;
    traced.gemm_weight_tile = gemm_weight_tile;
    traced.gemm_transpose = gemm_transpose;
    traced.gemm_tile_pairs = gemm_tile_pairs;
    traced.gemm_weight_tile_pairs = gemm_weight_tile_pairs;
    traced.gemm_transpose_pairs = gemm_transpose_pairs;
    traced.pairs_row = pairs_row;
    traced.pairs_rows = pairs_rows;
    traced.pairs_rows_kept = pairs_rows_kept;
    return &traced;
}
