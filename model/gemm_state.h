// SPDX-License-Identifier: Apache-2.0
// What the products share. Private to model/.
#ifndef FINETUNED_MODEL_GEMM_STATE_H
#define FINETUNED_MODEL_GEMM_STATE_H

#include "base/arena.h"
#include "base/param.h"
#include "model/gemm.h"
#include "model/gemm_queue.h"

#define TILE PARAM_TILE

struct gemm {
    struct queue *queue;
    unsigned threads;
    const struct ops *ops;
    struct arena arena; // `scratch` bytes a thread
    size_t scratch;
    uint64_t products; // weight gradients so far
    size_t cache;      // floats that may be kept in a core's second cache
};

static inline void *gemm_scratch(const struct gemm *gemm, unsigned thread) {
    return gemm->arena.base + thread * gemm->scratch;
}

size_t gemm_weight_scratch(void); // bytes a thread that the weight gradient needs

// Threads worth waking for so many multiply-adds.
static inline unsigned gemm_threads(const struct gemm *gemm, size_t work) {
    const size_t alone = (size_t)1 << 16; // multiply-adds: some microseconds, about what a hand-over costs
    return work / alone < gemm->threads ? (unsigned)(work / alone) + 1 : gemm->threads;
}

static inline size_t ceil_div(size_t a, size_t b) {
    return (a + b - 1) / b;
}

static inline size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static inline size_t most(size_t a, size_t b) {
    return a > b ? a : b;
}

#endif
