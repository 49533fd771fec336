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
void ISA_NAME(optim_adamw_still)(float *w, float *m, float *v, size_t n, const struct adamw_rates *rates);
void ISA_NAME(optim_decay)(float *w, size_t n, float keep);

static inline __attribute__((always_inline)) void adamw_element(float *w, float *m, float *v, float gradient,
                                                                const struct adamw_rates *r) {
    float g = gradient * r->scale;
    *m = r->beta1 * *m + r->one_beta1 * g;
    *v = r->beta2 * *v + r->one_beta2 * (g * g);
    *w = *w * r->keep - r->step * *m / (sqrtf(*v) * r->root + r->eps);
}

void ISA_NAME(optim_adamw)(float *restrict w, float *restrict m, float *restrict v, const float *restrict g, size_t n,
                           const struct adamw_rates *rates) {
    const struct adamw_rates r = *rates;
    for (size_t i = 0; i < n; i++)
        adamw_element(&w[i], &m[i], &v[i], g[i], &r);
}

// A row without a gradient: + 0 stays, it makes +0 of -0.
void ISA_NAME(optim_adamw_still)(float *restrict w, float *restrict m, float *restrict v, size_t n,
                                 const struct adamw_rates *rates) {
    const struct adamw_rates r = *rates;
    for (size_t i = 0; i < n; i++)
        adamw_element(&w[i], &m[i], &v[i], 0, &r);
}

// Both moments 0 as well: what is subtracted is +0, which changes no bit.
void ISA_NAME(optim_decay)(float *w, size_t n, float keep) {
    for (size_t i = 0; i < n; i++)
        w[i] *= keep;
}
