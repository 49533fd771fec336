// SPDX-License-Identifier: Apache-2.0
// The job of bench step: the user's, but for where it writes and how long it runs; texts are made where it names none.
#ifndef FINETUNED_DAEMON_BENCH_DATA_H
#define FINETUNED_DAEMON_BENCH_DATA_H

#include "base/job.h"
#include "daemon/flags.h"

struct bench_data {
    char *folder; // a temporary one
    bool base;    // model.base is to be random:mini
    bool made;    // texts are made
};

enum status bench_data_open(struct bench_data *out, const struct job_words *words);
// The job with `steps` steps; job_free.
enum status bench_data_job(struct job **out, const struct bench_data *data, const struct job_words *words,
                           uint64_t steps);
void bench_data_close(struct bench_data *data); // removes the folder

#endif
