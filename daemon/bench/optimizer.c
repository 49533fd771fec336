// SPDX-License-Identifier: Apache-2.0
// finetuned bench optimizer: the dense update of a table as large as RoBERTa-base's encoder beside a loop that only
// reads and writes the same bytes, in turns; and what the clipping costs where it has to read the gradient.
#include "daemon/bench/bench.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/isa.h"
#include "optim/kernels.h"
#include "optim/optimizer.h"

#include <math.h>
#include <stdlib.h>

#define LAYERS 12
#define COLUMNS 768
#define RUN ((size_t)16384) // floats of a task
#define BYTES 28            // a parameter: weight and both moments read and written, the gradient read

static struct {
    int64_t threads, runs, parameters;
    bool json;
} given = {.runs = 9, .parameters = 85};

struct optimizer_bench {
    struct pool *pool;
    struct param_table table;
    struct arena arena;
    float *weights, *gradient; // (table.floats)
    struct optimizer *optimizer;
    const struct optim_kernels *kernels;
    double *update, *stream, *norm; // (given.runs) seconds
    double huge;                    // share of the four arenas that lies in huge pages
};

static void fill_task(void *context, size_t task, unsigned thread) {
    const struct optimizer_bench *b = context;
    (void)thread;
    for (size_t i = task * RUN; i < (task + 1) * RUN && i < b->table.floats; i++) {
        b->weights[i] = 0.02f * (float)((i * 2654435761u >> 7) % 2048) / 1024 - 0.02f;
        b->gradient[i] = 1e-4f * (float)((i * 40503u >> 5) % 2048) / 1024; // not below 0: the loop adds it to squares
    }
}

static void stream_task(void *context, size_t task, unsigned thread) {
    const struct optimizer_bench *b = context;
    const size_t at = task * RUN, left = b->table.floats - at;
    (void)thread;
    b->kernels->stream(b->weights + at, b->optimizer->exp_avg + at, b->optimizer->exp_avg_sq + at, b->gradient + at,
                       left < RUN ? left : RUN);
}

static size_t tasks(const struct optimizer_bench *b) {
    return (size_t)((b->table.floats + RUN - 1) / RUN);
}

// Of this process, as the kernel counts them; NaN where it doesn't say.
static double huge_bytes(void) {
    char *text;
    size_t size;
    double kib = NAN;
    if (file_read(&text, &size, "/proc/self/smaps_rollup", 1 << 16) != STATUS_OK)
        return NAN;
    const char *line = strstr(text, "AnonHugePages:");
    if (line)
        kib = strtod(line + strlen("AnonHugePages:"), NULL);
    free(text);
    return kib * 1024;
}

static enum status table_open(struct param_table *table) {
    const uint64_t rows = (uint64_t)given.parameters * 1000000 / LAYERS / COLUMNS + 1;
    for (unsigned l = 0; l < LAYERS; l++) {
        char name[32];
        snprintf(name, sizeof name, "layer.%u", l);
        TRY(param_add(table, name, PARAM_TILES, rows, COLUMNS, true, l));
    }
    return param_finish(table);
}

static enum status optimizer_bench_open(struct optimizer_bench *b) {
    const struct optimizer_options options = {.beta1 = 0.9,
                                              .beta2 = 0.999,
                                              .eps = 1e-8,
                                              .weight_decay = 0.01,
                                              .clip = 1,
                                              .schedule = {.kind = SCHEDULE_CONSTANT, .base_lr = 5e-5, .total = 1000}};
    enum isa isa;
    TRY(isa_choose(&isa));
    b->kernels = optim_kernels(isa);
    TRY(pool_open(&b->pool, (unsigned)(given.threads < POOL_THREADS_MAX ? given.threads : POOL_THREADS_MAX)));
    TRY(table_open(&b->table));
    size_t piece = arena_piece(b->table.floats * sizeof(float));
    TRY(arena_init(&b->arena, 2 * piece, true));
    b->weights = arena_take(&b->arena, piece);
    b->gradient = arena_take(&b->arena, piece);
    pool_run(b->pool, fill_task, b, tasks(b));
    b->update = calloc((size_t)given.runs, 3 * sizeof *b->update);
    if (!b->update)
        return status_set(STATUS_SYSTEM, "bench optimizer: no memory");
    b->stream = b->update + given.runs;
    b->norm = b->stream + given.runs;
    return optimizer_open(&b->optimizer, &b->table, b->pool, b->weights, &options);
}

