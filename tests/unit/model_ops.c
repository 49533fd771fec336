// SPDX-License-Identifier: Apache-2.0
// Walks every op on every instruction set of this machine against its definition in double precision, with a bound per
// op; gradients are those of the definition by central differences. A new op of model/ops.h needs a row in `rows` (the
// last test counts them). What an op gives must also be the same bits on all instruction sets.
#include "support.h"

#include "base/bf16.h"
#include "base/pool.h"
#include "base/rng.h"
#include "model/ops.h"

#include <math.h>

#define STEP 1e-5 // of central differences

struct row {
    const char *name;
    void (*check)(const struct ops *ops);
};

static struct rng stream;
static uint64_t seen; // hash of the bits that the running row has checked

static float *floats(size_t n) {
    float *x = calloc(n ? n : 1, sizeof *x);
    assert_non_null(x);
    return x;
}

static float *normals(size_t n, double mean, double spread) {
    float *x = floats(n);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(mean + spread * rng_normal(&stream));
    return x;
}

static double *doubles(const float *x, size_t n) {
    double *y = malloc((n ? n : 1) * sizeof *y);
    assert_non_null(y);
    for (size_t i = 0; i < n; i++)
        y[i] = x ? (double)x[i] : 0;
    return y;
}

// FNV-1a over the bits.
static void see(const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        seen = (seen ^ bits) * 0x100000001b3u;
    }
}

static void check(const float *got, const double *want, size_t n, double absolute, double relative) {
    see(got, n);
    for (size_t i = 0; i < n; i++)
        assert_near(got[i], want[i], absolute, relative);
}

static void check_bits(const float *got, const float *want, size_t n) {
    see(got, n);
    for (size_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got))
            fail_msg("element %zu: %.9g, wanted %.9g", i, (double)got[i], (double)want[i]);
}

// Derivative of f at x[i], by central differences.
static double slope(double (*f)(const void *context), const void *context, double *x) {
    const double at = *x;
    *x = at + STEP;
    const double above = f(context);
    *x = at - STEP;
    const double below = f(context);
    *x = at;
    return (above - below) / (2 * STEP);
}

static const size_t widths[] = {1, 3, 13, 16, 31, 64, 100, 384, 768};
#define EACH_WIDTH(c) for (size_t w_ = 0, c; w_ < sizeof widths / sizeof *widths && (c = widths[w_], true); w_++)

static void check_embed_row(const struct ops *ops) {
    EACH_WIDTH(c) {
        float *in = normals(3 * c, 0, 1), *out = floats(c);
        double *want = doubles(in, c);
        for (size_t i = 0; i < c; i++)
            want[i] += (double)in[c + i] + in[2 * c + i];
        ops->embed_row(out, in, in + c, in + 2 * c, c);
        check(out, want, c, 1e-6, 0);
        free(in), free(out), free(want);
    }
}

// --- Layer normalisation

struct norm {
    size_t c;
    const double *gamma, *beta, *dy;
    double *x, *y; // one row
};

static const double norm_eps = 1e-5;

// Writes y; returns sum(y * dy).
static double norm_define(const void *context) {
    const struct norm *n = context;
    double mean = 0, variance = 0, sum = 0;
    for (size_t i = 0; i < n->c; i++)
        mean += n->x[i] / (double)n->c;
    for (size_t i = 0; i < n->c; i++)
        variance += (n->x[i] - mean) * (n->x[i] - mean) / (double)n->c;
    for (size_t i = 0; i < n->c; i++) {
        n->y[i] = (n->x[i] - mean) / sqrt(variance + norm_eps) * n->gamma[i] + n->beta[i];
        sum += n->y[i] * n->dy[i];
    }
    return sum;
}

#define NORM_ROWS 5
static const struct dropout norm_dropout = {0x42, 7, 13107};

// A LayerNorm over a residual sum with dropout. x: (rows, c), becomes the sum.
static struct layernorm norm_of(float *x, const float *gamma, const float *beta, float *statistics, size_t rows,
                                size_t c) {
    struct layernorm norm = {.rows = rows, .c = c, .eps = (float)norm_eps, .factor = 1, .gamma = gamma, .beta = beta};
    norm.x = x, norm.mean = statistics, norm.rstd = statistics + rows;
    return norm;
}

static void check_layernorm(const struct ops *ops, bool backward) {
    EACH_WIDTH(c) {
        const size_t n = NORM_ROWS * c;
        float *x = normals(n, 3, 2), *dy = normals(n, 0, 1), *gamma = normals(c, 1, 0.3), *beta = normals(c, 0, 1);
        float *residual = normals(n, 0, 1), *y = floats(n), *dx = floats(n), *masked = floats(n), *sum = floats(n);
        float statistics[2 * NORM_ROWS];
        double *gamma2 = doubles(gamma, c), *beta2 = doubles(beta, c), *y2 = doubles(NULL, c), *dx2 = doubles(NULL, c);
        uint16_t *kept = calloc(NORM_ROWS * dropout_stride(c), sizeof *kept);
        ops->dropout_bits(kept, NORM_ROWS, c, 3, 8, &norm_dropout);
        ops->dropout(sum, x, NORM_ROWS, c, 3, 8, &norm_dropout);
        ops->add(sum, residual, n);
        struct layernorm norm = norm_of(x, gamma, beta, statistics, NORM_ROWS, c);
        norm.kept = kept, norm.factor = dropout_factor(&norm_dropout);
        ops->layernorm_forward(y, &norm, residual);
        check_bits(x, sum, n);
        double *x2 = doubles(x, n), *dy2 = doubles(dy, n);
        if (backward)
            ops->layernorm_backward(dx, masked, dy, &norm);
        for (size_t r = 0; r < NORM_ROWS; r++) {
            const struct norm one = {c, gamma2, beta2, dy2 + r * c, x2 + r * c, y2};
            norm_define(&one);
            if (!backward) {
                check(y + r * c, y2, c, 4e-6, 4e-6);
                continue;
            }
            for (size_t i = 0; i < c; i++)
                dx2[i] = slope(norm_define, &one, &one.x[i]);
            check(dx + r * c, dx2, c, 2e-5, 1e-5);
        }
        if (backward) {
            ops->dropout(sum, dx, NORM_ROWS, c, 3, 8, &norm_dropout);
            check_bits(masked, sum, n);
            norm.kept = NULL;
            ops->layernorm_backward(dy, NULL, dy, &norm); // in place, nothing dropped
            check_bits(dy, dx, n);
        } else {
            norm.kept = NULL;
            ops->layernorm_forward(x, &norm, NULL);
            check_bits(x, y, n);
        }
        free(x), free(dy), free(gamma), free(beta), free(residual), free(y), free(dx), free(masked), free(sum);
        free(gamma2), free(beta2), free(y2), free(dx2), free(kept), free(x2), free(dy2);
    }
}

