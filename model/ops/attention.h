// SPDX-License-Identifier: Apache-2.0
// How an attention call cuts its scratch (attention.c); sizes in floats, every piece a multiple of 16 of them.
#ifndef FINETUNED_MODEL_OPS_ATTENTION_H
#define FINETUNED_MODEL_OPS_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#define ATTENTION_ROWS 28 // queries at a time
#define ATTENTION_LANE 16
#define ATTENTION_PANEL 32

static inline size_t attention_round(size_t n, size_t to) {
    return (n + to - 1) / to * to;
}

// What attention keeps in its scratch. D, the head's columns, is padded to `wide`, keys to `across`; padding is 0.
struct attention_sizes {
    size_t wide, across;
    size_t stride; // floats between rows of scores: an odd number of cache lines, so that columns spread over L1's sets
    size_t kept;   // 16-bit words a row of dropout's bits
    size_t rows;   // (length, wide) rounded up to whole panels of rows
    size_t panels; // [ceil(length/32)][wide][32]: rows transposed
};

static inline struct attention_sizes attention_sizes(size_t length, size_t head_size) {
    struct attention_sizes s = {.wide = attention_round(head_size, ATTENTION_LANE),
                                .across = attention_round(length, ATTENTION_LANE)};
    s.stride = (s.across / ATTENTION_LANE | 1) * ATTENTION_LANE;
    s.kept = s.across <= ATTENTION_PANEL ? ATTENTION_PANEL / 16 : attention_round(length, 64) / 16;
    s.rows = s.panels = attention_round(length, ATTENTION_PANEL) * s.wide;
    return s;
}

#endif
