// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 (base/rng.h has the definition and its source) for eight counters at once, and what dropout makes of
// it: a bit for each of 64 columns. A counter's word lies in the low half of a 64-bit lane (what stands in the upper
// half never matters), where one multiply gives the whole product; the counters are laid out so that the last unpacking
// leaves the blocks, and so the columns, in order.
#ifndef FINETUNED_MODEL_OPS_PHILOX_H
#define FINETUNED_MODEL_OPS_PHILOX_H

#include "model/ops.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define PHILOX_EVEN 0xD2511F53u
#define PHILOX_ODD 0xCD9E8D57u
#define PHILOX_ROUNDS 10

// Which masks: all but row and column.
struct philox {
    uint64_t keys[PHILOX_ROUNDS][2]; // of each round, in the low half
    uint32_t site, example, threshold;
};

static inline void philox_init(struct philox *p, const struct dropout *d, uint32_t example) {
    uint32_t k0 = (uint32_t)d->key, k1 = (uint32_t)(d->key >> 32);
    for (int round = 0; round < PHILOX_ROUNDS; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        p->keys[round][0] = k0;
        p->keys[round][1] = k1;
    }
    p->site = d->site;
    p->example = example;
    p->threshold = d->threshold;
}

#if defined(__AVX512F__)

// Bit i: column 8 block + i of `row` is kept. With `two` only 32 columns: those of the next row are bits 32..63.
static inline uint64_t philox_kept(const struct philox *p, uint32_t row, uint32_t block, const bool two) {
    const __m512i order = two ? _mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3) : _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    const __m512i next = two ? _mm512_setr_epi64(0, 1, 0, 1, 0, 1, 0, 1) : _mm512_setzero_si512();
    const __m512i even = _mm512_set1_epi64(PHILOX_EVEN), odd = _mm512_set1_epi64(PHILOX_ODD);
    __m512i w0 = _mm512_add_epi64(_mm512_set1_epi64(block), order), w1 = _mm512_add_epi64(_mm512_set1_epi64(row), next);
    __m512i w2 = _mm512_set1_epi64(p->site), w3 = _mm512_set1_epi64(p->example);
#pragma GCC unroll 10
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        const __m512i product0 = _mm512_mul_epu32(w0, even), product2 = _mm512_mul_epu32(w2, odd);
        w0 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(product2, 32), w1,
                                       _mm512_set1_epi64((int64_t)p->keys[round][0]), 0x96);
        w2 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(product0, 32), w3,
                                       _mm512_set1_epi64((int64_t)p->keys[round][1]), 0x96);
        w1 = product2;
        w3 = product0;
    }
    const __m512i low = _mm512_mask_blend_epi32(0xaaaa, w0, _mm512_slli_epi64(w1, 32));
    const __m512i high = _mm512_mask_blend_epi32(0xaaaa, w2, _mm512_slli_epi64(w3, 32));
    const __m512i threshold = _mm512_set1_epi16((short)p->threshold);
    const uint64_t first = _mm512_cmpge_epu16_mask(_mm512_unpacklo_epi64(low, high), threshold);
    const uint64_t second = _mm512_cmpge_epu16_mask(_mm512_unpackhi_epi64(low, high), threshold);
    return first | second << 32;
}

#elif defined(__AVX2__)

// 32 columns.
static inline uint64_t philox_kept_half(const struct philox *p, uint32_t row, uint32_t block) {
    const __m256i even = _mm256_set1_epi64x(PHILOX_EVEN), odd = _mm256_set1_epi64x(PHILOX_ODD);
    __m256i w0 = _mm256_add_epi64(_mm256_set1_epi64x(block), _mm256_setr_epi64x(0, 1, 2, 3));
    __m256i w1 = _mm256_set1_epi64x(row), w2 = _mm256_set1_epi64x(p->site), w3 = _mm256_set1_epi64x(p->example);
#pragma GCC unroll 10
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        const __m256i product0 = _mm256_mul_epu32(w0, even), product2 = _mm256_mul_epu32(w2, odd);
        const __m256i key0 = _mm256_set1_epi64x((int64_t)p->keys[round][0]);
        const __m256i key1 = _mm256_set1_epi64x((int64_t)p->keys[round][1]);
        w0 = _mm256_xor_si256(_mm256_srli_epi64(product2, 32), _mm256_xor_si256(w1, key0));
        w2 = _mm256_xor_si256(_mm256_srli_epi64(product0, 32), _mm256_xor_si256(w3, key1));
        w1 = product2;
        w3 = product0;
    }
    const __m256i low = _mm256_blend_epi32(w0, _mm256_slli_epi64(w1, 32), 0xaa);
    const __m256i high = _mm256_blend_epi32(w2, _mm256_slli_epi64(w3, 32), 0xaa);
    const __m256i threshold = _mm256_set1_epi16((short)p->threshold);
    const __m256i first = _mm256_unpacklo_epi64(low, high), second = _mm256_unpackhi_epi64(low, high);
    const __m256i kept = _mm256_packs_epi16(_mm256_cmpeq_epi16(_mm256_max_epu16(first, threshold), first),
                                            _mm256_cmpeq_epi16(_mm256_max_epu16(second, threshold), second));
    return (uint32_t)_mm256_movemask_epi8(kept);
}

static inline uint64_t philox_kept(const struct philox *p, uint32_t row, uint32_t block, const bool two) {
    return philox_kept_half(p, row, block) |
           (two ? philox_kept_half(p, row + 1, block) : philox_kept_half(p, row, block + 4)) << 32;
}

#else

// Eight columns.
static inline uint64_t philox_kept_block(const struct philox *p, uint32_t row, uint32_t block) {
    uint32_t w[4] = {block, row, p->site, p->example};
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        const uint64_t product0 = (uint64_t)w[0] * PHILOX_EVEN, product2 = (uint64_t)w[2] * PHILOX_ODD;
        w[0] = (uint32_t)(product2 >> 32) ^ w[1] ^ (uint32_t)p->keys[round][0];
        w[2] = (uint32_t)(product0 >> 32) ^ w[3] ^ (uint32_t)p->keys[round][1];
        w[1] = (uint32_t)product2;
        w[3] = (uint32_t)product0;
    }
    uint64_t bits = 0;
    for (int lane = 0; lane < 8; lane++)
        bits |= (uint64_t)((w[lane / 2] >> (lane % 2 ? 16 : 0) & 0xffff) >= p->threshold) << lane;
    return bits;
}

static inline uint64_t philox_kept(const struct philox *p, uint32_t row, uint32_t block, const bool two) {
    uint64_t bits = 0;
    for (uint32_t b = 0; b < 8; b++)
        bits |= philox_kept_block(p, two ? row + b / 4 : row, block + (two ? b % 4 : b)) << 8 * b;
    return bits;
}

#endif

#endif
