// SPDX-License-Identifier: Apache-2.0
// exp, tanh and the normal distribution in float, written so that loops over them vectorise: no branch, no call, no
// table. Without fused multiply-adds, so that every instruction set gives the same bits. NaN in, NaN out.
#ifndef FINETUNED_MODEL_OPS_MATH_H
#define FINETUNED_MODEL_OPS_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define MATH_INLINE static inline __attribute__((always_inline))

MATH_INLINE uint32_t math_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

MATH_INLINE float math_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// e^x, error <= 2 ulp; 0 where the result would be subnormal, inf where it overflows.
// x = n ln 2 + r, |r| <= ln 2 / 2 (ln 2 in two pieces: Cody and Waite, Software Manual for the Elementary Functions,
// 1980); then the Taylor series of e^r to r^7, whose first term left out is 5e-9.
MATH_INLINE float math_exp(float x) {
    float t = x > 89.0f ? 89.0f : x;
    t = t < -88.0f ? -88.0f : t;
    // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
    const float shifted = t * 1.44269504f + 12582912.0f;
    const float n = shifted - 12582912.0f;
    const float r = (t - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = r * (1.0f / 5040.0f) + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    const float y = (p * (r * r) + r) + 1.0f;
    // Two factors, for 2^128 alone is no float.
    const int32_t exponent = (int32_t)(math_bits(shifted) - 0x4b400000u);
    const int32_t half = exponent >> 1;
    const float scaled =
        y * math_float((uint32_t)(half + 127) << 23) * math_float((uint32_t)(exponent - half + 127) << 23);
    return x < -87.3365f ? 0.0f : scaled;
}

// tanh x, error <= 4 ulp: below 0.625 x + x^3 P(x^2) with P fitted by us (Lawson's algorithm, relative error 7e-10),
// above by e^(2x).
MATH_INLINE float math_tanh(float x) {
    const float a = fabsf(x);
    const float z = a * a;
    float p = z * 1.89566372e-3f + -7.8833058e-3f;
    p = p * z + 2.15710587e-2f;
    p = p * z + -5.39209542e-2f;
    p = p * z + 1.33329834e-1f;
    p = p * z + -3.33333246e-1f;
    const float near = (p * z) * a + a;
    const float far = 1.0f - 2.0f / (math_exp(2.0f * a) + 1.0f);
    const float y = a < 0.625f ? near : far;
    return math_float((math_bits(y) & 0x7fffffffu) | (math_bits(x) & 0x80000000u));
}

// Standard normal distribution at x: *below = P(X < x), *density = its derivative. Absolute error of `below` <= 1e-7.
// erfc(t) = e^(-t^2) u Q(u), u = 1/(1 + 0.4 t), t >= 0: the form of Abramowitz and Stegun 7.1.26 with seven terms more
// and coefficients fitted by us (Lawson's algorithm, absolute error 6e-9); far in the tail a relative error of 2e-6
// remains.
MATH_INLINE void math_normal(float *below, float *density, float x) {
    const float t = fabsf(x) * 0.707106781f;
    const float u = 1.0f / (1.0f + 0.4f * t);
    float q = u * 0.0726992155f + -0.385191461f;
    q = q * u + 0.661905983f;
    q = q * u + -0.345212845f;
    q = q * u + 0.387614142f;
    q = q * u + 0.148632305f;
    q = q * u + 0.23441541f;
    q = q * u + 0.225137244f;
    const float e = math_exp(-0.5f * (x * x));
    const float tail = 0.5f * (q * u) * e;
    *below = x < 0.0f ? tail : 1.0f - tail;
    *density = 0.398942280f * e;
}

#endif
