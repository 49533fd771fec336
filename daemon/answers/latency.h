// SPDX-License-Identifier: Apache-2.0
// How long answers take, of batches of one size; what `finetuned predict --bench` prints of it.
#ifndef FINETUNED_DAEMON_ANSWERS_LATENCY_H
#define FINETUNED_DAEMON_ANSWERS_LATENCY_H

#include "daemon/subject.h"

#include <stddef.h>
#include <stdint.h>

#define LATENCY_WARM 3 // batches that are not counted
#define LATENCY_MOST 20000

struct latency {
    uint32_t batch;       // texts or questions
    size_t n;             // batches
    double p50, p95, p99; // seconds of a batch
    double per_s, tokens_per_s;
};

// Whether one batch more is due: at least 20, and for a second from `begun` (trainer_clock) on.
bool latency_goes_on(size_t n, double begun);
// From the times of `n` batches, which it sorts, and their tokens; out->batch is set before.
void latency_of(struct latency *out, double *seconds, size_t n, uint64_t tokens);
// `what`: "texts" or "questions", of which there are `many`. A table, or one JSON object.
void latency_print(const struct latency *at, size_t n, const char *what, size_t many, const struct runner *runner);
void latency_json(const struct latency *at, size_t n, const char *what, size_t many, const struct runner *runner);

#endif
