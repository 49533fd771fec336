// SPDX-License-Identifier: Apache-2.0
// finetuned bench gemm: the three products of a linear layer (model/gemm.h) at the shapes of the models in use, as
// shares of the peak that a register-only loop of fused multiply-adds reaches on the same threads in the same run.
// Memory is as cold as in a training step: each run takes the next of as many weights (and weight gradients, and inputs
// kept from the forward pass) as a model of that width has; what the operation before would just have written is one
// array that stays.
#include "daemon/bench/bench.h"
#include "daemon/bench/peer.h"

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
#define RUNS_MAX 4096
#define WEIGHTS_LIMIT ((size_t)400 << 20) // bytes of all weights
#define TREE_PARTS 16u
#define RANDOM ((size_t)1 << 18) // floats; then they come again
#define SIZE_LIMIT 65536u        // of --shape

static struct {
    int64_t threads, milliseconds;
    int isa;
    const char *shape;
    bool peer, json;
} given = {.isa = -1, .milliseconds = 100};

struct shape {
    size_t m, n, k;
};

// RoBERTa-base's layers and MiniLM's at a batch of tweets, RoBERTa-base's at one text, the last layer's rows of a batch
// of 16, a head.
static const struct shape shapes_usual[] = {
    {430, 768, 768},  {430, 3072, 768}, {430, 768, 3072}, {430, 384, 384}, {430, 1536, 384},
    {430, 384, 1536}, {32, 768, 768},   {32, 3072, 768},  {32, 768, 3072}, {16, 768, 768},
    {16, 3072, 768},  {16, 768, 3072},  {16, 3, 768},
};

enum product { FORWARD, INPUT, WEIGHT };
static const char *const product_names[] = {"forward", "input", "weight"};

struct operands {
    struct gemm *gemm;
    const struct peer *peer; // NULL: our own products
    struct shape s;
    enum product product;
    uint32_t parts, offsets[TREE_PARTS + 1];
    float *x, *y, *bias; // (M, K), (M, N), (N): in cache
    float *tiles, *kept; // [count] tiles of (N, K); [count] (M, K)
    size_t count, at;    // weights; the one whose turn it is
    size_t tiles_floats; // of one
    struct arena arena;
    double seconds[RUNS_MAX];
};

// Results by product and shape, as members of JSON objects.
struct tables {
    struct text flops, tree, peer;
};

struct gemm_bench {
    struct pool *pool;
    struct peer *peer; // NULL: not wanted
    struct gemm *gemm;
    const struct ops *ops;
    double peak; // FLOPs a second of all threads
    struct text *json;
};

// The same by the peer, whose weights (N, K) are row-major; they take the place of tiles.
static enum status product_peer(const struct operands *o, float *weights, const float *kept) {
    const struct shape s = o->s;
    switch (o->product) {
    case FORWARD:
        return peer_product(o->peer, o->y, o->x, false, weights, true, s.m, s.n, s.k);
    case INPUT:
        return peer_product(o->peer, o->x, o->y, false, weights, false, s.m, s.k, s.n);
    case WEIGHT:
        break;
    }
    return peer_product(o->peer, weights, o->y, true, kept, false, s.n, s.k, s.m);
}

static enum status product_run(struct operands *o) {
    const struct shape s = o->s;
    float *tiles = o->tiles + o->at * o->tiles_floats;
    const float *kept = o->kept + o->at * s.m * s.k;
    o->at = (o->at + 1) % o->count;
    if (o->peer)
        return product_peer(o, tiles, kept);
    switch (o->product) {
    case FORWARD:
        gemm_forward(o->gemm, o->y, s.n, o->x, s.k, tiles, o->bias, s.m, s.n, s.k);
        break;
    case INPUT:
        gemm_input(o->gemm, o->x, s.k, o->y, s.n, tiles, s.m, s.n, s.k, false);
        break;
    case WEIGHT: // (the gradient takes the place of a weight that is not wanted before all others have been)
        gemm_weight(o->gemm, tiles, o->y, s.n, kept, s.k, o->offsets, o->parts, s.n, s.k, NULL);
        break;
    }
    return STATUS_OK;
}

