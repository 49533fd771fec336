// SPDX-License-Identifier: Apache-2.0
// Y = x W' and, on a panel of pairs, the input gradient in bf16: the source of tile.c, its elements pairs
// (gemm/pairs.h).
#define GEMM_PAIRS
#include "model/gemm/tile.c"
