// SPDX-License-Identifier: Apache-2.0
// What the files of model/ops and model/gemm define for the table of their instruction set (table.c); shapes:
// model/ops.h.
#ifndef FINETUNED_MODEL_OPS_DECLARE_H
#define FINETUNED_MODEL_OPS_DECLARE_H

#include "model/ops.h"

double ISA_NAME(fma_peak)(uint64_t rounds);
void ISA_NAME(embed_row)(float *out, const float *word, const float *position, const float *type, size_t c);
void ISA_NAME(layernorm_forward)(float *y, const struct layernorm *norm, const float *residual);
void ISA_NAME(layernorm_backward)(float *dx, float *masked, const float *dy, const struct layernorm *norm);
void ISA_NAME(layernorm_parameters)(float *dgamma, float *dbeta, const float *dy, const struct layernorm *norm,
                                    const uint32_t *offsets, uint32_t parts, size_t c0, size_t c1);
void ISA_NAME(column_sums)(float *dbias, const float *dy, const uint32_t *offsets, uint32_t parts, size_t c, size_t c0,
                           size_t c1);
void ISA_NAME(dropout_bits)(uint16_t *kept, size_t rows, size_t c, uint32_t first_row, uint32_t example,
                            const struct dropout *d);
void ISA_NAME(dropout)(float *y, const float *x, size_t rows, size_t c, uint32_t first_row, uint32_t example,
                       const struct dropout *d);
void ISA_NAME(add)(float *y, const float *x, size_t n);
double ISA_NAME(squares)(const float *x, size_t n);
void ISA_NAME(gelu_forward)(float *y, float *slope, const float *x, size_t rows, size_t columns, size_t ld);
void ISA_NAME(gelu_backward)(float *dx, const float *dy, const float *slope, size_t rows, size_t columns, size_t ld);
void ISA_NAME(tanh_forward)(float *y, const float *x, size_t n);
void ISA_NAME(tanh_backward)(float *dx, const float *dy, const float *y, size_t n);
void ISA_NAME(attention_forward)(float *out, const struct attention *a, float *scratch);
void ISA_NAME(attention_backward)(float *dq, float *dk, float *dv, const float *dout, const struct attention *a,
                                  float *scratch);
void ISA_NAME(cross_entropy)(double *losses, float *dlogits, const float *logits, const int32_t *labels, size_t rows,
                             size_t n, float scale, const struct targets *targets);
double ISA_NAME(span_loss)(float *dlogits, const float *logits, int32_t start, int32_t end, size_t length, float scale);
void ISA_NAME(softmax)(float *y, const float *x, size_t rows, size_t n);
void ISA_NAME(normals)(float *y, size_t n, uint64_t key, float deviation);
void ISA_NAME(gemm_tile)(float *y, size_t ldy, const float *x, size_t ldx, const float *block, const float *bias,
                         size_t rows, size_t k, size_t columns, bool accumulate, const struct gemm_ahead *ahead);
void ISA_NAME(gemm_weight_tile)(float *dblock, const float *dy, size_t ldy, const float *x, size_t ldx,
                                const uint32_t *offsets, uint32_t parts, size_t k0, size_t k1, size_t columns,
                                const float *ahead, size_t ld_ahead);

void ISA_NAME(gemm_transpose)(float *panel, const float *tiles, size_t n, size_t k, size_t k0);

double ISA_NAME(bf16_peak)(uint64_t rounds);
void ISA_NAME(gemm_tile_pairs)(float *y, size_t ldy, const float *x, size_t ldx, const float *block, const float *bias,
                               size_t rows, size_t k, size_t columns, bool accumulate, const struct gemm_ahead *ahead);
void ISA_NAME(gemm_weight_tile_pairs)(float *dblock, const float *dy, size_t ldy, const float *x, size_t ldx,
                                      const uint32_t *offsets, uint32_t parts, size_t k0, size_t k1, size_t columns,
                                      const float *ahead, size_t ld_ahead);
void ISA_NAME(gemm_transpose_pairs)(float *panel, const float *tiles, size_t n, size_t k, size_t k0);
void ISA_NAME(pairs_row)(float *to, const float *from, size_t n);
void ISA_NAME(pairs_rows)(float *to, const float *even, const float *odd, size_t n);
void ISA_NAME(pairs_rows_kept)(float *to, const float *even, const float *odd, size_t n);
void ISA_NAME(pairs_tile)(float *to, const float *from, size_t k);

extern const struct ops ISA_NAME(ops_table_);

#endif