static void check_layernorm_forward(const struct ops *ops) {
    check_layernorm(ops, false);
}

static void check_layernorm_backward(const struct ops *ops) {
    check_layernorm(ops, true);
}

#define SUM_ROWS 37
static const uint32_t sum_offsets[] = {0, 5, 5, 6, 20, 30, 37, 37, 37}; // eight parts, some empty

// sums of rows `at` of the definitions' columns; scaled: dy * xhat.
static void column_define(double *want, const float *dy, const float *x, const float *mean, const float *rstd,
                          size_t c) {
    for (size_t i = 0; i < c; i++) {
        want[i] = 0;
        for (size_t r = 0; r < SUM_ROWS; r++)
            want[i] += dy[r * c + i] * (x ? ((double)x[r * c + i] - mean[r]) * rstd[r] : 1.0);
    }
}

// got = the tree over eight rows of c floats that single-part calls gave.
static void tree_of_eight(const struct ops *ops, float *part, size_t c) {
    for (size_t width = 1; width < 8; width *= 2)
        for (size_t p = 0; p < 8; p += 2 * width)
            ops->add(part + p * c, part + (p + width) * c, c);
}

static void check_layernorm_parameters(const struct ops *ops) {
    EACH_WIDTH(c) {
        float *x = normals(SUM_ROWS * c, 1, 2), *dy = normals(SUM_ROWS * c, 0, 1);
        float *mean = normals(SUM_ROWS, 1, 0.1), *rstd = normals(SUM_ROWS, 0.5, 0.01);
        const struct layernorm norm = {.rows = SUM_ROWS, .c = c, .x = x, .mean = mean, .rstd = rstd};
        float *dgamma = floats(c), *dbeta = floats(c), *part_gamma = floats(8 * c), *part_beta = floats(8 * c);
        double *want = doubles(NULL, c);
        const size_t cut = c / 3;
        ops->layernorm_parameters(dgamma, dbeta, dy, &norm, sum_offsets, 8, cut, c);
        for (size_t i = 0; i < cut; i++)
            assert_true(dgamma[i] == 0 && dbeta[i] == 0);
        ops->layernorm_parameters(dgamma, dbeta, dy, &norm, sum_offsets, 8, 0, cut);
        column_define(want, dy, x, mean, rstd, c);
        check(dgamma, want, c, 2e-5, 1e-5);
        column_define(want, dy, NULL, NULL, NULL, c);
        check(dbeta, want, c, 2e-5, 1e-5);
        for (size_t p = 0; p < 8; p++)
            ops->layernorm_parameters(part_gamma + p * c, part_beta + p * c, dy, &norm, sum_offsets + p, 1, 0, c);
        tree_of_eight(ops, part_gamma, c);
        tree_of_eight(ops, part_beta, c);
        check_bits(dgamma, part_gamma, c);
        check_bits(dbeta, part_beta, c);
        free(x), free(dy), free(mean), free(rstd), free(dgamma), free(dbeta), free(part_gamma), free(part_beta);
        free(want);
    }
}

static void check_column_sums(const struct ops *ops) {
    EACH_WIDTH(c) {
        float *dy = normals(SUM_ROWS * c, 0, 1), *sums = floats(c), *part = floats(8 * c);
        double *want = doubles(NULL, c);
        const size_t cut = c / 2;
        ops->column_sums(sums, dy, sum_offsets, 8, c, 0, cut);
        for (size_t i = cut; i < c; i++)
            assert_true(sums[i] == 0);
        ops->column_sums(sums, dy, sum_offsets, 8, c, cut, c);
        column_define(want, dy, NULL, NULL, NULL, c);
        check(sums, want, c, 2e-5, 1e-5);
        for (size_t p = 0; p < 8; p++)
            ops->column_sums(part + p * c, dy, sum_offsets + p, 1, c, 0, c);
        tree_of_eight(ops, part, c);
        check_bits(sums, part, c);
        free(dy), free(sums), free(part), free(want);
    }
}

// --- Dropout

// The mask of an element, straight from the definition in model/ops.h.
static float mask_define(const struct dropout *d, uint32_t row, uint32_t c, uint32_t example) {
    if (d->threshold == 0)
        return 1;
    uint32_t out[4];
    rng_philox(out, (uint32_t[4]){c / 8, row, d->site, example}, d->key);
    const uint32_t lane = (out[c % 8 / 2] >> (c % 2 ? 16 : 0)) & 0xffff;
    return lane >= d->threshold ? 65536.0f / (float)(65536 - d->threshold) : 0.0f;
}

static void check_dropout(const struct ops *ops) {
    static const uint32_t thresholds[] = {0, 6554, 32768, 65535};
    EACH_WIDTH(c) for (size_t t = 0; t < 4; t++) {
        const struct dropout d = {0x123456789abcdef0u + c, (uint32_t)(40 + t), thresholds[t]};
        float *x = normals(7 * c, 0, 1), *y = floats(7 * c), *want = floats(7 * c);
        const uint32_t first = c == 13 ? 3 * 65536 : 2;
        double kept = 0;
        for (uint32_t i = 0; i < 7 * c; i++) {
            const float mask = mask_define(&d, first + i / (uint32_t)c, i % (uint32_t)c, 11);
            want[i] = x[i] * mask;
            kept += mask != 0;
        }
        ops->dropout(y, x, 7, c, first, 11, &d);
        check_bits(y, want, 7 * c);
        ops->dropout(x, x, 7, c, first, 11, &d);
        check_bits(x, want, 7 * c);
        if (c == 768)
            assert_near(kept / (7 * 768), 1 - thresholds[t] / 65536.0, 0.03, 0);
        free(x), free(y), free(want);
    }
}

