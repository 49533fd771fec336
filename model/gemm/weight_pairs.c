// SPDX-License-Identifier: Apache-2.0
// The weight gradient in bf16: the source of weight.c, its elements pairs (gemm/pairs.h).
#define GEMM_PAIRS
#include "model/gemm/weight.c"
