// SPDX-License-Identifier: Apache-2.0
#include "base/rng.h"

#include <math.h>

// Philox4x32-10: multipliers and key increments from the paper's table 2 and section 3.
#define PHILOX_M0 0xd2511f53u
#define PHILOX_M1 0xcd9e8d57u
#define PHILOX_W0 0x9e3779b9u // golden ratio
#define PHILOX_W1 0xbb67ae85u // sqrt(3) - 1

void rng_philox(uint32_t out[4], const uint32_t counter[4], uint64_t key) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)PHILOX_M0 * c0;
        uint64_t p1 = (uint64_t)PHILOX_M1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

// The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, with Stafford's variant 13): a bijection.
static uint64_t rng_finish(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t rng_mix(uint64_t a, uint64_t b) {
    return rng_finish(rng_finish(a + UINT64_C(0x9e3779b97f4a7c15)) + b);
}

struct rng rng_stream(uint64_t seed, uint64_t purpose) {
    return (struct rng){.key = rng_mix(seed, purpose)};
}

// A block holds two values: number n is half n % 2 of block n / 2.
uint64_t rng_u64(struct rng *rng) {
    uint64_t block = rng->next / 2;
    unsigned half = (unsigned)(rng->next % 2) * 2;
    uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), 0, 0};
    uint32_t words[4];
    rng_philox(words, counter, rng->key);
    rng->next++;
    return (uint64_t)words[half + 1] << 32 | words[half];
}

// Lemire, "Fast random integer generation in an interval", ACM TOMACS 29(1), 2019: the high word of a product, with the
// few low words that would make a bias thrown away.
uint64_t rng_below(struct rng *rng, uint64_t n) {
    unsigned __int128 product = (unsigned __int128)rng_u64(rng) * n;
    if ((uint64_t)product < n) {
        uint64_t threshold = -n % n; // 2^64 mod n
        while ((uint64_t)product < threshold)
            product = (unsigned __int128)rng_u64(rng) * n;
    }
    return (uint64_t)(product >> 64);
}

double rng_uniform(struct rng *rng) {
    return (double)(rng_u64(rng) >> 11) * 0x1p-53;
}

double rng_normal(struct rng *rng) {
    double radius = sqrt(-2.0 * log(1.0 - rng_uniform(rng))); // 1 - [0, 1): never log(0)
    return radius * cos(2.0 * M_PI * rng_uniform(rng));
}
