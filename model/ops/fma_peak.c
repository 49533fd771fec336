// SPDX-License-Identifier: Apache-2.0
// A loop of independent fused multiply-adds that never leaves the registers: as many chains as hide the latency (4
// cycles, 2 units).
#include "model/ops/declare.h"

#if defined(__AVX512F__)
#define WIDTH 16
#elif defined(__AVX2__)
#define WIDTH 8
#else
#define WIDTH 4
#endif
#define CHAINS 12

typedef float lanes __attribute__((vector_size(WIDTH * sizeof(float))));

#ifdef __FMA__
#include <immintrin.h>
#if WIDTH == 16
#define FMA(a, b, c) (lanes) _mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#else
#define FMA(a, b, c) (lanes) _mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#endif
#else
#define FMA(a, b, c) ((a) * (b) + (c))
#endif

double ISA_NAME(fma_peak)(uint64_t rounds) {
    lanes chain[CHAINS], half, one;
    for (int j = 0; j < WIDTH; j++) {
        half[j] = 0.5f;
        one[j] = 1.0f;
    }
    for (int i = 0; i < CHAINS; i++)
        chain[i] = one;
    for (uint64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            chain[i] = FMA(chain[i], half, one);
    }
    for (int i = 0; i < CHAINS; i++)
        __asm__ volatile("" ::"x"(chain[i])); // the result is wanted, for the compiler
    return 2.0 * WIDTH * CHAINS * (double)rounds;
}

// The same of pairs of bf16. Where there is no instruction for them their product is two multiply-adds of numbers that
// such a loop widens once, before it.
double ISA_NAME(bf16_peak)(uint64_t rounds) {
#ifdef __AVX512BF16__
    const __m512i bits = _mm512_set1_epi32(0x3e803e80); // pairs of 1/4
    const __m512bh quarters = (__m512bh)bits;
    __m512 chain[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        chain[i] = _mm512_setzero_ps();
    for (uint64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            chain[i] = _mm512_dpbf16_ps(chain[i], quarters, quarters);
    }
    for (int i = 0; i < CHAINS; i++)
        __asm__ volatile("" ::"x"(chain[i]));
    return 4.0 * WIDTH * CHAINS * (double)rounds;
#else
    return ISA_NAME(fma_peak)(rounds);
#endif
}
