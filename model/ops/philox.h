// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 (base/rng.h has the definition and its source) for sixteen counters at once, word by word, so that the
// loops vectorise.
#ifndef FINETUNED_MODEL_OPS_PHILOX_H
#define FINETUNED_MODEL_OPS_PHILOX_H

#include <stdint.h>

#define PHILOX_BLOCKS 16

// Counters in, random words out: block b is words[0..3][b].
static inline void philox_blocks(uint32_t words[4][PHILOX_BLOCKS], uint64_t key) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        for (int b = 0; b < PHILOX_BLOCKS; b++) {
            const uint64_t even = (uint64_t)words[0][b] * 0xD2511F53u;
            const uint64_t odd = (uint64_t)words[2][b] * 0xCD9E8D57u;
            words[0][b] = (uint32_t)(odd >> 32) ^ words[1][b] ^ k0;
            words[2][b] = (uint32_t)(even >> 32) ^ words[3][b] ^ k1;
            words[1][b] = (uint32_t)odd;
            words[3][b] = (uint32_t)even;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

#endif
