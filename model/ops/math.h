// SPDX-License-Identifier: Apache-2.0
// exp, tanh and the normal distribution in float, sixteen at a time: no branch, no call, no table, no division where it
// can be spared (it takes as long as sixteen multiply-adds). Every instruction set does the same operations, so it
// gives the same bits. NaN in, NaN out.
#ifndef FINETUNED_MODEL_OPS_MATH_H
#define FINETUNED_MODEL_OPS_MATH_H

#include "model/ops/lanes.h"

// e^x for x <= 87, error <= 2 ulp; 0 where the result would be subnormal.
// x = n ln 2 + r, |r| <= ln 2 / 2 (ln 2 in two pieces: Cody and Waite, Software Manual for the Elementary Functions,
// 1980); e^r = 1 + r + r^2 P(r) with P fitted by us (Lawson's algorithm, relative error 3e-9).
LANES_INLINE struct lanes math_exp(struct lanes x) {
    const struct lanes least = lanes_all(-87.3365f), round = lanes_all(12582912.0f); // 1.5 * 2^23
    const struct lanes t = lanes_max(least, x);
    // Adding `round` rounds to an integer and leaves it in the low bits.
    const struct lanes shifted = lanes_fma(t, lanes_all(1.44269504f), round);
    const struct lanes n = lanes_sub(shifted, round);
    const struct lanes r = lanes_fma(n, lanes_all(2.12194440e-4f), lanes_fma(n, lanes_all(-0.693359375f), t));
    struct lanes p = lanes_fma(lanes_all(0.00138145662f), r, lanes_all(0.00836873706f));
    p = lanes_fma(p, r, lanes_all(0.041668389f));
    p = lanes_fma(p, r, lanes_all(0.166665211f));
    p = lanes_fma(p, r, lanes_all(0.49999994f));
    const struct lanes y = lanes_add(lanes_fma(p, lanes_mul(r, r), r), lanes_all(1));
    return lanes_less(x, least, lanes_all(0), lanes_mul(y, lanes_power(shifted)));
}

// tanh x, error <= 4 ulp: below 0.625 x + x^3 P(x^2) with P fitted by us (Lawson's algorithm, relative error 7e-10),
// above by e^(2x), which beyond 15 changes nothing.
LANES_INLINE struct lanes math_tanh(struct lanes x) {
    const struct lanes a = lanes_abs(x), z = lanes_mul(a, a), one = lanes_all(1);
    struct lanes p = lanes_fma(z, lanes_all(1.89566372e-3f), lanes_all(-7.8833058e-3f));
    p = lanes_fma(p, z, lanes_all(2.15710587e-2f));
    p = lanes_fma(p, z, lanes_all(-5.39209542e-2f));
    p = lanes_fma(p, z, lanes_all(1.33329834e-1f));
    p = lanes_fma(p, z, lanes_all(-3.33333246e-1f));
    const struct lanes near = lanes_fma(lanes_mul(p, z), a, a);
    const struct lanes e = math_exp(lanes_min(lanes_all(30), lanes_add(a, a)));
    const struct lanes far = lanes_sub(one, lanes_div(lanes_all(2), lanes_add(e, one)));
    return lanes_signed(lanes_less(a, lanes_all(0.625f), near, far), x);
}

// Standard normal distribution at x: *below = P(X < x), *density = its derivative. Absolute error of `below` <= 1e-7.
// P(X > t) = e^(-t^2/2) Q(t), t >= 0, with Q fitted by us up to 5.5 (Lawson's algorithm, absolute error of the product
// 3e-8); beyond, where the factor is below 3e-7, Q stays as it is.
LANES_INLINE void math_normal(struct lanes *below, struct lanes *density, struct lanes x) {
    const struct lanes t = lanes_min(lanes_all(5.5f), lanes_abs(x));
    struct lanes q = lanes_fma(lanes_all(-2.44198588e-07f), t, lanes_all(6.28714542e-06f));
    q = lanes_fma(q, t, lanes_all(-7.27642691e-05f));
    q = lanes_fma(q, t, lanes_all(0.000507444667f));
    q = lanes_fma(q, t, lanes_all(-0.00242995634f));
    q = lanes_fma(q, t, lanes_all(0.00871688034f));
    q = lanes_fma(q, t, lanes_all(-0.025148768f));
    q = lanes_fma(q, t, lanes_all(0.0617024191f));
    q = lanes_fma(q, t, lanes_all(-0.132719308f));
    q = lanes_fma(q, t, lanes_all(0.249955684f));
    q = lanes_fma(q, t, lanes_all(-0.398939341f));
    q = lanes_fma(q, t, lanes_all(0.49999997f));
    const struct lanes e = math_exp(lanes_mul(lanes_all(-0.5f), lanes_mul(x, x)));
    const struct lanes tail = lanes_mul(q, e);
    *below = lanes_less(x, lanes_all(0), tail, lanes_sub(lanes_all(1), tail));
    *density = lanes_mul(lanes_all(0.398942280f), e);
}

#endif
