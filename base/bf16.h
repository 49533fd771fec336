// SPDX-License-Identifier: Apache-2.0
// bfloat16 and IEEE half to and from float; to bf16 rounds to nearest even, NaN stays NaN.
#ifndef FINETUNED_BASE_BF16_H
#define FINETUNED_BASE_BF16_H

#include <stdint.h>
#include <string.h>

static inline float bf16_to_float(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint16_t bf16_from_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float f16_to_float(uint16_t half); // base/bf16.c

#endif
