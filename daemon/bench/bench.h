// SPDX-License-Identifier: Apache-2.0
// finetuned bench: one file a bench, one row each in verb_bench.c; and what they share.
#ifndef FINETUNED_DAEMON_BENCH_BENCH_H
#define FINETUNED_DAEMON_BENCH_BENCH_H

#include "base/status.h"
#include "base/text.h"
#include "daemon/flags.h"

// argv[0] is "bench NAME"; the flags follow. With --json the result is added to `json` as one object, else it is
// printed for people. Nothing of both after --help.
typedef enum status bench_run(int argc, char **argv, struct text *json);
bench_run bench_gemm, bench_step, bench_optimizer, bench_tokenize, bench_io;
extern const struct verb_flags bench_gemm_flags, bench_step_flags, bench_optimizer_flags, bench_tokenize_flags,
    bench_io_flags;

// `"key": value` with a comma before it if it is not an object's first.
void bench_number(struct text *json, const char *key, double value);
void bench_string(struct text *json, const char *key, const char *value);

// The middle one of n numbers, which are put in order.
double bench_median(double *values, size_t n);

#endif
