// SPDX-License-Identifier: Apache-2.0
// Pairs: operands of a product in bf16. Two neighbours of the dimension that is summed share 32 bits, the even one in
// the low half, as VDPBF16PS wants them; where that dimension's size is odd, the last one's neighbour is 0. An array of
// pairs is declared as floats, so that what only moves or counts elements (model/gemm.c) serves both; its elements are
// not read as numbers.
//
//   x of y = x W'     (M, ceil(K/2)): a row's neighbours            (pairs_row)
//   weights           [ceil(N/32)][ceil(K/2)][32]                   (pairs_tile, of float tiles)
//   panel of dy W     [ceil(N/2)][32]: neighbours along N           (gemm_transpose_pairs, of weights)
//   dy'x              (rows of all parts, ceil(n/2) each; columns)  (pairs_rows)
#ifndef FINETUNED_MODEL_GEMM_PAIRS_H
#define FINETUNED_MODEL_GEMM_PAIRS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t pairs_bits(float pair) {
    uint32_t bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
}

static inline float pairs_number(uint32_t bits) {
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

// VDPBF16PS (Intel SDM): the odd elements' product is added first, then the even ones', each by a fused multiply-add
// that rounds to nearest even; denormals are taken and given as 0, as every thread of the product has it.
static inline float pairs_dot(float a, float b, float sum) {
    const uint32_t x = pairs_bits(a), y = pairs_bits(b);
    sum = fmaf(pairs_number(x & 0xffff0000u), pairs_number(y & 0xffff0000u), sum);
    return fmaf(pairs_number(x << 16), pairs_number(y << 16), sum);
}

#endif
