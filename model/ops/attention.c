// SPDX-License-Identifier: Apache-2.0
// Attention of one head over one segment: all its products are those of a linear layer, so they run on the GEMM tile
// kernels, with k and v (a few kilobytes) made into tiles first. A row's sums are the tile kernels' chains, so they
// don't depend on how many rows are asked for.
//   S = scale q kᵀ    P = softmax(S)    out = (M*P) v                            M: dropout's mask with its factor
//   dv = (M*P)ᵀ dout  dP = M * (dout vᵀ)  dS = scale P (dP - rowsum(P dP))  dq = dS k  dk = dSᵀ q
#include "model/ops/attention.h"
#include "model/ops/declare.h"
#include "model/ops/softmax.h"

#include <stdbool.h>

struct pieces {
    float *scores;   // (rows_q, across): S, then P
    float *gradient; // (rows_q, across): dP, then dS
    float *masked;   // (rows_q, across): M, then M*P
    float *tiles;    // an operand, or a product of gemm_weight_tile
};

static struct pieces pieces_cut(float *scratch, const struct attention *a) {
    const size_t scores = attention_scores(a->length);
    return (struct pieces){scratch, scratch + scores, scratch + 2 * scores, scratch + 3 * scores};
}

// rows (length, D) as tiles [ceil(length/32)][D][32]: the operand of x rowsᵀ. Padding is 0.
static void tiles_by_key(float *tiles, const float *rows, const struct attention *a) {
    const size_t d = a->head_size;
    for (size_t j0 = 0; j0 < a->length; j0 += ATTENTION_TILE, tiles += d * ATTENTION_TILE) {
        const size_t n = a->length - j0 < ATTENTION_TILE ? a->length - j0 : ATTENTION_TILE;
        if (n < ATTENTION_TILE)
            memset(tiles, 0, d * ATTENTION_TILE * sizeof(float));
        for (size_t j = 0; j < n; j++)
            for (size_t i = 0; i < d; i++)
                tiles[i * ATTENTION_TILE + j] = rows[(j0 + j) * a->stride + i];
    }
}

// rows (length, D) as tiles [ceil(D/32)][length][32]: the operand of x rows. Padding is 0.
static void tiles_by_column(float *tiles, const float *rows, const struct attention *a) {
    for (size_t i0 = 0; i0 < a->head_size; i0 += ATTENTION_TILE) {
        const size_t n = a->head_size - i0 < ATTENTION_TILE ? a->head_size - i0 : ATTENTION_TILE;
        for (size_t j = 0; j < a->length; j++, tiles += ATTENTION_TILE) {
            memcpy(tiles, rows + j * a->stride + i0, n * sizeof(float));
            memset(tiles + n, 0, (ATTENTION_TILE - n) * sizeof(float));
        }
    }
}

// y (rows_q, across) = x (rows_q, D) rowsᵀ; what lies behind the last key becomes `rest`.
static void product_by_key(float *y, const float *x, const float *rows, float rest, float *tiles,
                           const struct attention *a) {
    const size_t across = attention_across(a->length), d = a->head_size;
    tiles_by_key(tiles, rows, a);
    for (size_t j = 0; j < a->length; j += ATTENTION_TILE) {
        const size_t n = a->length - j < ATTENTION_TILE ? a->length - j : ATTENTION_TILE;
        ISA_NAME(gemm_tile)(y + j, across, x, a->stride_q, tiles + j * d, NULL, a->rows_q, d, n, false);
    }
    for (size_t r = 0; r < a->rows_q; r++)
        for (size_t j = a->length; j < across; j++)
            y[r * across + j] = rest;
}

// y (rows_q, D) = x (rows_q, across) rows
static void product_by_column(float *y, const float *x, const float *rows, float *tiles, const struct attention *a) {
    const size_t across = attention_across(a->length);
    tiles_by_column(tiles, rows, a);
    for (size_t i = 0; i < a->head_size; i += ATTENTION_TILE) {
        const size_t n = a->head_size - i < ATTENTION_TILE ? a->head_size - i : ATTENTION_TILE;
        ISA_NAME(gemm_tile)(y + i, a->stride_q, x, across, tiles + i * a->length, NULL, a->rows_q, a->length, n, false);
    }
}