static void check_dropout_bits(const struct ops *ops) {
    EACH_WIDTH(c) {
        const struct dropout d = {0x123456789abcdef0u + c, 41, 6554};
        const size_t stride = dropout_stride(c);
        uint16_t *kept = calloc(7 * stride, sizeof *kept);
        float *got = floats(7 * c), *want = floats(7 * c);
        ops->dropout_bits(kept, 7, c, 65535, 12, &d);
        for (uint32_t i = 0; i < 7 * c; i++) {
            const uint32_t row = i / (uint32_t)c, column = i % (uint32_t)c;
            want[i] = mask_define(&d, 65535 + row, column, 12);
            got[i] = kept[row * stride + column / 16] >> column % 16 & 1 ? dropout_factor(&d) : 0.0f;
        }
        check_bits(got, want, 7 * c);
        free(kept), free(got), free(want);
    }
}

// --- Elementwise

static double gelu_define(double x) {
    return x / 2 * erfc(-x / sqrt(2));
}

static double gelu_slope(double x) {
    return erfc(-x / sqrt(2)) / 2 + x * exp(-x * x / 2) / sqrt(2 * M_PI);
}

static double tanh_slope(double x) {
    return 1 - tanh(x) * tanh(x);
}

#define GRID 4003 // odd, so that a loop has a remainder

static float grid_point(size_t i) {
    static const float special[] = {0, -0.0f, 1e-30f, -1e-30f, 1e4f, -1e4f, 1e19f, -1e19f};
    return i < 8 ? special[i] : (float)(((double)i - GRID / 2.0) * 12 / (GRID / 2.0));
}

static void check_elementwise(void (*op)(float *y, const float *x, size_t n), double (*define)(double), double absolute,
                              double relative) {
    float *x = floats(GRID), *y = floats(GRID);
    double *want = doubles(NULL, GRID);
    for (size_t i = 0; i < GRID; i++)
        want[i] = define(x[i] = grid_point(i));
    op(y, x, GRID);
    check(y, want, GRID, absolute, relative);
    op(x, x, GRID);
    check_bits(x, y, GRID);
    free(x), free(y), free(want);
}

static void gelu_row(const struct ops *ops, float *y, float *slope, const float *x, size_t n) {
    ops->gelu_forward(y, slope, x, 1, n, n);
}

static void check_gelu_forward(const struct ops *ops) {
    float *x = floats(GRID), *y = floats(GRID), *slope = floats(GRID);
    double *want = doubles(NULL, GRID), *want_slope = doubles(NULL, GRID);
    for (size_t i = 0; i < GRID; i++) {
        x[i] = grid_point(i);
        want[i] = gelu_define(x[i]);
        want_slope[i] = gelu_slope(x[i]);
        if (fabsf(x[i]) < 13) // the formula used as definition is itself a derivative
            assert_near((gelu_define(x[i] + STEP) - gelu_define(x[i] - STEP)) / (2 * STEP), want_slope[i], 1e-9, 0);
    }
    gelu_row(ops, y, slope, x, GRID);
    check(y, want, GRID, 1.5e-7, 2e-7);
    check(slope, want_slope, GRID, 6e-7, 4e-7);
    float *again = floats(GRID), *piece = floats(GRID);
    gelu_row(ops, again, NULL, x, GRID);
    check_bits(again, y, GRID);
    for (size_t n = 0; n < 40; n++) { // pieces of rows
        memset(again, 0, GRID * sizeof *again), memset(piece, 0, GRID * sizeof *piece);
        ops->gelu_forward(again, piece, x, 3, n, 50);
        for (size_t i = 0; i < 150; i++) {
            assert_true(again[i] == (i % 50 < n ? y[i] : 0));
            assert_true(piece[i] == (i % 50 < n ? slope[i] : 0));
        }
    }
    gelu_row(ops, again, x, x, GRID);
    check_bits(x, slope, GRID);
    free(x), free(y), free(slope), free(want), free(want_slope), free(again), free(piece);
}

static void check_tanh_forward(const struct ops *ops) {
    check_elementwise(ops->tanh_forward, tanh, 0, 4e-7);
}

static void check_gelu_backward(const struct ops *ops) {
    float *slope = normals(150, 0, 1), *dy = normals(150, 0, 1), *dx = floats(150), *want = floats(150);
    for (size_t i = 0; i < 150; i++)
        want[i] = i % 50 < 37 ? dy[i] * slope[i] : 0.0f;
    ops->gelu_backward(dx, dy, slope, 3, 37, 50);
    check_bits(dx, want, 150);
    ops->gelu_backward(dy, dy, slope, 3, 50, 50);
    check_bits(dy, dx, 37);
    free(slope), free(dy), free(dx), free(want);
}

static void check_tanh_backward(const struct ops *ops) {
    float *y = floats(GRID), *dy = normals(GRID, 0, 1), *dx = floats(GRID);
    double *want = doubles(dy, GRID);
    for (size_t i = 0; i < GRID; i++) {
        const double x = grid_point(i) / 4;
        y[i] = (float)tanh(x);
        want[i] *= tanh_slope(x);
    }
    ops->tanh_backward(dx, dy, y, GRID);
    check(dx, want, GRID, 1e-6, 0);
    ops->tanh_backward(dy, dy, y, GRID);
    check_bits(dy, dx, GRID);
    free(y), free(dy), free(dx), free(want);
}

static void check_add(const struct ops *ops) {
    for (size_t n = 0; n < 70; n++) {
        float *x = normals(n, 0, 1), *y = normals(n + 1, 0, 1), *want = floats(n + 1);
        for (size_t i = 0; i < n; i++)
            want[i] = y[i] + x[i];
        want[n] = y[n];
        ops->add(y, x, n);
        check_bits(y, want, n + 1);
        free(x), free(y), free(want);
    }
}

// --- Softmax and loss

static double log_sum(const float *x, size_t n) {
    double sum = 0, top = x[0];
    for (size_t i = 1; i < n; i++)
        top = fmax(top, x[i]);
    for (size_t i = 0; i < n; i++)
        sum += exp(x[i] - top);
    return top + log(sum);
}

static void check_softmax(const struct ops *ops) {
    for (size_t n = 1; n < 70; n++) {
        float *x = normals(3 * n, 50, 20), *y = floats(3 * n);
        double *want = doubles(NULL, 3 * n);
        for (size_t i = 0; i < 3 * n; i++)
            want[i] = exp(x[i] - log_sum(x + i / n * n, n));
        ops->softmax(y, x, 3, n);
        check(y, want, 3 * n, 1e-30, 1e-5); // x - max is rounded: up to 2^-24 of some 60
        free(x), free(y), free(want);
    }
}