// One of each; the first round touches the moments and is not counted.
static void round_run(struct optimizer_bench *b, int64_t i) {
    const struct gradient gradient = {.values = b->gradient};
    double begun = clock_seconds();
    const double norm = optimizer_norm(b->optimizer, &gradient);
    b->norm[i] = clock_seconds() - begun;
    optimizer_step(b->optimizer, &gradient, norm);
    begun = clock_seconds();
    params_current(b->optimizer);
    b->update[i] = clock_seconds() - begun;
    begun = clock_seconds();
    pool_run(b->pool, stream_task, b, tasks(b));
    b->stream[i] = clock_seconds() - begun;
}

static void optimizer_report(struct optimizer_bench *b, struct text *json) {
    const size_t n = (size_t)given.runs;
    const double update = bench_median(b->update, n), stream = bench_median(b->stream, n),
                 norm = bench_median(b->norm, n), bytes = BYTES * (double)b->table.floats;
    if (!given.json) {
        printf("%.1f M parameters, %u thread%s, %.0f %% in huge pages\n", 1e-6 * (double)b->table.floats,
               pool_threads(b->pool), pool_threads(b->pool) == 1 ? "" : "s", 100 * b->huge);
        printf("update %.1f ms (%.1f GB/s), the same bytes alone %.1f ms (%.1f GB/s): %.2f of their time\n",
               1e3 * update, 1e-9 * bytes / update, 1e3 * stream, 1e-9 * bytes / stream, update / stream);
        printf("norm of a gradient that is not in cache %.1f ms\n", 1e3 * norm);
        return;
    }
    text_puts(json, "{");
    bench_number(json, "parameters", (double)b->table.floats);
    bench_number(json, "threads", pool_threads(b->pool));
    bench_number(json, "update_s", update);
    bench_number(json, "stream_s", stream);
    bench_number(json, "time", update / stream);
    bench_number(json, "norm_s", norm);
    bench_number(json, "huge_pages", b->huge);
    text_puts(json, "}");
}

static enum status optimizer_run(struct text *json) {
    struct optimizer_bench b = {0};
    enum status status = optimizer_bench_open(&b);
    if (status == STATUS_OK) {
        round_run(&b, 0);
        b.huge = huge_bytes() / (4 * sizeof(float) * (double)b.table.floats);
        for (int64_t i = 0; i < given.runs; i++)
            round_run(&b, i);
        optimizer_report(&b, json);
    }
    optimizer_close(b.optimizer);
    free(b.update);
    arena_release(&b.arena);
    param_table_release(&b.table);
    pool_close(b.pool);
    return status;
}

static const struct flag flags[] = {
    {"--threads", FLAG_COUNT, &given.threads, "N", "threads (default: the CPUs of the process's mask)", NULL, false},
    {"--parameters", FLAG_COUNT, &given.parameters, "N", "millions of parameters (default 85)", NULL, false},
    {"--runs", FLAG_COUNT, &given.runs, "N", "measure each so often (default 9); the median counts", NULL, false},
    {"--json", FLAG_SWITCH, &given.json, NULL, "one JSON object", NULL, false},
    FLAGS_END,
};

const struct verb_flags bench_optimizer_flags = {
    .verb = "bench optimizer",
    .usage = "[--json] [--threads N] [--parameters N] [--runs N]",
    .about = "AdamW's update of dense parameters beside a loop that reads and writes the same bytes, and the norm.",
    .flags = flags,
};

enum status bench_optimizer(int argc, char **argv, struct text *json) {
    size_t words;
    bool helped;
    TRY(flags_parse(&bench_optimizer_flags, argc, argv, argv, &words, &helped));
    return helped ? STATUS_OK : optimizer_run(json);
}