// y (length, D) = xᵀ rows for x (rows_q, across), rows (rows_q, D) with q's stride
static void product_by_query(float *y, const float *x, const float *rows, float *tile, const struct attention *a) {
    const uint32_t offsets[2] = {0, a->rows_q};
    for (size_t i = 0; i < a->head_size; i += ATTENTION_TILE) {
        const size_t n = a->head_size - i < ATTENTION_TILE ? a->head_size - i : ATTENTION_TILE;
        ISA_NAME(gemm_weight_tile)
        (tile, rows + i, a->stride_q, x, attention_across(a->length), offsets, 1, 0, a->length, n);
        for (size_t j = 0; j < a->length; j++)
            memcpy(y + j * a->stride + i, tile + j * ATTENTION_TILE, n * sizeof(float));
    }
}

static void scores_softmax(float *scores, const struct attention *a) {
    const size_t across = attention_across(a->length);
    for (size_t r = 0; r < a->rows_q; r++, scores += across) {
        for (size_t j = 0; j < across; j++)
            scores[j] *= a->scale;
        softmax_lanes(scores, scores, across);
    }
}

static void scores_dropout(float *y, const float *x, const struct attention *a) {
    ISA_NAME(dropout)(y, x, a->rows_q, attention_across(a->length), a->head * 65536, a->example, &a->dropout);
}

void ISA_NAME(attention_forward)(float *out, const struct attention *a, float *scratch) {
    const struct pieces p = pieces_cut(scratch, a);
    product_by_key(p.scores, a->q, a->k, -INFINITY, p.tiles, a);
    scores_softmax(p.scores, a);
    scores_dropout(p.scores, p.scores, a);
    product_by_column(out, p.scores, a->v, p.tiles, a);
}

// masked = M*P, gradient = M*gradient; the mask is made once.
static void scores_mask(const struct pieces *p, const struct attention *a) {
    const size_t n = a->rows_q * attention_across(a->length);
    if (a->dropout.threshold == 0) {
        memcpy(p->masked, p->scores, n * sizeof(float));
        return;
    }
    for (size_t i = 0; i < n; i++)
        p->masked[i] = 1.0f;
    scores_dropout(p->masked, p->masked, a);
    for (size_t i = 0; i < n; i++) {
        p->gradient[i] *= p->masked[i];
        p->masked[i] *= p->scores[i];
    }
}

static void softmax_backward(float *gradient, const float *scores, const struct attention *a) {
    const size_t across = attention_across(a->length);
    for (size_t r = 0; r < a->rows_q; r++, gradient += across, scores += across) {
        struct lanes sum = lanes_all(0);
        for (size_t j = 0; j < across; j += LANES)
            sum = lanes_add(sum, lanes_mul(lanes_load(scores + j), lanes_load(gradient + j)));
        const float dot = lanes_total(sum);
        for (size_t j = 0; j < across; j++)
            gradient[j] = a->scale * (scores[j] * (gradient[j] - dot));
    }
}

void ISA_NAME(attention_backward)(float *dq, float *dk, float *dv, const float *dout, const struct attention *a,
                                  float *scratch) {
    const struct pieces p = pieces_cut(scratch, a);
    product_by_key(p.scores, a->q, a->k, -INFINITY, p.tiles, a);
    scores_softmax(p.scores, a);
    product_by_key(p.gradient, dout, a->v, 0, p.tiles, a);
    scores_mask(&p, a);
    product_by_query(dv, p.masked, dout, p.tiles, a);
    softmax_backward(p.gradient, p.scores, a);
    product_by_column(dq, p.gradient, a->k, p.tiles, a);
    product_by_query(dk, p.gradient, a->q, p.tiles, a);
}
