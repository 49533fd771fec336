// SPDX-License-Identifier: Apache-2.0
// Layer normalisation: mean and (biased) variance in two passes over a row, which lies in L1 by then.
#include "model/ops/declare.h"
#include "model/ops/lanes.h"
#include "model/ops/tree.h"

#include <math.h>

static float row_mean(const float *x, size_t c) {
    struct lanes sum = lanes_all(0);
    size_t i = 0;
    for (; i + LANES <= c; i += LANES)
        sum = lanes_add(sum, lanes_load(x + i));
    if (i < c)
        sum = lanes_add(sum, lanes_load_part(x + i, c - i, 0));
    return lanes_total(sum) / (float)c;
}

static float row_variance(const float *x, float mean, size_t c) {
    const struct lanes m = lanes_all(mean);
    struct lanes sum = lanes_all(0);
    size_t i = 0;
    for (; i + LANES <= c; i += LANES) {
        const struct lanes d = lanes_sub(lanes_load(x + i), m);
        sum = lanes_add(sum, lanes_mul(d, d));
    }
    if (i < c) {
        const struct lanes d = lanes_sub(lanes_load_part(x + i, c - i, mean), m);
        sum = lanes_add(sum, lanes_mul(d, d));
    }
    return lanes_total(sum) / (float)c;
}

void ISA_NAME(layernorm_forward)(float *y, float *mean, float *rstd, const float *x, const float *gamma,
                                 const float *beta, size_t rows, size_t c, float eps) {
    for (size_t r = 0; r < rows; r++, x += c, y += c) {
        const float m = row_mean(x, c);
        const float s = 1.0f / sqrtf(row_variance(x, m, c) + eps);
        for (size_t i = 0; i < c; i++)
            y[i] = (x[i] - m) * s * gamma[i] + beta[i];
        mean[r] = m;
        rstd[r] = s;
    }
}

// One row's sums of g = dy * gamma and of g * xhat.
struct row_sums {
    struct lanes g, gx;
};

LANES_INLINE void row_sums_add(struct row_sums *sums, struct lanes dy, struct lanes x, struct lanes gamma,
                               struct lanes mean, struct lanes rstd) {
    const struct lanes g = lanes_mul(dy, gamma);
    sums->g = lanes_add(sums->g, g);
    sums->gx = lanes_add(sums->gx, lanes_mul(g, lanes_mul(lanes_sub(x, mean), rstd)));
}

// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)), g = dy * gamma: the derivative of the forward formula.
static void row_backward(float *dx, const float *dy, const float *x, float mean, float rstd, const float *gamma,
                         size_t c) {
    const struct lanes m = lanes_all(mean), s = lanes_all(rstd);
    struct row_sums sums = {lanes_all(0), lanes_all(0)};
    size_t i = 0;
    for (; i + LANES <= c; i += LANES)
        row_sums_add(&sums, lanes_load(dy + i), lanes_load(x + i), lanes_load(gamma + i), m, s);
    if (i < c)
        row_sums_add(&sums, lanes_load_part(dy + i, c - i, 0), lanes_load_part(x + i, c - i, mean),
                     lanes_load_part(gamma + i, c - i, 0), m, s);
    const float mean_g = lanes_total(sums.g) / (float)c, mean_gx = lanes_total(sums.gx) / (float)c;
    for (i = 0; i < c; i++)
        dx[i] = rstd * (dy[i] * gamma[i] - mean_g - (x[i] - mean) * rstd * mean_gx);
}

void ISA_NAME(layernorm_backward)(float *dx, const float *dy, const float *x, const float *mean, const float *rstd,
                                  const float *gamma, size_t rows, size_t c) {
    for (size_t r = 0; r < rows; r++)
        row_backward(dx + r * c, dy + r * c, x + r * c, mean[r], rstd[r], gamma, c);
}

#define CHUNK 64 // columns summed at a time: four cache lines of a row

// sums[0..CHUNK) of dbeta, sums[CHUNK..2 CHUNK) of dgamma over rows [begin, end), n <= CHUNK columns from `first`.
static void part_sums(float *sums, const float *dy, const float *x, const float *mean, const float *rstd, size_t begin,
                      size_t end, size_t c, size_t first, size_t n) {
    memset(sums, 0, 2 * CHUNK * sizeof(float));
    for (size_t r = begin; r < end; r++) {
        const float *d = dy + r * c + first, *v = x + r * c + first;
        const float m = mean[r], s = rstd[r];
        for (size_t i = 0; i < n; i++) {
            sums[i] += d[i];
            sums[CHUNK + i] += d[i] * ((v[i] - m) * s);
        }
    }
}

void ISA_NAME(layernorm_parameters)(float *dgamma, float *dbeta, const float *dy, const float *x, const float *mean,
                                    const float *rstd, const uint32_t *offsets, uint32_t parts, size_t c, size_t c0,
                                    size_t c1) {
    float stack[TREE_LEVELS][2 * CHUNK], sums[2 * CHUNK];
    for (size_t first = c0; first < c1; first += CHUNK) {
        const size_t n = c1 - first < CHUNK ? c1 - first : CHUNK;
        for (uint32_t p = 0; p < parts; p++) {
            part_sums(sums, dy, x, mean, rstd, offsets[p], offsets[p + 1], c, first, n);
            tree_push(stack[0], sums, p, 2 * CHUNK);
        }
        const float *total = stack[tree_root(parts)];
        memcpy(dbeta + first, total, n * sizeof(float));
        memcpy(dgamma + first, total + CHUNK, n * sizeof(float));
    }
}
