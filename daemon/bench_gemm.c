// SPDX-License-Identifier: Apache-2.0
// finetuned bench gemm: the three products of a linear layer (model/gemm.h) at the shapes of the models in use, as
// shares of the peak that a register-only loop of fused multiply-adds reaches on the same threads in the same run.
#include "daemon/bench.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/isa.h"
#include "base/param.h"
#include "base/pool.h"
#include "base/rng.h"
#include "model/gemm.h"
#include "model/peak.h"
#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>

#define RUNS_MIN 5
#define TREE_PARTS 16u
#define SIZE_LIMIT 65536u // of --shape

static struct {
    int64_t threads, milliseconds;
    int isa;
    const char *shape;
    bool json;
} given = {.isa = -1, .milliseconds = 100};

struct shape {
    size_t m, n, k;
};

// RoBERTa-base's layers and MiniLM's at a batch of tweets, the last layer's rows of a batch of 16, a head.
static const struct shape shapes_usual[] = {
    {430, 768, 768},  {430, 3072, 768}, {430, 768, 3072}, {430, 384, 384}, {430, 1536, 384},
    {430, 384, 1536}, {16, 768, 768},   {16, 3072, 768},  {16, 768, 3072}, {16, 3, 768},
};

enum product { FORWARD, INPUT, WEIGHT };
static const char *const product_names[] = {"forward", "input", "weight"};

struct operands {
    struct gemm *gemm;
    struct shape s;
    enum product product;
    uint32_t parts, offsets[TREE_PARTS + 1];
    float *x, *y, *tiles, *dtiles, *bias; // (M, K), (M, N), tiles of (N, K) twice, (N)
    struct arena arena;
};

struct gemm_bench {
    struct pool *pool;
    struct gemm *gemm;
    const struct ops *ops;
    double peak; // FLOPs a second of all threads
    struct text *json;
};

static void product_run(const struct operands *o) {
    const struct shape s = o->s;
    switch (o->product) {
    case FORWARD:
        gemm_forward(o->gemm, o->y, s.n, o->x, s.k, o->tiles, o->bias, s.m, s.n, s.k);
        return;
    case INPUT:
        gemm_input(o->gemm, o->x, s.k, o->y, s.n, o->tiles, s.m, s.n, s.k, false);
        return;
    case WEIGHT:
        gemm_weight(o->gemm, o->dtiles, o->y, s.n, o->x, s.k, o->offsets, o->parts, s.n, s.k, NULL);
        return;
    }
}

// FLOPs a second, the best of some runs.
static double product_measure(struct operands *o, enum product product, uint32_t parts) {
    double best = INFINITY;
    const double end = clock_seconds() + 1e-3 * (double)given.milliseconds;
    o->product = product;
    o->parts = parts;
    for (uint32_t p = 0; p <= parts; p++)
        o->offsets[p] = (uint32_t)(o->s.m * p / parts);
    for (int run = 0; run < RUNS_MIN || clock_seconds() < end; run++) {
        const double begin = clock_seconds();
        product_run(o);
        best = fmin(best, clock_seconds() - begin);
    }
    return 2.0 * (double)o->s.m * (double)o->s.n * (double)o->s.k / best;
}

static float *operand_take(struct arena *arena, size_t n) {
    float *x = arena_take(arena, n * sizeof *x);
    struct rng rng = rng_stream(1, n);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(rng_uniform(&rng) - 0.5);
    return x;
}

static enum status operands_open(struct operands *o, struct gemm *gemm, struct shape s) {
    const size_t padded = (s.n + PARAM_TILE - 1) / PARAM_TILE * PARAM_TILE;
    const size_t sizes[] = {s.m * s.k, s.m * s.n, padded * s.k, padded * s.k, padded};
    *o = (struct operands){.gemm = gemm, .s = s};
    float **const operands[] = {&o->x, &o->y, &o->tiles, &o->dtiles, &o->bias};
    size_t bytes = 0;
    for (int i = 0; i < 5; i++)
        bytes += arena_piece(sizes[i] * sizeof(float));
    TRY(arena_init(&o->arena, bytes, true));
    for (int i = 0; i < 5; i++)
        *operands[i] = operand_take(&o->arena, sizes[i]);
    return STATUS_OK;
}

