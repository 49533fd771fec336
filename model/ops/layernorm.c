// SPDX-License-Identifier: Apache-2.0
// Layer normalisation with what stands before it in a layer, dropout and the residual sum. Forward, the first pass over
// a row makes that sum and its mean, the second its (biased) variance, the third y: the row lies in L1. Backward: a
// pass for the row's two sums, a pass for dx and its masked copy. The parameters' gradients are sums over rows, so by
// columns, in a pass of their own.
#include "model/ops/declare.h"
#include "model/ops/lanes.h"
#include "model/ops/tree.h"

#include <math.h>

// n: 16, or what the row's last piece has.
LANES_INLINE struct lanes piece_load(const float *p, size_t n, float rest) {
    return n == LANES ? lanes_load(p) : lanes_load_part(p, n, rest);
}

LANES_INLINE void piece_store(float *p, size_t n, struct lanes a) {
    if (n == LANES)
        lanes_store(p, a);
    else
        lanes_store_part(p, n, a);
}

LANES_INLINE size_t piece_size(size_t c, size_t i) {
    return c - i < LANES ? c - i : LANES;
}

// x = residual + M x; the mean of x. kept: NULL without dropout; residual: may be NULL.
LANES_INLINE float row_sum(float *x, const float *residual, const uint16_t *kept, float factor, size_t c) {
    struct lanes sum = lanes_all(0);
    for (size_t i = 0; i < c; i += LANES) {
        const size_t n = piece_size(c, i);
        struct lanes v = piece_load(x + i, n, 0);
        if (kept)
            v = lanes_mul(v, lanes_pick(kept[i / LANES], factor));
        if (residual)
            v = lanes_add(v, piece_load(residual + i, n, 0));
        if (kept || residual)
            piece_store(x + i, n, v);
        sum = lanes_add(sum, v);
    }
    return lanes_total(sum) / (float)c;
}

static float row_variance(const float *x, float mean, size_t c) {
    const struct lanes m = lanes_all(mean);
    struct lanes sum = lanes_all(0);
    for (size_t i = 0; i < c; i += LANES) {
        const struct lanes d = lanes_sub(piece_load(x + i, piece_size(c, i), mean), m);
        sum = lanes_fma(d, d, sum);
    }
    return lanes_total(sum) / (float)c;
}

static void row_scale(float *y, const float *x, float mean, float rstd, const struct layernorm *norm) {
    const struct lanes m = lanes_all(mean), s = lanes_all(rstd);
    for (size_t i = 0; i < norm->c; i += LANES) {
        const size_t n = piece_size(norm->c, i);
        const struct lanes xhat = lanes_mul(lanes_sub(piece_load(x + i, n, 0), m), s);
        piece_store(y + i, n, lanes_fma(xhat, piece_load(norm->gamma + i, n, 0), piece_load(norm->beta + i, n, 0)));
    }
}

void ISA_NAME(layernorm_forward)(float *y, const struct layernorm *norm, const float *residual) {
    const size_t c = norm->c, stride = dropout_stride(c);
    for (size_t r = 0; r < norm->rows; r++) {
        float *x = norm->x + r * c;
        const float *beside = residual ? residual + r * c : NULL;
        const float mean = norm->kept ? row_sum(x, beside, norm->kept + r * stride, norm->factor, c)
                           : residual ? row_sum(x, beside, NULL, 1, c)
                                      : row_sum(x, NULL, NULL, 1, c);
        const float rstd = 1.0f / sqrtf(row_variance(x, mean, c) + norm->eps);
        row_scale(y + r * c, x, mean, rstd, norm);
        norm->mean[r] = mean;
        norm->rstd[r] = rstd;
    }
}

// One row's means of g = dy * gamma and of g * xhat.
struct row_means {
    float g, gx;
};

static struct row_means row_means(const float *dy, const float *x, float mean, float rstd, const float *gamma,
                                  size_t c) {
    const struct lanes m = lanes_all(mean), s = lanes_all(rstd);
    struct lanes sum_g = lanes_all(0), sum_gx = sum_g;
    for (size_t i = 0; i < c; i += LANES) {
        const size_t n = piece_size(c, i);
        const struct lanes g = lanes_mul(piece_load(dy + i, n, 0), piece_load(gamma + i, n, 0));
        sum_g = lanes_add(sum_g, g);
        sum_gx = lanes_fma(g, lanes_mul(lanes_sub(piece_load(x + i, n, mean), m), s), sum_gx);
    }
    return (struct row_means){lanes_total(sum_g) / (float)c, lanes_total(sum_gx) / (float)c};
}

// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)): the derivative of the forward formula.
LANES_INLINE void row_backward(float *dx, float *masked, const float *dy, const struct layernorm *norm, size_t r,
                               const bool with_mask) {
    const size_t c = norm->c;
    const float *x = norm->x + r * c, *gamma = norm->gamma, mean = norm->mean[r], rstd = norm->rstd[r];
    const uint16_t *kept = with_mask ? norm->kept + r * dropout_stride(c) : NULL;
    const struct row_means means = row_means(dy, x, mean, rstd, gamma, c);
    const struct lanes m = lanes_all(mean), s = lanes_all(rstd), g0 = lanes_all(means.g), gx = lanes_all(-means.gx);
    for (size_t i = 0; i < c; i += LANES) {
        const size_t n = piece_size(c, i);
        const struct lanes g = lanes_mul(piece_load(dy + i, n, 0), piece_load(gamma + i, n, 0));
        const struct lanes xhat = lanes_mul(lanes_sub(piece_load(x + i, n, 0), m), s);
        const struct lanes d = lanes_mul(s, lanes_fma(xhat, gx, lanes_sub(g, g0)));
        piece_store(dx + i, n, d);
        if (with_mask)
            piece_store(masked + i, n, lanes_mul(d, lanes_pick(kept[i / LANES], norm->factor)));
    }
}

void ISA_NAME(layernorm_backward)(float *dx, float *masked, const float *dy, const struct layernorm *norm) {
    const size_t c = norm->c;
    for (size_t r = 0; r < norm->rows; r++)
        if (norm->kept && masked)
            row_backward(dx + r * c, masked + r * c, dy + r * c, norm, r, true);
        else
            row_backward(dx + r * c, NULL, dy + r * c, norm, r, false);
}

#define CHUNK 64 // columns summed at a time: four cache lines of a row
#define CHUNK_LANES (CHUNK / LANES)

// sums[0..CHUNK) of dbeta, sums[CHUNK..2 CHUNK) of dgamma over rows [begin, end), n <= CHUNK columns from `first`.
LANES_INLINE void part_sums(float *sums, const float *dy, const struct layernorm *norm, size_t begin, size_t end,
                            size_t first, const size_t n) {
    struct lanes beta[CHUNK_LANES], gamma[CHUNK_LANES];
    for (size_t l = 0; l < CHUNK_LANES; l++)
        beta[l] = gamma[l] = lanes_all(0);
    for (size_t r = begin; r < end; r++) {
        const float *d = dy + r * norm->c + first, *x = norm->x + r * norm->c + first;
        const struct lanes m = lanes_all(norm->mean[r]), s = lanes_all(norm->rstd[r]);
        for (size_t l = 0; l < CHUNK_LANES && l * LANES < n; l++) {
            const size_t piece = piece_size(n, l * LANES);
            const struct lanes g = piece_load(d + l * LANES, piece, 0);
            beta[l] = lanes_add(beta[l], g);
            gamma[l] = lanes_fma(g, lanes_mul(lanes_sub(piece_load(x + l * LANES, piece, 0), m), s), gamma[l]);
        }
    }
    for (size_t l = 0; l < CHUNK_LANES; l++) {
        lanes_store(sums + l * LANES, beta[l]);
        lanes_store(sums + CHUNK + l * LANES, gamma[l]);
    }
}

void ISA_NAME(layernorm_parameters)(float *dgamma, float *dbeta, const float *dy, const struct layernorm *norm,
                                    const uint32_t *offsets, uint32_t parts, size_t c0, size_t c1) {
    float stack[TREE_LEVELS][2 * CHUNK], sums[2 * CHUNK];
    for (size_t first = c0; first < c1; first += CHUNK) {
        const size_t n = c1 - first < CHUNK ? c1 - first : CHUNK;
        for (uint32_t p = 0; p < parts; p++) {
            if (n == CHUNK) // of known size: the sums stay in registers
                part_sums(sums, dy, norm, offsets[p], offsets[p + 1], first, CHUNK);
            else
                part_sums(sums, dy, norm, offsets[p], offsets[p + 1], first, n);
            tree_push(stack[0], sums, p, 2 * CHUNK);
        }
        const float *total = stack[tree_root(parts)];
        memcpy(dbeta + first, total, n * sizeof(float));
        memcpy(dgamma + first, total + CHUNK, n * sizeof(float));
    }
}