// FLOPs a second, by the median of some runs.
static enum status product_measure(double *flops, struct operands *o, enum product product, uint32_t parts) {
    const double end = clock_seconds() + 1e-3 * (double)given.milliseconds;
    int runs = 0;
    o->product = product;
    o->parts = parts;
    for (uint32_t p = 0; p <= parts; p++)
        o->offsets[p] = (uint32_t)(o->s.m * p / parts);
    for (; runs < RUNS_MIN || (runs < RUNS_MAX && clock_seconds() < end); runs++) {
        const double begin = clock_seconds();
        TRY(product_run(o));
        o->seconds[runs] = clock_seconds() - begin;
    }
    *flops = 2.0 * (double)o->s.m * (double)o->s.n * (double)o->s.k / bench_median(o->seconds, (size_t)runs);
    return STATUS_OK;
}

static float *operand_take(struct arena *arena, size_t n) {
    float *x = arena_take(arena, n * sizeof *x);
    struct rng rng = rng_stream(1, n);
    const size_t made = n < RANDOM ? n : RANDOM;
    for (size_t i = 0; i < made; i++)
        x[i] = (float)(rng_uniform(&rng) - 0.5);
    for (size_t i = made; i < n; i++)
        x[i] = x[i - made];
    return x;
}

// Weights of (N, K) that a model as wide as its shorter side has: 12 squares of that side a layer, a layer for every 64
// of it (12 x 768, 6 x 384).
static size_t weights_count(struct shape s, size_t bytes) {
    const size_t width = s.n < s.k ? s.n : s.k, all = 12 * width * width * sizeof(float) * (width / 64);
    return (all < WEIGHTS_LIMIT ? all : WEIGHTS_LIMIT) / bytes + 1;
}