static void product_report(struct gemm_bench *b, const struct operands *o, double flops) {
    const struct shape s = o->s;
    if (!b->json) {
        printf(" %8.1f %5.2f", 1e-9 * flops, flops / b->peak);
        return;
    }
    text_puts(b->json, b->json->at[b->json->size - 1] == '[' ? "{" : ", {");
    bench_string(b->json, "product", product_names[o->product]);
    bench_number(b->json, "m", (double)s.m);
    bench_number(b->json, "n", (double)s.n);
    bench_number(b->json, "k", (double)s.k);
    bench_number(b->json, "parts", o->parts);
    bench_number(b->json, "gflops", 1e-9 * flops);
    bench_number(b->json, "share", flops / b->peak);
    text_puts(b->json, "}");
}

// Forward, input gradient, weight gradient as one sum and as a tree over 16 parts. The four results are added to
// `table`, by product and shape.
static enum status shape_run(struct gemm_bench *b, struct shape s, struct text *table, struct text *tree) {
    static const enum product products[] = {FORWARD, INPUT, WEIGHT, WEIGHT};
    struct operands o;
    double flops[4];
    TRY(operands_open(&o, b->gemm, s));
    if (!b->json)
        printf("%5zu %5zu %5zu ", s.m, s.n, s.k);
    for (int i = 0; i < 4; i++) {
        flops[i] = product_measure(&o, products[i], i == 3 ? TREE_PARTS : 1);
        product_report(b, &o, flops[i]);
        text_printf(table, "%s\"%s %zux%zux%zu%s\": %.9g", table->size ? ", " : "", product_names[products[i]], s.m,
                    s.n, s.k, i == 3 ? " 16 parts" : "", 1e-9 * flops[i]);
    }
    text_printf(tree, "%s\"%zux%zux%zu\": %.9g", tree->size ? ", " : "", s.m, s.n, s.k, flops[2] / flops[3]);
    if (!b->json)
        printf(" %6.2f\n", flops[2] / flops[3]);
    arena_release(&o.arena);
    return STATUS_OK;
}

static void gemm_head(const struct gemm_bench *b) {
    if (b->json) {
        text_puts(b->json, "{");
        bench_string(b->json, "isa", isa_name(b->ops->isa));
        bench_number(b->json, "threads", pool_threads(b->pool));
        bench_number(b->json, "peak_gflops", 1e-9 * b->peak);
        text_puts(b->json, ", \"shapes\": [");
        return;
    }
    printf("%s, %u thread%s: fused multiply-adds alone reach %.0f GFLOP/s; products in GFLOP/s and as a share of it\n",
           isa_name(b->ops->isa), pool_threads(b->pool), pool_threads(b->pool) == 1 ? "" : "s", 1e-9 * b->peak);
    printf("%5s %5s %5s  %14s %14s %14s %14s %6s\n", "M", "N", "K", "forward", "input grad.", "weight grad.",
           "16 parts", "time");
}

static void gemm_tail(const struct gemm_bench *b, const struct text *table, const struct text *tree) {
    if (b->json)
        text_printf(b->json, "], \"gflops\": {%s}, \"tree_time\": {%s}}", text_string(table), text_string(tree));
    else
        puts("16 parts: the weight gradient summed as the binary tree over 16 parts of the rows, whose bits do not "
             "depend on\nthe number of ranks; time: as a multiple of one flat sum's.");
}

static enum status shapes_run(struct gemm_bench *b, const struct shape *shapes, size_t n) {
    struct text table = {0}, tree = {0};
    enum status status = STATUS_OK;
    TRY(peak_measure(&b->peak, b->ops, b->pool, false));
    gemm_head(b);
    for (size_t i = 0; status == STATUS_OK && i < n; i++)
        status = shape_run(b, shapes[i], &table, &tree);
    if (status == STATUS_OK && (!text_string(&table) || !text_string(&tree)))
        status = status_set(STATUS_SYSTEM, "bench gemm: no memory");
    if (status == STATUS_OK)
        gemm_tail(b, &table, &tree);
    text_release(&table);
    text_release(&tree);
    return status;
}

