// SPDX-License-Identifier: Apache-2.0
// How long an answer takes: from text to scores, tokenizer included, at several sizes of a batch.
#include "daemon/answers/predict.h"

#include "base/clock.h"

#include "daemon/bench/texts.h"
#include "daemon/answers/latency.h"
#include "train/trainer.h"

#include <stdio.h>

#define MADE_TEXTS 256

static const uint32_t bench_sizes[] = {1, 8, PREDICT_BATCH};
#define SIZES (sizeof bench_sizes / sizeof *bench_sizes)

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
    double begin = clock_seconds();
    for (uint32_t i = 0; i < size; i++) {
        char where[40];
        const struct bench_text *text = &texts->at[*next];
        *next = (*next + 1) % texts->n;
        snprintf(where, sizeof where, "text %zu", *next);
        TRY(predictor_add(p, text->at, text->size, pair, pair ? strlen(pair) : 0, where));
        *tokens += p->encoding.n;
    }
    TRY(predictor_run(p, &logits));
    *seconds = clock_seconds() - begin;
    return STATUS_OK;
}

static enum status bench_size(struct latency *out, double *seconds, struct predictor *p,
                              const struct bench_texts *texts, const char *pair) {
    uint64_t tokens = 0;
    size_t next = 0, n = 0;
    for (int i = 0; i < LATENCY_WARM; i++)
        TRY(bench_batch(&seconds[0], &tokens, p, texts, pair, &next, out->batch));
    tokens = 0;
    for (double begun = clock_seconds(); latency_goes_on(n, begun); n++)
        TRY(bench_batch(&seconds[n], &tokens, p, texts, pair, &next, out->batch));
    latency_of(out, seconds, n, tokens);
    return STATUS_OK;
}

enum status predict_bench(struct predictor *p, const struct predict_flags *f, char **words, size_t n_words) {
    struct bench_texts texts = {0};
    struct latency latencies[SIZES] = {0};
    double *seconds = calloc(LATENCY_MOST, sizeof *seconds);
    enum status status =
        seconds ? bench_texts(&texts, f, words, n_words) : status_set(STATUS_SYSTEM, "predict: no memory");
    if (status == STATUS_OK && texts.n == 0)
        status = status_set(STATUS_DATA, "%s: no texts", f->file ? f->file : "predict");
    for (size_t i = 0; i < SIZES && status == STATUS_OK; i++) {
        latencies[i].batch = bench_sizes[i];
        status = bench_size(&latencies[i], seconds, p, &texts, f->pair);
    }
    if (status == STATUS_OK)
        (f->json ? latency_json : latency_print)(latencies, SIZES, "texts", texts.n, &p->runner);
    bench_texts_close(&texts);
    free(seconds);
    return status;
}