// Each pair of numbers, squared and added, is -2 ln of a uniform number of a Philox word, and its angle another's.
static void normals_define(double *want, size_t n, uint64_t key, double deviation) {
    for (size_t i = 0; i < n; i++) {
        const size_t half = i / 32 % 2, sine = i / 16 % 2, block = i / 64 * 16 + i % 16;
        uint32_t words[4];
        rng_philox(words, (uint32_t[4]){(uint32_t)block, 0, 0, 0}, key);
        const double radius = sqrt(-2 * log(((words[2 * half] >> 8) + 1) * 0x1p-24));
        const double angle = 2 * M_PI * words[2 * half + 1] * 0x1p-32;
        want[i] = deviation * radius * (sine ? sin(angle) : cos(angle));
    }
}

static void check_normals(const struct ops *ops) {
    static const size_t sizes[] = {1, 63, 64, 65, 200000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const size_t n = sizes[s];
        float *y = floats(n);
        double *want = doubles(NULL, n), sum = 0, squares = 0;
        normals_define(want, n, 77 + s, 0.5);
        ops->normals(y, n, 77 + s, 0.5f);
        check(y, want, n, 1e-6, 1e-6);
        for (size_t i = 0; i < n; i++) {
            sum += (double)y[i];
            squares += (double)y[i] * (double)y[i];
        }
        if (n == 200000)
            assert_true(fabs(sum / (double)n) < 0.005 && fabs(squares / (double)n - 0.25) < 0.005);
        free(y), free(want);
    }
}

#define LABELS 5
struct entropy {
    double logits[LABELS];
    int32_t label;
    const struct targets *targets;
};

// sum of q_i (log sum e^x - x_i); q = onehot without targets.
static double entropy_define(const void *context) {
    const struct entropy *e = context;
    double sum = 0, loss = 0;
    for (size_t i = 0; i < LABELS; i++)
        sum += exp(e->logits[i]);
    for (size_t i = 0; i < LABELS; i++) {
        double q = (int32_t)i == e->label;
        if (e->targets)
            q = (1 - e->targets->smoothing) * q + e->targets->smoothing / LABELS;
        if (e->targets && e->targets->weights)
            q *= e->targets->weights[i];
        loss += q * (log(sum) - e->logits[i]);
    }
    return loss;
}

static void check_entropy(const struct ops *ops, const struct targets *targets) {
    enum { ROWS = 20 };
    float *x = normals(ROWS * LABELS, 0, 3), *dx = floats(ROWS * LABELS);
    int32_t labels[ROWS];
    double losses[ROWS], again[ROWS];
    for (int r = 0; r < ROWS; r++)
        labels[r] = r % LABELS;
    ops->cross_entropy(losses, dx, x, labels, ROWS, LABELS, 0.125f, targets);
    ops->cross_entropy(again, NULL, x, labels, ROWS, LABELS, 0.125f, targets);
    for (int r = 0; r < ROWS; r++) {
        struct entropy e = {.label = labels[r], .targets = targets};
        double want[LABELS];
        for (int i = 0; i < LABELS; i++)
            e.logits[i] = x[r * LABELS + i];
        assert_near(losses[r], entropy_define(&e), 1e-12, 1e-12);
        assert_true(losses[r] == again[r]);
        for (int i = 0; i < LABELS; i++)
            want[i] = 0.125 * slope(entropy_define, &e, &e.logits[i]);
        check(dx + r * LABELS, want, LABELS, 1e-8, 1e-7);
    }
    free(x), free(dx);
}

static void check_cross_entropy(const struct ops *ops) {
    static const double weights[LABELS] = {0.25, 1, 3.5, 0.01, 2};
    float dx[3];
    double loss;
    check_entropy(ops, NULL);
    check_entropy(ops, &(struct targets){0.1, NULL});
    check_entropy(ops, &(struct targets){0, weights});
    check_entropy(ops, &(struct targets){0.3, weights});
    const float far[3] = {1000, -1000, 0};
    ops->cross_entropy(&loss, dx, far, &(int32_t){1}, 1, 3, 1, NULL);
    assert_near(loss, 2000, 0, 1e-12);
    check(dx, (double[3]){1, -1, 0}, 3, 0, 0);
    const float never[3] = {0, -INFINITY, 0}; // only where something is asked
    ops->cross_entropy(&loss, dx, never, &(int32_t){0}, 1, 3, 1, &(struct targets){0, weights});
    assert_near(loss, 0.25 * log(2), 0, 1e-12);
    ops->cross_entropy(&loss, dx, never, &(int32_t){0}, 1, 3, 1, &(struct targets){0.1, NULL});
    assert_true(isinf(loss));
}

// --- An answer's two tokens

#define SPAN 29

struct spans {
    double logits[2 * SPAN]; // a row a token: start, end
    int32_t at[2];
};

static double spans_define(const void *context) {
    const struct spans *s = context;
    double total = 0;
    for (int c = 0; c < 2; c++) {
        double sum = 0;
        for (int t = 0; t < SPAN; t++)
            sum += exp(s->logits[2 * t + c]);
        total += (log(sum) - s->logits[2 * s->at[c] + c]) / 2;
    }
    return total;
}

static void check_span_loss(const struct ops *ops) {
    float *x = normals(2 * SPAN, 0, 3), *dx = floats(2 * SPAN);
    for (int32_t round = 0; round < 8; round++) {
        struct spans s = {.at = {round * 4, SPAN - 1 - round * 3}};
        double want[2 * SPAN];
        for (int i = 0; i < 2 * SPAN; i++)
            s.logits[i] = x[i];
        double loss = ops->span_loss(dx, x, s.at[0], s.at[1], SPAN, 0.125f);
        assert_near(loss, spans_define(&s), 1e-12, 1e-12);
        assert_true(loss == ops->span_loss(NULL, x, s.at[0], s.at[1], SPAN, 0.125f));
        for (int i = 0; i < 2 * SPAN; i++)
            want[i] = 0.125 * slope(spans_define, &s, &s.logits[i]);
        check(dx, want, 2 * SPAN, 1e-8, 1e-7);
    }
    assert_true(ops->span_loss(dx, x, 0, 0, 1, 1) == 0 && dx[0] == 0 && dx[1] == 0); // one token: sure
    const float far[6] = {1000, 0, -1000, 0, 0, 1000};
    assert_near(ops->span_loss(dx, far, 1, 2, 3, 1), 1000, 0, 1e-12);
    check(dx, (double[6]){0.5, 0, -0.5, 0, 0, 0}, 6, 0, 0);
    free(x), free(dx);
}

// --- Attention