static enum status operands_open(struct operands *o, struct gemm *gemm, struct shape s) {
    const size_t padded = (s.n + PARAM_TILE - 1) / PARAM_TILE * PARAM_TILE;
    *o = (struct operands){.gemm = gemm, .s = s, .tiles_floats = padded * s.k};
    o->count = weights_count(s, o->tiles_floats * sizeof(float));
    const size_t sizes[] = {s.m * s.k, s.m * s.n, padded, o->count * o->tiles_floats, o->count * s.m * s.k};
    float **const operands[] = {&o->x, &o->y, &o->bias, &o->tiles, &o->kept};
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

static void table_add(struct text *table, const char *product, struct shape s, const char *how, double value) {
    text_printf(table, "%s\"%s%s%zux%zux%zu%s\": %.9g", table->size ? ", " : "", product, *product ? " " : "", s.m, s.n,
                s.k, how, value);
}

// Forward, input gradient, weight gradient as one sum and as a tree over 16 parts.
static enum status shape_products(struct gemm_bench *b, struct operands *o, struct tables *tables) {
    static const enum product products[] = {FORWARD, INPUT, WEIGHT, WEIGHT};
    double flops[4];
    for (int i = 0; i < 4; i++) {
        TRY(product_measure(&flops[i], o, products[i], i == 3 ? TREE_PARTS : 1));
        product_report(b, o, flops[i]);
        table_add(&tables->flops, product_names[products[i]], o->s, i == 3 ? " 16 parts" : "", 1e-9 * flops[i]);
    }
    table_add(&tables->tree, "", o->s, "", flops[2] / flops[3]);
    if (!b->json)
        printf(" %6.2f\n", flops[2] / flops[3]);
    return STATUS_OK;
}

// The peer's three, in the line below.
static enum status shape_peer(struct gemm_bench *b, struct operands *o, struct text *table) {
    if (!b->peer)
        return STATUS_OK;
    o->peer = b->peer;
    if (!b->json)
        printf("%17s ", "oneDNN");
    for (int i = 0; i < 3; i++) {
        double flops;
        TRY(product_measure(&flops, o, (enum product)i, 1));
        table_add(table, product_names[i], o->s, "", 1e-9 * flops);
        if (!b->json)
            printf(" %8.1f %5.2f", 1e-9 * flops, flops / b->peak);
    }
    if (!b->json)
        putchar('\n');
    return STATUS_OK;
}

static enum status shape_run(struct gemm_bench *b, struct shape s, struct tables *tables) {
    struct operands *o = malloc(sizeof *o);
    if (!o)
        return status_set(STATUS_SYSTEM, "bench gemm: no memory");
    enum status status = operands_open(o, b->gemm, s);
    if (status == STATUS_OK) {
        if (!b->json)
            printf("%5zu %5zu %5zu ", s.m, s.n, s.k);
        status = shape_products(b, o, tables);
        if (status == STATUS_OK)
            status = shape_peer(b, o, &tables->peer);
        arena_release(&o->arena);
    }
    free(o);
    return status;
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

static enum status gemm_tail(const struct gemm_bench *b, const struct tables *tables) {
    const char *flops = text_string(&tables->flops), *tree = text_string(&tables->tree);
    if (!flops || !tree || (b->peer && !text_string(&tables->peer)))
        return status_set(STATUS_SYSTEM, "bench gemm: no memory");
    if (!b->json) {
        puts("16 parts: the weight gradient summed as the binary tree over 16 parts of the rows, whose bits do not "
             "depend on\nthe number of ranks; time: as a multiple of one flat sum's.");
        return STATUS_OK;
    }
    text_printf(b->json, "], \"gflops\": {%s}, \"tree_time\": {%s}", flops, tree);
    if (b->peer)
        text_printf(b->json, ", \"onednn_gflops\": {%s}", text_string(&tables->peer));
    text_puts(b->json, "}");
    return STATUS_OK;
}

static enum status shapes_run(struct gemm_bench *b, const struct shape *shapes, size_t n) {
    struct tables tables = {0};
    enum status status = STATUS_OK;
    TRY(peak_measure(&b->peak, b->ops, b->pool, false));
    gemm_head(b);
    for (size_t i = 0; status == STATUS_OK && i < n; i++)
        status = shape_run(b, shapes[i], &tables);
    if (status == STATUS_OK)
        status = gemm_tail(b, &tables);
    text_release(&tables.flops);
    text_release(&tables.tree);
    text_release(&tables.peer);
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

static enum status gemm_open_all(struct gemm_bench *b) {
    enum isa isa = (enum isa)given.isa;
    if (given.isa < 0)
        TRY(isa_choose(&isa));
    b->ops = ops_table(isa);
    if (!b->ops)
        return status_set(STATUS_DEVICE, "bench gemm: this processor or build has no %s (its best: %s)", isa_name(isa),
                          isa_name(isa_best()));
    TRY(pool_open(&b->pool, (unsigned)(given.threads < POOL_THREADS_MAX ? given.threads : POOL_THREADS_MAX)));
    if (given.peer)
        TRY(peer_open(&b->peer, pool_threads(b->pool)));
    return gemm_open(&b->gemm, b->pool, b->ops);
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
    enum status status = gemm_open_all(b);
    if (status == STATUS_OK)
        status = shapes_run(b, shapes, n);
    gemm_close(b->gemm);
    peer_close(b->peer);
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
    {"--ms", FLAG_COUNT, &given.milliseconds, "N", "measure each product so long (default 100); the median counts",
     NULL, false},
    {"--peer", FLAG_SWITCH, &given.peer, NULL, "oneDNN's dnnl_sgemm beside each (libdnnl.so.2; Debian: libdnnl2)", NULL,
     false},
    {"--json", FLAG_SWITCH, &given.json, NULL, "one JSON object", NULL, false},
    FLAGS_END,
};

const struct verb_flags bench_gemm_flags = {
    .verb = "bench gemm",
    .usage = "[--json] [--threads N] [--isa SET] [--shape MxNxK] [--peer]",
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
