// SPDX-License-Identifier: Apache-2.0
// The three products on one instruction set, as shares of the peak that a register-only loop of fused multiply-adds
// reaches in the same run.
//   bench_gemm [threads] [plain|avx2|avx512]
#include "base/pool.h"
#include "base/rng.h"
#include "model/gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *filled(size_t n) {
    float *x = aligned_alloc(64, (n * sizeof *x + 63) / 64 * 64);
    struct rng rng = rng_stream(1, n);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)rng_normal(&rng);
    return x;
}

struct shape {
    size_t m, n, k;
};

struct operands {
    struct gemm *gemm;
    struct shape s;
    uint32_t parts, offsets[17];
    float *x, *y, *tiles, *dtiles, *bias;
};

static void forward(const struct operands *o) {
    gemm_forward(o->gemm, o->y, o->s.n, o->x, o->s.k, o->tiles, o->bias, o->s.m, o->s.n, o->s.k);
}

static void input(const struct operands *o) {
    gemm_input(o->gemm, o->x, o->s.k, o->y, o->s.n, o->tiles, o->s.m, o->s.n, o->s.k, false);
}

static void weight(const struct operands *o) {
    gemm_weight(o->gemm, o->dtiles, o->y, o->s.n, o->x, o->s.k, o->offsets, o->parts, o->s.n, o->s.k);
}

// GFLOP/s of the best of some runs.
static double measure(void (*product)(const struct operands *), const struct operands *o) {
    double best = 1e9;
    const double end = now() + 0.3;
    for (int i = 0; i < 5 || now() < end; i++) {
        const double begin = now();
        product(o);
        const double took = now() - begin;
        best = took < best ? took : best;
    }
    return 2e-9 * (double)o->s.m * (double)o->s.n * (double)o->s.k / best;
}

// GFLOP/s of `threads` threads that do nothing but fused multiply-adds, from one thread's best.
static double measure_peak(const struct ops *ops, unsigned threads) {
    double best = 0;
    for (int i = 0; i < 50; i++) {
        const double begin = now(), flops = ops->fma_peak(200000), rate = flops / (now() - begin);
        best = rate > best ? rate : best;
    }
    return threads * 1e-9 * best;
}

static void shape_run(struct gemm *gemm, struct shape s, uint32_t parts, double peak) {
    struct operands o = {.gemm = gemm, .s = s, .parts = parts};
    for (uint32_t p = 0; p <= parts; p++)
        o.offsets[p] = (uint32_t)(s.m * p / parts);
    const size_t padded = (s.n + 31) / 32 * 32;
    o.x = filled(s.m * s.k), o.y = filled(s.m * s.n), o.tiles = filled(padded * s.k), o.dtiles = filled(padded * s.k);
    o.bias = filled(s.n);
    printf("%5zu %5zu %5zu %4u  %7.2f %7.2f %7.2f\n", s.m, s.n, s.k, parts, measure(forward, &o) / peak,
           measure(weight, &o) / peak, measure(input, &o) / peak);
    free(o.x), free(o.y), free(o.tiles), free(o.dtiles), free(o.bias);
}

int main(int argc, char **argv) {
    enum isa isa = isa_best();
    for (int i = 0; argc > 2 && i < ISA_COUNT; i++)
        if (strcmp(argv[2], isa_name((enum isa)i)) == 0)
            isa = (enum isa)i;
    struct pool *pool;
    struct gemm *gemm;
    const struct ops *ops = ops_table(isa);
    if (!ops || pool_open(&pool, argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1) != STATUS_OK ||
        gemm_open(&gemm, pool, ops, 3072) != STATUS_OK)
        return 70;
    const double peak = measure_peak(ops, pool_threads(pool));
    printf("%s, %u threads, peak of fused multiply-adds: %.0f GFLOP/s = 1\n", isa_name(isa), pool_threads(pool), peak);
    printf("    M     N     K parts  forward  weight   input\n");
    static const struct shape shapes[] = {{430, 768, 768},  {430, 3072, 768}, {430, 768, 3072}, {430, 384, 384},
                                          {430, 1536, 384}, {430, 384, 1536}, {32, 768, 768},   {32, 3072, 768},
                                          {8, 768, 768},    {1, 768, 768},    {31, 384, 384},   {16, 3, 768}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        shape_run(gemm, shapes[i], 1, peak);
    shape_run(gemm, shapes[0], 16, peak);
    gemm_close(gemm);
    pool_close(pool);
    return 0;
}