struct head { // one segment and head in double, rows `d` apart
    uint32_t rows_q, length, d;
    double scale;
    double *q, *k, *v, *out, *dout;
    const struct attention *a;
};

// Writes out; returns sum(out * dout).
static double head_define(const void *context) {
    const struct head *h = context;
    double total = 0, *p = malloc(h->length * sizeof *p);
    for (uint32_t r = 0; r < h->rows_q; r++) {
        double sum = 0, top = -1e300;
        for (uint32_t j = 0; j < h->length; j++) {
            p[j] = 0;
            for (uint32_t i = 0; i < h->d; i++)
                p[j] += h->scale * h->q[r * h->d + i] * h->k[j * h->d + i];
            top = fmax(top, p[j]);
        }
        for (uint32_t j = 0; j < h->length; j++)
            sum += p[j] = exp(p[j] - top);
        for (uint32_t j = 0; j < h->length; j++)
            p[j] *= (double)mask_define(&h->a->dropout, h->a->head * 65536 + r, j, h->a->example) / sum;
        for (uint32_t i = 0; i < h->d; i++) {
            double o = 0;
            for (uint32_t j = 0; j < h->length; j++)
                o += p[j] * h->v[j * h->d + i];
            h->out[r * h->d + i] = o;
            total += o * h->dout[r * h->d + i];
        }
    }
    free(p);
    return total;
}

// Rows `from` floats apart into rows of d doubles.
static double *packed(const float *x, size_t rows, size_t d, size_t from) {
    double *y = doubles(NULL, rows * d);
    for (size_t i = 0; x && i < rows * d; i++)
        y[i] = x[i / d * from + i % d];
    return y;
}

static void check_rows(const float *got, const double *want, size_t rows, size_t d, size_t stride, double absolute) {
    for (size_t r = 0; r < rows; r++) {
        check(got + r * stride, want + r * d, d, absolute, 1e-5);
        for (size_t i = d; i < stride && r + 1 < rows; i++)
            assert_true(got[r * stride + i] == 0); // nothing written between the rows
    }
}

// All elements of small inputs, some of large ones.
static void check_slopes(const float *got, const struct head *h, double *x, size_t rows, size_t stride) {
    const size_t n = rows * h->d, every = n > 256 ? n / 23 : 1;
    for (size_t i = 0; i < n; i += every) {
        const double want = slope(head_define, h, &x[i]);
        check(&got[i / h->d * stride + i % h->d], &want, 1, 5e-6, 1e-5);
    }
}

struct shape {
    uint32_t length, rows_q, d, threshold;
};

static const struct shape shapes[] = {
    {1, 1, 8, 0},    {2, 2, 13, 0},        {7, 7, 13, 6554},  {16, 16, 16, 0},   {17, 17, 64, 6554},
    {31, 31, 32, 0}, {31, 1, 32, 0},       {33, 1, 13, 6554}, {33, 33, 8, 6554}, {70, 70, 64, 13107},
    {70, 1, 64, 0},  {130, 130, 64, 6554}, {5, 5, 40, 655},
};
#define N_SHAPES (sizeof shapes / sizeof *shapes)

static void check_attention(const struct ops *ops, const struct shape *s, bool backward) {
    const size_t stride = 3 * s->d + 5, stride_out = s->rows_q == 1 ? s->d : s->d + 2;
    float *heads = normals(s->length * stride, 0, 1), *dheads = floats(s->length * stride);
    float *dout = normals(s->rows_q * stride_out, 0, 1), *out = floats(s->rows_q * stride_out);
    float *scratch = floats(attention_scratch(s->length, s->d));
    for (size_t i = 0; i < attention_scratch(s->length, s->d); i++)
        scratch[i] = NAN; // what was there before must not matter
    struct attention a = {.q = heads, .k = heads + s->d, .v = heads + 2 * s->d, .stride = stride};
    a.stride_out = stride_out;
    a.rows_q = s->rows_q, a.length = s->length, a.head = 2, a.example = 9, a.head_size = s->d;
    a.scale = 1 / sqrtf((float)s->d), a.dropout = (struct dropout){77, 5, s->threshold};
    struct head h = {s->rows_q, s->length, s->d, a.scale, NULL, NULL, NULL, NULL, NULL, &a};
    h.q = packed(a.q, s->rows_q, s->d, stride), h.k = packed(a.k, s->length, s->d, stride);
    h.v = packed(a.v, s->length, s->d, stride), h.dout = packed(dout, s->rows_q, s->d, stride_out);
    h.out = packed(NULL, s->rows_q, s->d, stride_out);
    if (backward) {
        ops->attention_backward(dheads, dheads + s->d, dheads + 2 * s->d, dout, &a, scratch);
        check_slopes(dheads, &h, h.q, s->rows_q, stride);
        check_slopes(dheads + s->d, &h, h.k, s->length, stride);
        check_slopes(dheads + 2 * s->d, &h, h.v, s->length, stride);
        for (size_t i = 0; i < s->length * stride; i++)
            assert_true(i % stride < 3 * s->d || dheads[i] == 0); // nothing written between the rows
    } else {
        head_define(&h);
        ops->attention_forward(out, &a, scratch);
        check_rows(out, h.out, s->rows_q, s->d, stride_out, 2e-6);
        a.rows_q = 1; // the first row alone: the same bits
        ops->attention_forward(dheads, &a, scratch);
        check_bits(dheads, out, s->d);
    }
    free(heads), free(dheads), free(dout), free(out), free(scratch);
    free(h.q), free(h.k), free(h.v), free(h.out), free(h.dout);
}

static void check_attention_forward(const struct ops *ops) {
    for (size_t i = 0; i < N_SHAPES; i++)
        check_attention(ops, &shapes[i], false);
    check_attention(ops, &(struct shape){512, 512, 64, 6554}, false);
}

static void check_attention_backward(const struct ops *ops) {
    for (size_t i = 0; i < N_SHAPES; i++)
        check_attention(ops, &shapes[i], true);
}

// Sixteen running sums and a tree, to the bit; nothing is lost or counted twice.
static void check_squares(const struct ops *ops) {
    for (size_t n = 0; n <= 100; n++) {
        float *x = normals(n, 0, 1);
        double sums[16] = {0};
        for (size_t i = 0; i < n; i++)
            sums[i % 16] += (double)x[i] * (double)x[i];
        for (size_t width = 8; width > 0; width /= 2)
            for (size_t i = 0; i < width; i++)
                sums[i] += sums[i + width];
        assert_true(ops->squares(x, n) == sums[0]);
        free(x);
    }
}

