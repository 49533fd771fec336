// SPDX-License-Identifier: Apache-2.0
#include "model/peak.h"

#include <stdlib.h>

#define ROUNDS 400000u // of the loop: a millisecond or two
#define RUNS 16

struct peak {
    double (*loop)(uint64_t rounds);
    double rates[]; // [threads] FLOPs a second, the best of each; 0: it never came in time for a task
};

static double loop_rate(double (*loop)(uint64_t rounds), uint64_t rounds) {
    const double begin = pool_thread_seconds(), flops = loop(rounds);
    return flops / (pool_thread_seconds() - begin);
}

static void peak_task(void *context, size_t task, unsigned thread) {
    struct peak *peak = context;
    (void)task;
    const double rate = loop_rate(peak->loop, ROUNDS);
    if (rate > peak->rates[thread])
        peak->rates[thread] = rate;
}

enum status peak_measure(double *flops_per_s, const struct ops *ops, struct pool *pool, bool bf16) {
    const unsigned threads = pool_threads(pool);
    struct peak *peak = calloc(1, sizeof *peak + threads * sizeof *peak->rates);
    if (!peak)
        return status_set(STATUS_SYSTEM, "peak: no memory for %u threads", threads);
    peak->loop = bf16 ? ops->bf16_peak : ops->fma_peak;
    double sum = 0, best = 0;
    for (int run = 0; run < RUNS; run++)
        pool_run(pool, peak_task, peak, threads);
    for (unsigned i = 0; i < threads; i++)
        best = peak->rates[i] > best ? peak->rates[i] : best;
    for (unsigned i = 0; i < threads; i++)
        sum += peak->rates[i] > 0 ? peak->rates[i] : best;
    *flops_per_s = sum;
    free(peak);
    return STATUS_OK;
}
