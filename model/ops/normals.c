// SPDX-License-Identifier: Apache-2.0
// Normally distributed numbers by counter: Box and Muller ("A Note on the Generation of Random Normal Deviates", 1958)
// on Philox, 64 numbers of sixteen blocks at a time. Number 64 g + 32 h + j (h = 0 or 1, j < 32) comes of words 2h and
// 2h + 1 of block 16 g + j % 16: radius times cosine for j < 16, times sine else.
#include "model/ops/declare.h"
#include "model/ops/philox.h"

#include <math.h>
#include <string.h>

#define BLOCKS 16
#define GROUP (4 * BLOCKS) // numbers made together

// Loops over these vectorise: no branch, no call, no table; without fused multiply-adds, so that every instruction set
// gives the same bits.
#define INLINE static inline __attribute__((always_inline))

INLINE uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

INLINE float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// -2 ln u of u = (word / 256 + 1) / 2^24 in (0, 1]: u = 2^e m, m within a factor sqrt 2 of 1; ln m = 2 artanh s, s =
// (m - 1)/(m + 1), as its series to s^9, whose first term left out is 1e-9 of the whole.
INLINE float minus_two_log(uint32_t word) {
    const uint32_t bits = bits_of((float)(int32_t)((word >> 8) + 1)); // exact
    const int32_t e = (int32_t)(bits - 0x3f3504f3u) >> 23;            // 0x3f3504f3: sqrt 1/2
    const float m = float_of(bits - ((uint32_t)e << 23));
    const float s = (m - 1.0f) / (m + 1.0f), z = s * s;
    float p = z * (1.0f / 9.0f) + 1.0f / 7.0f;
    p = p * z + 1.0f / 5.0f;
    p = p * z + 1.0f / 3.0f;
    const float log_m = 2.0f * (s + s * (p * z));
    const float log_u = (float)(e - 24) * 0.693147181f + log_m;
    return log_u < 0.0f ? -2.0f * log_u : 0.0f;
}

// cos and sin of a turn times word / 2^32: what is left over from the nearest quarter turn, |r| <= pi/4, by the Taylor
// series to r^10 and r^9; the quarter says which is which, and the signs.
INLINE void turn(float *cosine, float *sine, uint32_t word) {
    const uint32_t quarter = (word + 0x20000000u) >> 30;
    const float r = (float)(int32_t)(word - (quarter << 30)) * 1.46291807e-9f; // 2 pi / 2^32
    const float z = r * r;
    float c = z * (-1.0f / 3628800.0f) + 1.0f / 40320.0f;
    c = c * z + -1.0f / 720.0f;
    c = c * z + 1.0f / 24.0f;
    c = c * z + -0.5f;
    c = c * z + 1.0f;
    float s = z * (1.0f / 362880.0f) + -1.0f / 5040.0f;
    s = s * z + 1.0f / 120.0f;
    s = s * z + -1.0f / 6.0f;
    s = s * z * r + r;
    const uint32_t odd = -(quarter & 1u);
    const uint32_t cos_bits = (bits_of(s) & odd) | (bits_of(c) & ~odd);
    const uint32_t sin_bits = (bits_of(c) & odd) | (bits_of(s) & ~odd);
    *cosine = float_of(cos_bits ^ ((quarter + 1) & 2u) << 30);
    *sine = float_of(sin_bits ^ (quarter & 2u) << 30);
}

// Sixteen Philox blocks (base/rng.h has the definition and its source) of counters in, random words out.
static void blocks_make(uint32_t words[4][BLOCKS], uint64_t key) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < PHILOX_ROUNDS; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        for (int b = 0; b < BLOCKS; b++) {
            const uint64_t even = (uint64_t)words[0][b] * PHILOX_EVEN, odd = (uint64_t)words[2][b] * PHILOX_ODD;
            words[0][b] = (uint32_t)(odd >> 32) ^ words[1][b] ^ k0;
            words[2][b] = (uint32_t)(even >> 32) ^ words[3][b] ^ k1;
            words[1][b] = (uint32_t)odd;
            words[3][b] = (uint32_t)even;
        }
}

static void group_make(float y[GROUP], uint64_t group, uint64_t key, float deviation) {
    uint32_t words[4][BLOCKS];
    for (uint32_t b = 0; b < BLOCKS; b++) {
        const uint64_t block = group * BLOCKS + b;
        words[0][b] = (uint32_t)block;
        words[1][b] = (uint32_t)(block >> 32);
        words[2][b] = words[3][b] = 0;
    }
    blocks_make(words, key);
    for (int half = 0; half < 2; half++, y += GROUP / 2)
        for (int b = 0; b < BLOCKS; b++) {
            float cosine, sine;
            const float radius = deviation * sqrtf(minus_two_log(words[2 * half][b]));
            turn(&cosine, &sine, words[2 * half + 1][b]);
            y[b] = radius * cosine;
            y[b + BLOCKS] = radius * sine;
        }
}

void ISA_NAME(normals)(float *y, size_t n, uint64_t key, float deviation) {
    size_t at = 0;
    for (; n - at >= GROUP; at += GROUP)
        group_make(y + at, at / GROUP, key, deviation);
    if (at < n) {
        float rest[GROUP];
        group_make(rest, at / GROUP, key, deviation);
        memcpy(y + at, rest, (n - at) * sizeof *rest);
    }
}