// --- Tile kernels: equal bits with the chain of fused multiply-adds (model_gemm.c has more)

static void check_gemm_tile(const struct ops *ops) {
    for (size_t rows = 1; rows <= 30; rows++)
        for (size_t columns = 1; columns <= 32; columns += rows % 2 ? 31 : 5) {
            const size_t k = 9 + rows;
            float *x = normals(rows * k, 0, 1), *block = normals(k * 32, 0, 1), *bias = normals(columns, 0, 1);
            float *y = floats(rows * 40), *want = floats(rows * 40);
            for (size_t m = 0; m < rows; m++)
                for (size_t n = 0; n < columns; n++) {
                    float sum = bias[n];
                    for (size_t i = 0; i < k; i++)
                        sum = fmaf(x[m * k + i], block[i * 32 + n], sum);
                    for (size_t i = 0; i < k; i++)
                        sum = fmaf(x[m * k + i], block[i * 32 + n], sum);
                    want[m * 40 + n] = sum;
                }
            const struct gemm_ahead ahead = {block, columns, rows % 2, 2}; // changes nothing
            ops->gemm_tile(y, 40, x, k, block, bias, rows, k, columns, false, &ahead);
            ops->gemm_tile(y, 40, x, k, block, NULL, rows, k, columns, true, NULL);
            check_bits(y, want, rows * 40);
            free(x), free(block), free(bias), free(y), free(want);
        }
}

static void check_gemm_weight_tile(const struct ops *ops) {
    static const uint32_t offsets[] = {0, 3, 3, 8, 20};
    for (size_t columns = 1; columns <= 32; columns++) {
        const size_t k = 29, k0 = columns % 7, k1 = k - columns % 5;
        float *x = normals(20 * k, 0, 1), *dy = normals(20 * columns, 0, 1);
        float *block = floats(k * 32), *want = floats(k * 32);
        for (size_t i = k0; i < k1; i++)
            for (size_t n = 0; n < columns; n++) {
                float part[4] = {0};
                for (size_t p = 0; p < 4; p++)
                    for (size_t t = offsets[p]; t < offsets[p + 1]; t++)
                        part[p] = fmaf(x[t * k + i], dy[t * columns + n], part[p]);
                want[i * 32 + n] = (part[0] + part[1]) + (part[2] + part[3]);
            }
        ops->gemm_weight_tile(block, dy, columns, x, k, offsets, 4, k0, k1, columns, columns % 2 ? dy : NULL, columns);
        check_bits(block, want, k * 32);
        free(x), free(dy), free(block), free(want);
    }
}

static void check_gemm_transpose(const struct ops *ops) {
    for (size_t n = 1; n <= 70; n += 3)
        for (size_t k = 1; k <= 97; k += 12) {
            const size_t padded = (n + 31) / 32 * 32;
            float *tiles = normals(padded * k, 0, 1), *panel = floats(padded * 32), *want = floats(padded * 32);
            for (size_t k0 = 0; k0 < k; k0 += 32) {
                for (size_t i = 0; i < n * 32; i++)
                    want[i] = k0 + i % 32 < k ? tiles[(i / 32 / 32 * k + k0 + i % 32) * 32 + i / 32 % 32] : 0.0f;
                ops->gemm_transpose(panel, tiles, n, k, k0);
                check_bits(panel, want, n * 32);
            }
            free(tiles), free(panel), free(want);
        }
}

// The number that half `i` of a pair holds (0: the low one).
static float half_of(float pair, int i) {
    uint32_t bits;
    memcpy(&bits, &pair, sizeof bits);
    return bf16_to_float((uint16_t)(bits >> 16 * i));
}

// VDPBF16PS as Intel's manual has it.
static float dot(float a, float b, float sum) {
    return fmaf(half_of(a, 0), half_of(b, 0), fmaf(half_of(a, 1), half_of(b, 1), sum));
}

static float *pairs_normal(const struct ops *ops, size_t n) {
    float *x = normals(2 * n, 0, 1), *pairs = floats(n);
    ops->pairs_row(pairs, x, 2 * n);
    free(x);
    return pairs;
}

static void check_gemm_tile_pairs(const struct ops *ops) {
    for (size_t rows = 1; rows <= 30; rows++)
        for (size_t columns = 1; columns <= 32; columns += rows % 2 ? 31 : 5) {
            const size_t k = 9 + rows;
            float *x = pairs_normal(ops, rows * k), *block = pairs_normal(ops, k * 32), *bias = normals(columns, 0, 1);
            float *y = floats(rows * 40), *want = floats(rows * 40);
            for (size_t m = 0; m < rows; m++)
                for (size_t n = 0; n < columns; n++) {
                    float sum = bias[n];
                    for (size_t i = 0; i < 2 * k; i++)
                        sum = dot(x[m * k + i % k], block[i % k * 32 + n], sum);
                    want[m * 40 + n] = sum;
                }
            ops->gemm_tile_pairs(y, 40, x, k, block, bias, rows, k, columns, false, NULL);
            ops->gemm_tile_pairs(y, 40, x, k, block, NULL, rows, k, columns, true, NULL);
            check_bits(y, want, rows * 40);
            free(x), free(block), free(bias), free(y), free(want);
        }
}

static void check_gemm_weight_tile_pairs(const struct ops *ops) {
    static const uint32_t offsets[] = {0, 3, 3, 8, 20};
    for (size_t columns = 1; columns <= 32; columns++) {
        const size_t k = 29, k0 = columns % 7, k1 = k - columns % 5;
        float *x = pairs_normal(ops, 20 * k), *dy = pairs_normal(ops, 20 * columns);
        float *block = floats(k * 32), *want = floats(k * 32);
        for (size_t i = k0; i < k1; i++)
            for (size_t n = 0; n < columns; n++) {
                float part[4] = {0};
                for (size_t p = 0; p < 4; p++)
                    for (size_t t = offsets[p]; t < offsets[p + 1]; t++)
                        part[p] = dot(x[t * k + i], dy[t * columns + n], part[p]);
                want[i * 32 + n] = (part[0] + part[1]) + (part[2] + part[3]);
            }
        ops->gemm_weight_tile_pairs(block, dy, columns, x, k, offsets, 4, k0, k1, columns, NULL, 0);
        check_bits(block, want, k * 32);
        free(x), free(dy), free(block), free(want);
    }
}

