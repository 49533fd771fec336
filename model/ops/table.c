// SPDX-License-Identifier: Apache-2.0
#include "model/ops/declare.h"

#if defined(__AVX512BF16__)
#define TABLE_ISA ISA_AVX512BF16
#elif defined(__AVX512F__)
#define TABLE_ISA ISA_AVX512
#elif defined(__AVX2__)
#define TABLE_ISA ISA_AVX2
#else
#define TABLE_ISA ISA_PLAIN
#endif

const struct ops ISA_NAME(ops_table_) = {
    .isa = TABLE_ISA,
    .fma_peak = ISA_NAME(fma_peak),
    .embed_row = ISA_NAME(embed_row),
    .layernorm_forward = ISA_NAME(layernorm_forward),
    .layernorm_backward = ISA_NAME(layernorm_backward),
    .layernorm_parameters = ISA_NAME(layernorm_parameters),
    .column_sums = ISA_NAME(column_sums),
    .dropout_bits = ISA_NAME(dropout_bits),
    .dropout = ISA_NAME(dropout),
    .add = ISA_NAME(add),
    .squares = ISA_NAME(squares),
    .gelu_forward = ISA_NAME(gelu_forward),
    .gelu_backward = ISA_NAME(gelu_backward),
    .tanh_forward = ISA_NAME(tanh_forward),
    .tanh_backward = ISA_NAME(tanh_backward),
    .attention_forward = ISA_NAME(attention_forward),
    .attention_backward = ISA_NAME(attention_backward),
    .cross_entropy = ISA_NAME(cross_entropy),
    .span_loss = ISA_NAME(span_loss),
    .softmax = ISA_NAME(softmax),
    .normals = ISA_NAME(normals),
    .gemm_tile = ISA_NAME(gemm_tile),
    .gemm_weight_tile = ISA_NAME(gemm_weight_tile),
    .gemm_transpose = ISA_NAME(gemm_transpose),
    .bf16_peak = ISA_NAME(bf16_peak),
    .gemm_tile_pairs = ISA_NAME(gemm_tile_pairs),
    .gemm_weight_tile_pairs = ISA_NAME(gemm_weight_tile_pairs),
    .gemm_transpose_pairs = ISA_NAME(gemm_transpose_pairs),
    .pairs_row = ISA_NAME(pairs_row),
    .pairs_rows = ISA_NAME(pairs_rows),
    .pairs_rows_kept = ISA_NAME(pairs_rows_kept),
    .pairs_tile = ISA_NAME(pairs_tile),
};
