// SPDX-License-Identifier: Apache-2.0
// The few vector operations of the tile kernels, for AVX-512 and AVX2. Elsewhere GEMM_ROWS is not defined and the
// kernels are their plain definitions. Two vectors of accumulators across and GEMM_ROWS down, two of the tile and one
// broadcast fill the register file.
//
// The kernels are compiled twice for each instruction set: for floats, and with GEMM_PAIRS for bf16, where an element
// of x, dy and the tile is 32 bits wide all the same and holds two neighbours of the summed dimension (gemm/pairs.h).
// Accumulators, bias and results are floats in both. GEMM_DOT(a, b, c) adds an element's product to c: of floats
// fma(a, b, c), of pairs what VDPBF16PS does.
#ifndef FINETUNED_MODEL_GEMM_VECTOR_H
#define FINETUNED_MODEL_GEMM_VECTOR_H

#include <stddef.h>

#define GEMM_TILE 32  // columns of a tile
#define GEMM_ACROSS 2 // vectors of accumulators

#ifdef GEMM_PAIRS
#include "model/gemm/pairs.h"
#define GEMM_NAME(name) ISA_NAME(name##_pairs)
#define GEMM_DOT_ONE(a, b, c) pairs_dot(a, b, c)
#else
#define GEMM_NAME(name) ISA_NAME(name)
#define GEMM_DOT_ONE(a, b, c) fmaf(a, b, c)
#endif

#if defined(__AVX512F__)

#include <immintrin.h>

#define GEMM_ROWS 14
#define GEMM_WIDTH 16
typedef __m512 gemm_vector;
typedef __mmask16 gemm_mask;

#define GEMM_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define GEMM_ADD(a, b) _mm512_add_ps(a, b)
#define GEMM_ZERO() _mm512_setzero_ps()
#define GEMM_ALL(x) _mm512_set1_ps(x)
#define GEMM_LOAD(p) _mm512_loadu_ps(p)
#define GEMM_STORE(p, v) _mm512_storeu_ps(p, v)
#define GEMM_LOAD_MASK(p, mask) _mm512_maskz_loadu_ps(mask, p)
#define GEMM_STORE_MASK(p, mask, v) _mm512_mask_storeu_ps(p, mask, v)
#define GEMM_KEEP(v, mask) _mm512_maskz_mov_ps(mask, v)
#define GEMM_EVEN(pairs) _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(pairs), 16))
#define GEMM_ODD(pairs)                                                                                                \
    _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(pairs), _mm512_set1_epi32((int)0xffff0000u)))
#define GEMM_UNPACK_LOW(a, b) _mm512_unpacklo_ps(a, b)
#define GEMM_UNPACK_HIGH(a, b) _mm512_unpackhi_ps(a, b)
#define GEMM_SHUFFLE(a, b, how) _mm512_shuffle_ps(a, b, how)

// Four floats from each of p, p + step, p + 2 step, …
static inline gemm_vector gemm_quads(const float *p, size_t step) {
    __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(p));
    v = _mm512_insertf32x4(v, _mm_loadu_ps(p + step), 1);
    v = _mm512_insertf32x4(v, _mm_loadu_ps(p + 2 * step), 2);
    return _mm512_insertf32x4(v, _mm_loadu_ps(p + 3 * step), 3);
}

// The first n lanes; n may be more than there are, or fewer than none.
static inline gemm_mask gemm_mask_first(ptrdiff_t n) {
    return n >= GEMM_WIDTH ? 0xffff : n <= 0 ? 0 : (gemm_mask)((1u << n) - 1);
}

#elif defined(__AVX2__) && defined(__FMA__)

#include <immintrin.h>

#define GEMM_ROWS 6
#define GEMM_WIDTH 8
typedef __m256 gemm_vector;
typedef __m256i gemm_mask;

#define GEMM_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define GEMM_ADD(a, b) _mm256_add_ps(a, b)
#define GEMM_ZERO() _mm256_setzero_ps()
#define GEMM_ALL(x) _mm256_set1_ps(x)
#define GEMM_LOAD(p) _mm256_loadu_ps(p)
#define GEMM_STORE(p, v) _mm256_storeu_ps(p, v)
#define GEMM_LOAD_MASK(p, mask) _mm256_maskload_ps(p, mask)
#define GEMM_STORE_MASK(p, mask, v) _mm256_maskstore_ps(p, mask, v)
#define GEMM_KEEP(v, mask) _mm256_and_ps(v, _mm256_castsi256_ps(mask))
#define GEMM_EVEN(pairs) _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(pairs), 16))
#define GEMM_ODD(pairs) _mm256_and_ps(pairs, _mm256_castsi256_ps(_mm256_set1_epi32((int)0xffff0000u)))
#define GEMM_UNPACK_LOW(a, b) _mm256_unpacklo_ps(a, b)
#define GEMM_UNPACK_HIGH(a, b) _mm256_unpackhi_ps(a, b)
#define GEMM_SHUFFLE(a, b, how) _mm256_shuffle_ps(a, b, how)

static inline gemm_vector gemm_quads(const float *p, size_t step) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + step), 1);
}

static inline gemm_mask gemm_mask_first(ptrdiff_t n) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n > GEMM_WIDTH ? GEMM_WIDTH : (int)n), lane);
}

#endif

#define GEMM_INLINE static inline __attribute__((always_inline))

#if defined(GEMM_PAIRS) && defined(__AVX512BF16__)
#define GEMM_DOT(a, b, c) _mm512_dpbf16_ps(c, (__m512bh)(a), (__m512bh)(b))
#elif defined(GEMM_PAIRS)
#define GEMM_DOT(a, b, c) GEMM_FMA(GEMM_EVEN(a), GEMM_EVEN(b), GEMM_FMA(GEMM_ODD(a), GEMM_ODD(b), c))
#else
#define GEMM_DOT(a, b, c) GEMM_FMA(a, b, c)
#endif

#ifdef GEMM_ROWS
#define GEMM_LINE 16 // floats of a cache line

#define GEMM_PREFETCH(address) _mm_prefetch((const char *)(address), _MM_HINT_T0)
#define GEMM_PREFETCH_FAR(address) _mm_prefetch((const char *)(address), _MM_HINT_T1) // into the second cache only

// Asks for the lines that `rows` rows of `columns` floats lie in, to be written soon (prefetchw: a no-op where it is
// not known).
static inline void gemm_prefetch_write(const float *p, size_t ld, size_t rows, size_t columns) {
    for (size_t r = 0; r < rows; r++, p += ld)
        for (size_t c = 0; c < columns; c += GEMM_LINE)
            __asm__ volatile("prefetchw %0" ::"m"(p[c]));
}
#endif

// Cuts n rows into runs of nearly equal length, at most GEMM_ROWS: a run of one row would leave most of the registers
// idle.
#define GEMM_RUNS(n) (((n) + GEMM_ROWS - 1) / GEMM_ROWS)

#endif