// Element (n, k) of a bf16 copy with k columns of the tensor.
static float copy_at(const float *copy, size_t k_all, size_t n, size_t k) {
    return half_of(copy[(n / 32 * ((k_all + 1) / 2) + k / 2) * 32 + n % 32], k % 2);
}

static void check_gemm_transpose_pairs(const struct ops *ops) {
    for (size_t n = 1; n <= 70; n += 3)
        for (size_t k = 1; k <= 97; k += 12) {
            const size_t half = (n + 1) / 2, padded = (n + 31) / 32 * 32;
            float *copy = pairs_normal(ops, padded * ((k + 1) / 2)), *panel = floats((half + 3) * 32);
            float *got = floats(half * 64), *want = floats(half * 64);
            for (size_t k0 = 0; k0 < k; k0 += 32) {
                ops->gemm_transpose_pairs(panel, copy, half, k, k0);
                for (size_t i = 0; i < half * 64; i++) {
                    const size_t column = k0 + i / 2 % 32;
                    got[i] = half_of(panel[i / 2], i % 2);
                    want[i] = column < (k + 1) / 2 * 2 ? copy_at(copy, k, i / 64 * 2 + i % 2, column) : 0.0f;
                }
                check_bits(got, want, half * 64);
            }
            free(copy), free(panel), free(got), free(want);
        }
}

// Every kind of float that rounding treats apart: a tie up and down, one beside each, the largest, an infinity, a NaN
// whose set bits are all below the kept ones, denormals, zeros.
static const uint32_t hard_bits[] = {0x3f808000, 0x3f818000, 0x3f807fff, 0x3f808001, 0x7f7fffff, 0x7f7f7fff,
                                     0x7f800000, 0xff800000, 0x7f800001, 0xffc00000, 0x00000001, 0x80008000,
                                     0x00018000, 0x00000000, 0x80000000, 0x807fffff, 0x00800000};
static const uint16_t hard_halves[] = {0x3f80, 0x3f82, 0x3f80, 0x3f81, 0x7f80, 0x7f7f, 0x7f80, 0xff80, 0x7fc0,
                                       0xffc0, 0x0000, 0x8000, 0x0002, 0x0000, 0x8000, 0x8080, 0x0080};
#define HARD (sizeof hard_bits / sizeof *hard_bits)

static void check_pairs_row(const struct ops *ops) {
    float x[HARD + 64], out[(HARD + 64) / 2 + 2];
    for (size_t n = HARD; n <= HARD + 64; n++) {
        uint16_t halves[2 * (sizeof out / sizeof *out)];
        memcpy(x, hard_bits, sizeof hard_bits);
        for (size_t i = HARD; i < n; i++)
            x[i] = (float)rng_normal(&stream);
        memset(out, 0xff, sizeof out);
        ops->pairs_row(out, x, n);
        memcpy(halves, out, sizeof halves);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(halves[i], i < HARD ? hard_halves[i] : bf16_from_float(x[i]));
        assert_true(n % 2 == 0 || halves[n] == 0);
        assert_int_equal(halves[n + n % 2], 0xffff); // nothing behind is touched
    }
}

static void check_pairs_rows(const struct ops *ops) {
    for (size_t n = 1; n <= 70; n++) {
        float *even = normals(n, 0, 1), *odd = normals(n, 0, 1), *out = floats(n);
        memcpy(odd, hard_bits, (n < HARD ? n : HARD) * sizeof *odd);
        ops->pairs_rows(out, even, odd, n);
        for (size_t i = 0; i < n; i++) {
            uint32_t bits;
            memcpy(&bits, &out[i], sizeof bits);
            assert_int_equal(bits & 0xffff, bf16_from_float(even[i]));
            assert_int_equal(bits >> 16, i < HARD ? hard_halves[i] : bf16_from_float(odd[i]));
        }
        ops->pairs_rows(out, even, NULL, n);
        for (size_t i = 0; i < n; i++)
            assert_true(half_of(out[i], 0) == bf16_to_float(bf16_from_float(even[i])) && half_of(out[i], 1) == 0);
        free(even), free(odd), free(out);
    }
}

static void check_pairs_rows_kept(const struct ops *ops) {
    for (size_t n = 1; n <= 70; n++) {
        float *x = normals(2 * n, 0, 1), *even = floats(n), *odd = floats(n), *out = floats(n), *want = floats(n);
        ops->pairs_row(even, x, n), ops->pairs_row(odd, x + n, n);
        ops->pairs_rows(want, x, x + n, n);
        ops->pairs_rows_kept(out, even, odd, n);
        assert_memory_equal(out, want, n * sizeof *out);
        ops->pairs_rows(want, x, NULL, n);
        ops->pairs_rows_kept(out, even, NULL, n);
        assert_memory_equal(out, want, n * sizeof *out);
        free(x), free(even), free(odd), free(out), free(want);
    }
}

static void check_pairs_tile(const struct ops *ops) {
    for (size_t k = 1; k <= 9; k++) {
        float *tile = normals(k * 32, 0, 1), *out = floats((k + 1) / 2 * 32);
        memcpy(tile, hard_bits, sizeof hard_bits);
        ops->pairs_tile(out, tile, k);
        for (size_t i = 0; i < (k + 1) / 2 * 64; i++) {
            uint32_t bits;
            memcpy(&bits, &out[i / 64 * 32 + i % 32], sizeof bits);
            const size_t row = i / 64 * 2 + i / 32 % 2, at = row * 32 + i % 32;
            const uint16_t wanted = row >= k ? 0 : at < HARD ? hard_halves[at] : bf16_from_float(tile[at]);
            assert_int_equal(bits >> 16 * (i / 32 % 2) & 0xffff, wanted);
        }
        free(tile), free(out);
    }
}

static void check_bf16_peak(const struct ops *ops) {
    const double flops = ops->bf16_peak(1000);
    assert_true(flops >= 2 * 1000);
    assert_true(ops->bf16_peak(3000) == 3 * flops);
}

static void check_fma_peak(const struct ops *ops) {
    const double flops = ops->fma_peak(1000);
    assert_true(flops >= 2 * 1000);
    assert_true(ops->fma_peak(3000) == 3 * flops); // it counts what it does; how long that takes is its caller's
}

