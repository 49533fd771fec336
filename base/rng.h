// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
// A value is a function of (key, counter) alone: no state, so any rank or thread can make any value.
#ifndef FINETUNED_BASE_RNG_H
#define FINETUNED_BASE_RNG_H

#include <stdint.h>

// One block: four 32-bit words from a 4-word counter and a 2-word key.
void rng_philox(uint32_t out[4], const uint32_t counter[4], uint64_t key);

// A 64-bit mix of two values, for keys.
uint64_t rng_mix(uint64_t a, uint64_t b);

// A stream for places where order does not matter for speed (shuffles, initial weights).
struct rng {
    uint64_t key;
    uint64_t next;
};
struct rng rng_stream(uint64_t seed, uint64_t purpose);
uint64_t rng_u64(struct rng *rng);
uint64_t rng_below(struct rng *rng, uint64_t n); // uniform in 0..n-1, n > 0, unbiased
double rng_uniform(struct rng *rng);             // [0, 1)
double rng_normal(struct rng *rng);              // mean 0, variance 1 (Box-Muller)

#endif
