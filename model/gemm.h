// SPDX-License-Identifier: Apache-2.0
// The three matrix products of a linear layer y = x Wᵀ + b on tiles (base/param.h), over the thread pool.
//
// Order of sums, the same for every M, batch, part cut and thread count (that is what makes runs equal bit for bit):
//   gemm_forward  y[m][n]  = fma chain over k = 0..K-1, started from bias[n] (or 0)
//   gemm_input    dx[m][k] = fma chain over n = 0..N-1, started from 0 (or from dx with `accumulate`)
//   gemm_weight   dW[n][k] = for each part a fma chain over its rows from 0, then the binary tree over parts
// The plain C definition does the same with fmaf, so all instruction sets give equal bits in these three.
#ifndef FINETUNED_MODEL_GEMM_H
#define FINETUNED_MODEL_GEMM_H

#include "base/pool.h"
#include "model/ops.h"

struct gemm;

// Products are run on the pool, cut for its threads and the processor's caches; no cut changes a chain above.
enum status gemm_open(struct gemm **out, struct pool *pool, const struct ops *ops);
void gemm_close(struct gemm *gemm);
void gemm_use(struct gemm *gemm, const struct ops *ops); // from now on these kernels

// y (M,N) = x (M,K) Wᵀ + bias; rows lie ldy and ldx floats apart; bias (N) or NULL.
void gemm_forward(struct gemm *gemm, float *y, size_t ldy, const float *x, size_t ldx, const float *tiles,
                  const float *bias, size_t m, size_t n, size_t k);
// dx (M,K) = dy (M,N) W, or dx += with `accumulate`.
void gemm_input(struct gemm *gemm, float *dx, size_t ldx, const float *dy, size_t ldy, const float *tiles, size_t m,
                size_t n, size_t k, bool accumulate);
// dtiles [ceil(N/32)][K][32] written: dW = dyᵀ x over rows cut into `parts` (a power of two) runs offsets[0..parts].
// squares: the sums of squares of its pieces (param_sum) are written there while they are in cache; NULL: not wanted.
void gemm_weight(struct gemm *gemm, float *dtiles, const float *dy, size_t ldy, const float *x, size_t ldx,
                 const uint32_t *offsets, uint32_t parts, size_t n, size_t k, double *squares);

#endif
