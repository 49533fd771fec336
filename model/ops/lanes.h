// SPDX-License-Identifier: Apache-2.0
// Sixteen partial sums: element i of a row goes to lane i % 16, the lanes are then added in one fixed tree. The order
// of a sum is so the same whatever the width of the registers, and no flag that lets the compiler reorder is needed.
#ifndef FINETUNED_MODEL_OPS_LANES_H
#define FINETUNED_MODEL_OPS_LANES_H

#include <stddef.h>
#include <string.h>

#define LANES 16

#if defined(__AVX512F__)
#define LANES_WIDTH 16 // floats in a register
#elif defined(__AVX__)
#define LANES_WIDTH 8
#else
#define LANES_WIDTH 4
#endif
#define LANES_VECTORS (LANES / LANES_WIDTH)

typedef float lanes_vector __attribute__((vector_size(LANES_WIDTH * sizeof(float))));
typedef int lanes_mask __attribute__((vector_size(LANES_WIDTH * sizeof(float))));

struct lanes {
    lanes_vector v[LANES_VECTORS];
};

#define LANES_INLINE static inline __attribute__((always_inline))

LANES_INLINE struct lanes lanes_all(float value) {
    struct lanes a;
    for (int i = 0; i < LANES_VECTORS; i++)
        a.v[i] = (lanes_vector){0} + value;
    return a;
}

LANES_INLINE struct lanes lanes_load(const float *p) {
    struct lanes a;
    memcpy(&a, p, sizeof a);
    return a;
}

// The first n < 16 floats at p, and `rest` in the lanes behind them.
LANES_INLINE struct lanes lanes_load_part(const float *p, size_t n, float rest) {
    float part[LANES];
    for (size_t i = 0; i < LANES; i++)
        part[i] = i < n ? p[i] : rest;
    return lanes_load(part);
}

LANES_INLINE void lanes_store(float *p, struct lanes a) {
    memcpy(p, &a, sizeof a);
}

LANES_INLINE void lanes_store_part(float *p, size_t n, struct lanes a) {
    float part[LANES];
    lanes_store(part, a);
    memcpy(p, part, n * sizeof(float));
}

LANES_INLINE struct lanes lanes_add(struct lanes a, struct lanes b) {
    for (int i = 0; i < LANES_VECTORS; i++)
        a.v[i] += b.v[i];
    return a;
}

LANES_INLINE struct lanes lanes_sub(struct lanes a, struct lanes b) {
    for (int i = 0; i < LANES_VECTORS; i++)
        a.v[i] -= b.v[i];
    return a;
}

LANES_INLINE struct lanes lanes_mul(struct lanes a, struct lanes b) {
    for (int i = 0; i < LANES_VECTORS; i++)
        a.v[i] *= b.v[i];
    return a;
}

// a where a > b, else b: a NaN in b stays.
LANES_INLINE struct lanes lanes_max(struct lanes a, struct lanes b) {
    for (int i = 0; i < LANES_VECTORS; i++) {
        const lanes_mask greater = a.v[i] > b.v[i]; // all ones or all zeros a lane
        a.v[i] = (lanes_vector)(((lanes_mask)a.v[i] & greater) | ((lanes_mask)b.v[i] & ~greater));
    }
    return a;
}

// ((0+8)+(4+12)) + ((2+10)+(6+14)) + … : halves are added until one value is left.
LANES_INLINE float lanes_total(struct lanes a) {
    float l[LANES];
    lanes_store(l, a);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            l[i] += l[i + half];
    return l[0];
}

LANES_INLINE float lanes_greatest(struct lanes a) {
    float l[LANES];
    lanes_store(l, a);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            l[i] = l[i] > l[i + half] ? l[i] : l[i + half];
    return l[0];
}

#endif