static bool shape_size(const char *at, size_t size, size_t *out) {
    char digits[8];
    uint64_t value;
    if (size >= sizeof digits)
        return false;
    memcpy(digits, at, size);
    digits[size] = '\0';
    *out = text_to_u64(digits, &value) && value >= 1 && value <= SIZE_LIMIT ? (size_t)value : 0;
    return *out > 0;
}

// "430x768x768"
static enum status shape_parse(struct shape *out, const char *text) {
    const char *first = strchr(text, 'x'), *second = first ? strchr(first + 1, 'x') : NULL;
    if (second && shape_size(text, (size_t)(first - text), &out->m) &&
        shape_size(first + 1, (size_t)(second - first - 1), &out->n) &&
        shape_size(second + 1, strlen(second + 1), &out->k))
        return STATUS_OK;
    return status_set(STATUS_USAGE, "bench gemm: --shape is '%s', must be MxNxK, each from 1 to %u", text, SIZE_LIMIT);
}

static enum status gemm_open_all(struct gemm_bench *b, const struct shape *shapes, size_t n) {
    enum isa isa = (enum isa)given.isa;
    size_t widest = 0;
    for (size_t i = 0; i < n; i++)
        widest = shapes[i].n > widest ? shapes[i].n : widest;
    if (given.isa < 0)
        TRY(isa_choose(&isa));
    b->ops = ops_table(isa);
    if (!b->ops)
        return status_set(STATUS_DEVICE, "bench gemm: this processor or build has no %s (its best: %s)", isa_name(isa),
                          isa_name(isa_best()));
    TRY(pool_open(&b->pool, (unsigned)(given.threads < POOL_THREADS_MAX ? given.threads : POOL_THREADS_MAX)));
    return gemm_open(&b->gemm, b->pool, b->ops, widest);
}

static enum status gemm_run(struct text *json) {
    struct shape one;
    const struct shape *shapes = given.shape ? &one : shapes_usual;
    const size_t n = given.shape ? 1 : sizeof shapes_usual / sizeof *shapes_usual;
    if (given.shape)
        TRY(shape_parse(&one, given.shape));
    struct gemm_bench *b = calloc(1, sizeof *b);
    if (!b)
        return status_set(STATUS_SYSTEM, "bench gemm: no memory");
    b->json = given.json ? json : NULL;
    enum status status = gemm_open_all(b, shapes, n);
    if (status == STATUS_OK)
        status = shapes_run(b, shapes, n);
    gemm_close(b->gemm);
    pool_close(b->pool);
    free(b);
    return status;
}

static const char *const isas[] = {"plain", "avx2", "avx512", "avx512bf16", NULL}; // as enum isa
static const struct flag flags[] = {
    {"--threads", FLAG_COUNT, &given.threads, "N", "threads (default: the CPUs of the process's mask)", NULL, false},
    {"--isa", FLAG_CHOICE, &given.isa, "SET", "plain, avx2, avx512 or avx512bf16 (default: the best of this processor)",
     isas, false},
    {"--shape", FLAG_STRING, &given.shape, "MxNxK", "one shape: M rows, weights (N, K)", NULL, false},
    {"--ms", FLAG_COUNT, &given.milliseconds, "N", "measure each product so long (default 100); the best run counts",
     NULL, false},
    {"--json", FLAG_SWITCH, &given.json, NULL, "one JSON object", NULL, false},
    FLAGS_END,
};

const struct verb_flags bench_gemm_flags = {
    .verb = "bench gemm",
    .usage = "[--json] [--threads N] [--isa SET] [--shape MxNxK]",
    .about = "The three products of a linear layer in GFLOP/s, and as shares of what fused multiply-adds alone reach "
             "in the same run.",
    .flags = flags,
};

enum status bench_gemm(int argc, char **argv, struct text *json) {
    size_t words;
    bool helped;
    TRY(flags_parse(&bench_gemm_flags, argc, argv, argv, &words, &helped));
    return helped ? STATUS_OK : gemm_run(json);
}