static const struct row rows[] = {
    {"fma_peak", check_fma_peak},
    {"embed_row", check_embed_row},
    {"layernorm_forward", check_layernorm_forward},
    {"layernorm_backward", check_layernorm_backward},
    {"layernorm_parameters", check_layernorm_parameters},
    {"column_sums", check_column_sums},
    {"dropout_bits", check_dropout_bits},
    {"dropout", check_dropout},
    {"add", check_add},
    {"squares", check_squares},
    {"gelu_forward", check_gelu_forward},
    {"gelu_backward", check_gelu_backward},
    {"tanh_forward", check_tanh_forward},
    {"tanh_backward", check_tanh_backward},
    {"attention_forward", check_attention_forward},
    {"attention_backward", check_attention_backward},
    {"cross_entropy", check_cross_entropy},
    {"span_loss", check_span_loss},
    {"softmax", check_softmax},
    {"normals", check_normals},
    {"gemm_tile", check_gemm_tile},
    {"gemm_weight_tile", check_gemm_weight_tile},
    {"gemm_transpose", check_gemm_transpose},
    {"bf16_peak", check_bf16_peak},
    {"gemm_tile_pairs", check_gemm_tile_pairs},
    {"gemm_weight_tile_pairs", check_gemm_weight_tile_pairs},
    {"gemm_transpose_pairs", check_gemm_transpose_pairs},
    {"pairs_row", check_pairs_row},
    {"pairs_rows", check_pairs_rows},
    {"pairs_rows_kept", check_pairs_rows_kept},
    {"pairs_tile", check_pairs_tile},
};
#define N_ROWS (sizeof rows / sizeof *rows)

static uint64_t seen_plain[N_ROWS];

static void test_walk(const struct ops *ops) {
    assert_non_null(ops);
    for (size_t i = 0; i < N_ROWS; i++) {
        printf("%s: %s\n", isa_name(ops->isa), rows[i].name);
        stream = rng_stream(1, i);
        seen = 0xcbf29ce484222325u;
        rows[i].check(ops);
        if (ops->isa == ISA_PLAIN)
            seen_plain[i] = seen;
        else if (seen != seen_plain[i])
            fail_msg("%s: other bits than plain's", rows[i].name);
    }
}

static void test_plain(void **state) {
    (void)state;
    test_walk(ops_table(ISA_PLAIN));
}

static void test_avx2(void **state) {
    (void)state;
    SUPPORT_NEED(ops_table(ISA_AVX2), "avx2");
    test_walk(ops_table(ISA_AVX2));
}

static void test_avx512(void **state) {
    (void)state;
    SUPPORT_NEED(ops_table(ISA_AVX512), "avx512");
    test_walk(ops_table(ISA_AVX512));
}

static void test_avx512bf16(void **state) {
    (void)state;
    SUPPORT_NEED(ops_table(ISA_AVX512BF16), "avx512bf16");
    test_walk(ops_table(ISA_AVX512BF16));
}

static void assert_nan_row(const float *y, size_t n) {
    for (size_t i = 0; i < n; i++)
        assert_true(isnan(y[i]));
}

#define WIDE 50
// A NaN (or an infinity, where two of them meet) is never lost on the way to the loss.
static void non_finite(const struct ops *ops) {
    float x[WIDE], y[WIDE], ones[WIDE], dy[WIDE], slope[WIDE], sum[WIDE], statistics[2];
    const uint16_t none[4] = {0};
    double loss;
    for (size_t at = 0; at < WIDE; at += 7) {
        for (size_t i = 0; i < WIDE; i++)
            x[i] = ones[i] = dy[i] = 1 + (float)i;
        x[at] = NAN;
        ops->gelu_forward(y, slope, x, 1, WIDE, WIDE);
        assert_true(isnan(y[at]) && !isnan(y[(at + 1) % WIDE]));
        assert_true(isnan(slope[at]) && !isnan(slope[(at + 1) % WIDE]));
        ops->gelu_backward(y, ones, x, 1, WIDE, WIDE);
        assert_true(isnan(y[at]));
        ops->tanh_forward(y, x, WIDE);
        assert_true(isnan(y[at]) && !isnan(y[(at + 1) % WIDE]));
        ops->dropout(y, x, 1, WIDE, 0, 0, &(struct dropout){1, 2, 60000});
        assert_true(isnan(y[at]));
        ops->softmax(y, x, 1, WIDE);
        assert_nan_row(y, WIDE);
        struct layernorm norm = norm_of(memcpy(sum, x, sizeof sum), ones, ones, statistics, 1, WIDE);
        norm.kept = none; // all dropped
        ops->layernorm_forward(y, &norm, ones);
        assert_nan_row(y, WIDE);
        norm = norm_of(ones, ones, ones, statistics, 1, WIDE);
        norm.kept = none, statistics[0] = statistics[1] = 1;
        ops->layernorm_backward(y, sum, x, &norm);
        assert_nan_row(y, WIDE);
        assert_nan_row(sum, WIDE);
        ops->cross_entropy(&loss, dy, x, &(int32_t){3}, 1, WIDE, 1, NULL);
        assert_true(isnan(loss));
        assert_nan_row(dy, WIDE);
        assert_true(isnan(ops->span_loss(dy, x, 1, 2, WIDE / 2, 1)));
        for (int i = at % 2; i < WIDE / 2 * 2; i += 2) // the other column is sound
            assert_true(isnan(dy[i]) && !isnan(dy[i ^ 1]));
        x[at] = INFINITY;
        ops->softmax(y, x, 1, WIDE);
        assert_true(isnan(y[at]));
    }
}

static void test_non_finite(void **state) {
    (void)state;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        if (ops_table((enum isa)isa))
            non_finite(ops_table((enum isa)isa));
}

static void test_every_op_has_a_row(void **state) {
    (void)state;
    const size_t first = offsetof(struct ops, isa) + sizeof(void *); // the first op, aligned
    assert_int_equal((sizeof(struct ops) - first) / sizeof(void (*)(void)), N_ROWS);
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        const struct ops *ops = ops_table((enum isa)isa);
        if (!ops)
            continue;
        assert_int_equal(ops->isa, isa);
        for (size_t i = 0; i < N_ROWS; i++) {
            void (*op)(void);
            memcpy(&op, (const char *)ops + first + i * sizeof op, sizeof op);
            assert_true(op != NULL);
        }
    }
    assert_null(ops_table(ISA_COUNT));
}

int main(void) {
    pool_flush_denormals(); // as in every thread of the product
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),      cmocka_unit_test(test_avx2),       cmocka_unit_test(test_avx512),
        cmocka_unit_test(test_avx512bf16), cmocka_unit_test(test_non_finite), cmocka_unit_test(test_every_op_has_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
