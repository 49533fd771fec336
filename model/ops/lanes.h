// SPDX-License-Identifier: Apache-2.0
// Sixteen floats at a time. Sums are sixteen partial ones: element i of a row goes to lane i % 16, the lanes are then
// added in one fixed tree. The order of a sum is so the same whatever the width of the registers, and no flag that lets
// the compiler reorder is needed. Fused multiply-adds stand where they are written (lanes_fma), on every instruction
// set.
#ifndef FINETUNED_MODEL_OPS_LANES_H
#define FINETUNED_MODEL_OPS_LANES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define LANES 16

#if defined(__AVX512F__)
#define LANES_WIDTH 16 // floats in a register
#elif defined(__AVX__)
#define LANES_WIDTH 8
#else
#define LANES_WIDTH 4
#endif
#define LANES_VECTORS (LANES / LANES_WIDTH)

typedef float lanes_vector __attribute__((vector_size(LANES_WIDTH * sizeof(float))));
typedef int lanes_mask __attribute__((vector_size(LANES_WIDTH * sizeof(float))));

struct lanes {
    lanes_vector v[LANES_VECTORS];
};

#define LANES_INLINE static inline __attribute__((always_inline))

LANES_INLINE struct lanes lanes_all(float value) {
    struct lanes a;
    for (int i = 0; i < LANES_VECTORS; i++)
        a.v[i] = (lanes_vector){0} + value;
    return a;
}

LANES_INLINE struct lanes lanes_load(const float *p) {
    struct lanes a;
    memcpy(&a, p, sizeof a);
    return a;
}

// The first n < 16 floats at p, and `rest` in the lanes behind them.
LANES_INLINE struct lanes lanes_load_part(const float *p, size_t n, float rest) {
#if defined(__AVX512F__)
    struct lanes a;
    a.v[0] = (lanes_vector)_mm512_mask_loadu_ps(_mm512_set1_ps(rest), (__mmask16)((1u << n) - 1), p);
    return a;
#else
    float part[LANES];
    for (size_t i = 0; i < LANES; i++)
        part[i] = i < n ? p[i] : rest;
    return lanes_load(part);
#endif
}

LANES_INLINE void lanes_store(float *p, struct lanes a) {
    memcpy(p, &a, sizeof a);
}

LANES_INLINE void lanes_store_part(float *p, size_t n, struct lanes a) {
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)a.v[0]);
#else
    float part[LANES];
    lanes_store(part, a);
    memcpy(p, part, n * sizeof(float));
#endif
}

LANES_INLINE struct lanes lanes_add(struct lanes a, struct lanes b) {
    for (int i = 0; i < LANES_VECTORS; i++)
        a.v[i] += b.v[i];
    return a;
}

LANES_INLINE struct lanes lanes_sub(struct lanes a, struct lanes b) {
    for (int i = 0; i < LANES_VECTORS; i++)
        a.v[i] -= b.v[i];
    return a;
}

LANES_INLINE struct lanes lanes_mul(struct lanes a, struct lanes b) {
    for (int i = 0; i < LANES_VECTORS; i++)
        a.v[i] *= b.v[i];
    return a;
}

LANES_INLINE struct lanes lanes_div(struct lanes a, struct lanes b) {
    for (int i = 0; i < LANES_VECTORS; i++)
        a.v[i] /= b.v[i];
    return a;
}

// a * b + c, rounded once.
LANES_INLINE struct lanes lanes_fma(struct lanes a, struct lanes b, struct lanes c) {
#if defined(__AVX512F__)
    a.v[0] = (lanes_vector)_mm512_fmadd_ps((__m512)a.v[0], (__m512)b.v[0], (__m512)c.v[0]);
#elif defined(__AVX2__)
    for (int i = 0; i < LANES_VECTORS; i++)
        a.v[i] = (lanes_vector)_mm256_fmadd_ps((__m256)a.v[i], (__m256)b.v[i], (__m256)c.v[i]);
#else
    float x[LANES], y[LANES], z[LANES];
    memcpy(x, &a, sizeof x);
    memcpy(y, &b, sizeof y);
    memcpy(z, &c, sizeof z);
    for (int l = 0; l < LANES; l++)
        x[l] = __builtin_fmaf(x[l], y[l], z[l]);
    memcpy(&a, x, sizeof x);
#endif
    return a;
}

// x where a < b, else y.
LANES_INLINE struct lanes lanes_less(struct lanes a, struct lanes b, struct lanes x, struct lanes y) {
#if defined(__AVX512F__)
    x.v[0] = (lanes_vector)_mm512_mask_blend_ps(_mm512_cmp_ps_mask((__m512)a.v[0], (__m512)b.v[0], _CMP_LT_OQ),
                                                (__m512)y.v[0], (__m512)x.v[0]);
#else
    for (int i = 0; i < LANES_VECTORS; i++) {
        const lanes_mask less = a.v[i] < b.v[i]; // all ones or all zeros a lane
        x.v[i] = (lanes_vector)(((lanes_mask)x.v[i] & less) | ((lanes_mask)y.v[i] & ~less));
    }
#endif
    return x;
}

