// SPDX-License-Identifier: Apache-2.0
// How an attention call cuts its scratch (attention.c); sizes in floats, every piece a multiple of 16 of them.
#ifndef FINETUNED_MODEL_OPS_ATTENTION_H
#define FINETUNED_MODEL_OPS_ATTENTION_H

#include <stddef.h>

#define ATTENTION_TILE 32 // columns of a GEMM tile
#define ATTENTION_LANE 16

// Keys across, padded: floats between rows of scores.
static inline size_t attention_across(size_t length) {
    return (length + ATTENTION_LANE - 1) / ATTENTION_LANE * ATTENTION_LANE;
}

// Scores, their gradient, and mask times probabilities: each (length, across).
static inline size_t attention_scores(size_t length) {
    return length * attention_across(length);
}

// The greater of the two operands made into tiles: [ceil(length/32)][D][32] and [ceil(D/32)][length][32].
static inline size_t attention_tiles(size_t length, size_t head_size) {
    const size_t by_key = (length + ATTENTION_TILE - 1) / ATTENTION_TILE * ATTENTION_TILE * head_size;
    const size_t by_column = (head_size + ATTENTION_TILE - 1) / ATTENTION_TILE * ATTENTION_TILE * length;
    return by_key > by_column ? by_key : by_column;
}

#endif
