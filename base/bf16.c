// SPDX-License-Identifier: Apache-2.0
// IEEE half to float, by bits alone: denormal halves come out right while the thread flushes denormals.
#include "base/bf16.h"

float f16_to_float(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 0x1fu;
    uint32_t fraction = half & 0x3ffu;
    uint32_t bits;
    if (exponent == 0x1f) {
        bits = sign | 0x7f800000u | fraction << 13; // infinity, NaN
    } else if (exponent != 0) {
        bits = sign | (exponent + 112) << 23 | fraction << 13; // 112 = 127 - 15, the difference of the biases
    } else if (fraction == 0) {
        bits = sign;
    } else {
        // fraction * 2^-24: the highest set bit becomes the float's hidden one
        unsigned top = 31u - (unsigned)__builtin_clz(fraction);
        bits = sign | (top + 103) << 23 | (fraction << (23 - top) & 0x7fffffu);
    }
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
