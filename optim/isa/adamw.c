// SPDX-License-Identifier: Apache-2.0
// AdamW with decoupled weight decay (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019), in
// torch.optim.AdamW's order:
//
//   w *= 1 - lr*wd
//   m  = b1*m + (1-b1)*g;   v = b2*v + (1-b2)*g*g
//   w -= lr * (m/(1-b1^t)) / (sqrt(v/(1-b2^t)) + eps)
//
// with the bias corrections folded into one factor each: step = lr/(1-b1^t), root = 1/sqrt(1-b2^t). One pass: 4 floats
// read, 3 written; the compiler vectorises the loop. Elements that are 0 in all four (padding of tiles) stay 0:
// 0/(0+eps) = 0.
#include "optim/kernels.h"

#include <math.h>

void ISA_NAME(optim_adamw)(float *w, float *m, float *v, const float *g, size_t n, const struct adamw_rates *rates);

void ISA_NAME(optim_adamw)(float *restrict w, float *restrict m, float *restrict v, const float *restrict g, size_t n,
                           const struct adamw_rates *rates) {
    const struct adamw_rates r = *rates;
    for (size_t i = 0; i < n; i++) {
        float gi = g[i] * r.scale;
        float mi = r.beta1 * m[i] + r.one_beta1 * gi;
        float vi = r.beta2 * v[i] + r.one_beta2 * (gi * gi);
        m[i] = mi;
        v[i] = vi;
        w[i] = w[i] * r.keep - r.step * mi / (sqrtf(vi) * r.root + r.eps);
    }
}
