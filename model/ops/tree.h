// SPDX-License-Identifier: Apache-2.0
// The binary tree over parts: neighbours are added, then neighbouring pairs, and so on. Parts come one after another; a
// stack with one partial sum a level is all the memory it needs (the digits of a binary counter).
#ifndef FINETUNED_MODEL_OPS_TREE_H
#define FINETUNED_MODEL_OPS_TREE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TREE_LEVELS 13 // 4096 parts

// `sum` (n floats) is part number `part`; stack: TREE_LEVELS rows of n floats. After the last of 2^k parts, row k holds
// the total.
static inline void tree_push(float *stack, float *sum, uint32_t part, size_t n) {
    unsigned level = 0;
    for (; (part >> level) & 1; level++) {
        const float *left = stack + level * n;
        for (size_t i = 0; i < n; i++)
            sum[i] = left[i] + sum[i];
    }
    memcpy(stack + level * n, sum, n * sizeof(float));
}

// The row that holds the total of `parts` (a power of two) parts.
static inline unsigned tree_root(uint32_t parts) {
    return (unsigned)__builtin_ctz(parts);
}

#endif
