// SPDX-License-Identifier: Apache-2.0
// How long an answer takes: from text to scores, tokenizer included, at several sizes of a batch.
#include "daemon/predict.h"

#include "base/markup.h"
#include "base/text.h"
#include "daemon/bench_texts.h"
#include "train/trainer.h"

#include <stdio.h>

#define MADE_TEXTS 256
#define WARM 3           // batches that are not counted
#define BATCHES_LEAST 20 // that are
#define BATCHES_MOST 20000
#define SECONDS 1.0 // of each size, at least

static const uint32_t bench_sizes[] = {1, 8, PREDICT_BATCH};
#define SIZES (sizeof bench_sizes / sizeof *bench_sizes)

struct latency {
    uint32_t batch;
    size_t n;             // batches
    double p50, p95, p99; // seconds of a batch
    double texts_per_s, tokens_per_s;
};

static enum status bench_texts(struct bench_texts *out, const struct predict_flags *f, char **words, size_t n_words) {
    if (f->file)
        return bench_texts_files(out, &f->file, 1);
    if (!n_words)
        return bench_texts_make(out, MADE_TEXTS);
    out->at = calloc(n_words, sizeof *out->at);
    if (!out->at)
        return status_set(STATUS_SYSTEM, "predict: no memory");
    for (size_t i = 0; i < n_words; i++)
        out->at[out->n++] = (struct bench_text){words[i], (uint32_t)strlen(words[i])};
    return STATUS_OK;
}

// One batch from text `*next` on, around the end.
static enum status bench_batch(double *seconds, uint64_t *tokens, struct predictor *p, const struct bench_texts *texts,
                               const char *pair, size_t *next, uint32_t size) {
    const float *logits;
    double begin = trainer_clock();
    for (uint32_t i = 0; i < size; i++) {
        char where[40];
        const struct bench_text *text = &texts->at[*next];
        *next = (*next + 1) % texts->n;
        snprintf(where, sizeof where, "text %zu", *next);
        TRY(predictor_add(p, text->at, text->size, pair, pair ? strlen(pair) : 0, where));
        *tokens += p->encoding.n;
    }
    TRY(predictor_run(p, &logits));
    *seconds = trainer_clock() - begin;
    return STATUS_OK;
}

static int bench_order(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Nearest rank: the smallest value that at least that share of all does not exceed.
static double bench_percentile(const double *sorted, size_t n, unsigned percent) {
    size_t rank = (n * percent + 99) / 100;
    return sorted[rank > 0 ? rank - 1 : 0];
}

static enum status bench_size(struct latency *out, double *seconds, struct predictor *p,
                              const struct bench_texts *texts, const char *pair) {
    uint64_t tokens = 0;
    size_t next = 0;
    double sum = 0;
    for (int i = 0; i < WARM; i++)
        TRY(bench_batch(&seconds[0], &tokens, p, texts, pair, &next, out->batch));
    tokens = 0;
    double end = trainer_clock() + SECONDS;
    while (out->n < BATCHES_MOST && (out->n < BATCHES_LEAST || trainer_clock() < end)) {
        TRY(bench_batch(&seconds[out->n], &tokens, p, texts, pair, &next, out->batch));
        sum += seconds[out->n++];
    }
    qsort(seconds, out->n, sizeof *seconds, bench_order);
    out->p50 = bench_percentile(seconds, out->n, 50);
    out->p95 = bench_percentile(seconds, out->n, 95);
    out->p99 = bench_percentile(seconds, out->n, 99);
    out->texts_per_s = (double)(out->n * out->batch) / sum;
    out->tokens_per_s = (double)tokens / sum;
    return STATUS_OK;
}

static void bench_print(const struct latency *at, const struct predictor *p, const struct bench_texts *texts) {
    printf("%zu texts, %u threads, %s kernels, fp32; from text to scores\n", texts->n, pool_threads(p->runner.pool),
           isa_name(pass_ops(p->runner.pass)->isa));
    printf("%5s %9s %10s %10s %10s %10s %10s\n", "batch", "batches", "p50 ms", "p95 ms", "p99 ms", "texts/s",
           "tokens/s");
    for (size_t i = 0; i < SIZES; i++)
        printf("%5u %9zu %10.3f %10.3f %10.3f %10.1f %10.0f\n", at[i].batch, at[i].n, 1e3 * at[i].p50, 1e3 * at[i].p95,
               1e3 * at[i].p99, at[i].texts_per_s, at[i].tokens_per_s);
}

static void bench_json(const struct latency *at, const struct predictor *p, const struct bench_texts *texts) {
    struct text json = {0};
    text_printf(&json, "{\"texts\": %zu, \"threads\": %u, \"isa\": \"%s\", \"precision\": \"fp32\", \"batches\": [",
                texts->n, pool_threads(p->runner.pool), isa_name(pass_ops(p->runner.pass)->isa));
    for (size_t i = 0; i < SIZES; i++) {
        const double values[] = {1e3 * at[i].p50, 1e3 * at[i].p95, 1e3 * at[i].p99, at[i].texts_per_s,
                                 at[i].tokens_per_s};
        static const char *const names[] = {"p50_ms", "p95_ms", "p99_ms", "texts_per_s", "tokens_per_s"};
        text_printf(&json, "%s{\"batch\": %u, \"n\": %zu", i ? ", " : "", at[i].batch, at[i].n);
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            text_printf(&json, ", \"%s\": ", names[k]);
            json_number_add(&json, values[k]);
        }
        text_puts(&json, "}");
    }
    text_puts(&json, "]}");
    if (text_string(&json))
        puts(text_string(&json));
    text_release(&json);
}

enum status predict_bench(struct predictor *p, const struct predict_flags *f, char **words, size_t n_words) {
    struct bench_texts texts = {0};
    struct latency latencies[SIZES] = {0};
    double *seconds = calloc(BATCHES_MOST, sizeof *seconds);
    enum status status =
        seconds ? bench_texts(&texts, f, words, n_words) : status_set(STATUS_SYSTEM, "predict: no memory");
    if (status == STATUS_OK && texts.n == 0)
        status = status_set(STATUS_DATA, "%s: no texts", f->file ? f->file : "predict");
    for (size_t i = 0; i < SIZES && status == STATUS_OK; i++) {
        latencies[i].batch = bench_sizes[i];
        status = bench_size(&latencies[i], seconds, p, &texts, f->pair);
    }
    if (status == STATUS_OK)
        (f->json ? bench_json : bench_print)(latencies, p, &texts);
    bench_texts_close(&texts);
    free(seconds);
    return status;
}
