// SPDX-License-Identifier: Apache-2.0
#include "daemon/answers/latency.h"

#include "base/clock.h"
#include "base/markup.h"
#include "base/text.h"
#include "train/trainer.h"

#include <stdio.h>
#include <stdlib.h>

#define BATCHES_LEAST 20
#define SECONDS 1.0

bool latency_goes_on(size_t n, double begun) {
    return n < LATENCY_MOST && (n < BATCHES_LEAST || clock_seconds() < begun + SECONDS);
}

static int latency_order(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Nearest rank: the smallest value that at least that share of all does not exceed.
static double latency_percentile(const double *sorted, size_t n, unsigned percent) {
    size_t rank = (n * percent + 99) / 100;
    return sorted[rank > 0 ? rank - 1 : 0];
}

void latency_of(struct latency *out, double *seconds, size_t n, uint64_t tokens) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += seconds[i];
    qsort(seconds, n, sizeof *seconds, latency_order);
    out->n = n;
    out->p50 = latency_percentile(seconds, n, 50);
    out->p95 = latency_percentile(seconds, n, 95);
    out->p99 = latency_percentile(seconds, n, 99);
    out->per_s = (double)(n * out->batch) / sum;
    out->tokens_per_s = (double)tokens / sum;
}

void latency_print(const struct latency *at, size_t n, const char *what, size_t many, const struct runner *runner) {
    printf("%zu %s, %u threads, %s kernels, fp32; from text to %s\n", many, what, pool_threads(runner->pool),
           isa_name(pass_ops(runner->pass)->isa), strcmp(what, "questions") == 0 ? "answer" : "scores");
    printf("%5s %9s %10s %10s %10s %9s/s %10s\n", "batch", "batches", "p50 ms", "p95 ms", "p99 ms", what, "tokens/s");
    for (size_t i = 0; i < n; i++)
        printf("%5u %9zu %10.3f %10.3f %10.3f %11.1f %10.0f\n", at[i].batch, at[i].n, 1e3 * at[i].p50, 1e3 * at[i].p95,
               1e3 * at[i].p99, at[i].per_s, at[i].tokens_per_s);
}

static void latency_values(struct text *json, const struct latency *at, const char *what) {
    const double values[] = {1e3 * at->p50, 1e3 * at->p95, 1e3 * at->p99, at->per_s, at->tokens_per_s};
    static const char *const names[] = {"p50_ms", "p95_ms", "p99_ms", NULL, "tokens_per_s"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        if (names[i])
            text_printf(json, ", \"%s\": ", names[i]);
        else
            text_printf(json, ", \"%s_per_s\": ", what);
        json_number_add(json, values[i]);
    }
}

void latency_json(const struct latency *at, size_t n, const char *what, size_t many, const struct runner *runner) {
    struct text json = {0};
    text_printf(&json, "{\"%s\": %zu, \"threads\": %u, \"isa\": \"%s\", \"precision\": \"fp32\", \"batches\": [", what,
                many, pool_threads(runner->pool), isa_name(pass_ops(runner->pass)->isa));
    for (size_t i = 0; i < n; i++) {
        text_printf(&json, "%s{\"batch\": %u, \"n\": %zu", i ? ", " : "", at[i].batch, at[i].n);
        latency_values(&json, &at[i], what);
        text_puts(&json, "}");
    }
    text_puts(&json, "]}");
    if (text_string(&json))
        puts(text_string(&json));
    text_release(&json);
}
