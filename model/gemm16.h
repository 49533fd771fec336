// SPDX-License-Identifier: Apache-2.0
// The three products of model/gemm.h in bf16: operands are floats, rounded to bf16 as they are read, the weights' bf16
// copy is made beforehand (pairs_tile); sums, bias and results are floats. Products are cut as there.
//
// Order of sums, with pairs of neighbours (2i, 2i+1) of the summed dimension, a missing last one 0; in each pair the
// odd element's product is added first, then the even one's, each by a fused multiply-add:
//   y[m][n]    pairs along k = 0..K-1, started from bias[n] (or 0)
//   dx[m][k]   pairs along n = 0..N-1, started from 0 (or from dx)
//   dW[n][k]   a part at a time, pairs of the part's rows from 0; then the binary tree over parts
#ifndef FINETUNED_MODEL_GEMM16_H
#define FINETUNED_MODEL_GEMM16_H

#include "model/gemm.h"

struct gemm16;

// What its buffers are made for.
struct gemm16_room {
    size_t rows, width; // the largest M; the largest N or K of any weight
    uint32_t parts;     // the most
    bool odd;           // some K is odd
};
enum status gemm16_open(struct gemm16 **out, struct pool *pool, const struct ops *ops, const struct gemm16_room *room);
void gemm16_close(struct gemm16 *gemm);
void gemm16_use(struct gemm16 *gemm, const struct ops *ops); // from now on these kernels
uint64_t gemm16_bytes(const struct gemm16 *gemm);            // of its buffers, mapped

// As gemm_forward, gemm_input and gemm_weight; `copy` is [ceil(N/32)][ceil(K/2)][32] pairs. kept (M, ceil(K/2))
// gets the rounded x, for gemm16_weight; NULL: not wanted.
void gemm16_forward(struct gemm16 *gemm, float *y, size_t ldy, const float *x, size_t ldx, const float *copy,
                    const float *bias, size_t m, size_t n, size_t k, float *kept);
void gemm16_input(struct gemm16 *gemm, float *dx, size_t ldx, const float *dy, size_t ldy, const float *copy, size_t m,
                  size_t n, size_t k, bool accumulate);
void gemm16_weight(struct gemm16 *gemm, float *dtiles, const float *dy, size_t ldy, const float *x, size_t ldx,
                   const uint32_t *offsets, uint32_t parts, size_t n, size_t k, double *squares);
// The same of an x that is rounded already.
void gemm16_weight_kept(struct gemm16 *gemm, float *dtiles, const float *dy, size_t ldy, const float *kept,
                        const uint32_t *offsets, uint32_t parts, size_t n, size_t k, double *squares);

#endif