// a where a > b, else b: a NaN in b stays.
LANES_INLINE struct lanes lanes_max(struct lanes a, struct lanes b) {
#if defined(__AVX512F__)
    a.v[0] = (lanes_vector)_mm512_max_ps((__m512)a.v[0], (__m512)b.v[0]);
#elif defined(__AVX2__)
    for (int i = 0; i < LANES_VECTORS; i++)
        a.v[i] = (lanes_vector)_mm256_max_ps((__m256)a.v[i], (__m256)b.v[i]);
#else
    a = lanes_less(b, a, a, b);
#endif
    return a;
}

// a where a < b, else b: a NaN in b stays.
LANES_INLINE struct lanes lanes_min(struct lanes a, struct lanes b) {
#if defined(__AVX512F__)
    a.v[0] = (lanes_vector)_mm512_min_ps((__m512)a.v[0], (__m512)b.v[0]);
#elif defined(__AVX2__)
    for (int i = 0; i < LANES_VECTORS; i++)
        a.v[i] = (lanes_vector)_mm256_min_ps((__m256)a.v[i], (__m256)b.v[i]);
#else
    a = lanes_less(a, b, a, b);
#endif
    return a;
}

LANES_INLINE struct lanes lanes_abs(struct lanes a) {
    for (int i = 0; i < LANES_VECTORS; i++)
        a.v[i] = (lanes_vector)((lanes_mask)a.v[i] & 0x7fffffff);
    return a;
}

// The size of a with the sign of b.
LANES_INLINE struct lanes lanes_signed(struct lanes a, struct lanes b) {
    for (int i = 0; i < LANES_VECTORS; i++)
        a.v[i] = (lanes_vector)(((lanes_mask)a.v[i] & 0x7fffffff) | ((lanes_mask)b.v[i] & ~0x7fffffff));
    return a;
}

// 2^n, n an integer of -126..127 in the low bits.
LANES_INLINE struct lanes lanes_power(struct lanes n) {
    for (int i = 0; i < LANES_VECTORS; i++)
        n.v[i] = (lanes_vector)(((lanes_mask)n.v[i] << 23) + 0x3f800000);
    return n;
}

// `value` in the lanes whose bit is set, 0 in the others.
LANES_INLINE struct lanes lanes_pick(uint16_t bits, float value) {
    struct lanes a;
#if defined(__AVX512F__)
    a.v[0] = (lanes_vector)_mm512_maskz_mov_ps(bits, _mm512_set1_ps(value));
#elif defined(__AVX2__)
    const __m256i low = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128), all = _mm256_set1_epi32(bits);
    for (int i = 0; i < LANES_VECTORS; i++) {
        const __m256i own = i == 0 ? low : _mm256_slli_epi32(low, 8);
        const __m256i set = _mm256_cmpeq_epi32(_mm256_and_si256(all, own), own);
        a.v[i] = (lanes_vector)_mm256_and_ps(_mm256_castsi256_ps(set), _mm256_set1_ps(value));
    }
#else
    float part[LANES];
    for (int l = 0; l < LANES; l++)
        part[l] = bits >> l & 1 ? value : 0.0f;
    a = lanes_load(part);
#endif
    return a;
}

#if defined(__AVX2__)

// ((0+8)+(4+12)) + ((2+10)+(6+14)) + … : halves are added until one value is left.
#define LANES_FOLD(name, of_four, of_one, of_eight)                                                                    \
    LANES_INLINE float name(struct lanes a) {                                                                          \
        const __m256 eight = of_eight(lanes_half(a, 0), lanes_half(a, 1));                                             \
        const __m128 four = of_four(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));                   \
        const __m128 two = of_four(four, _mm_movehl_ps(four, four));                                                   \
        return _mm_cvtss_f32(of_one(two, _mm_movehdup_ps(two)));                                                       \
    }

LANES_INLINE __m256 lanes_half(struct lanes a, int half) {
#if defined(__AVX512F__)
    const __m512d all = _mm512_castps_pd((__m512)a.v[0]);
    return _mm256_castpd_ps(half ? _mm512_extractf64x4_pd(all, 1) : _mm512_castpd512_pd256(all));
#else
    return (__m256)a.v[half];
#endif
}

LANES_FOLD(lanes_total, _mm_add_ps, _mm_add_ss, _mm256_add_ps)
LANES_FOLD(lanes_greatest, _mm_max_ps, _mm_max_ss, _mm256_max_ps)

#else

LANES_INLINE float lanes_total(struct lanes a) {
    float l[LANES];
    lanes_store(l, a);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            l[i] += l[i + half];
    return l[0];
}

LANES_INLINE float lanes_greatest(struct lanes a) {
    float l[LANES];
    lanes_store(l, a);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            l[i] = l[i] > l[i + half] ? l[i] : l[i + half];
    return l[0];
}

#endif

#endif
