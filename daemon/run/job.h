// SPDX-License-Identifier: Apache-2.0
// One job in an open world, from text to artifacts: what `run` does, and `sweep` for each of its cells.
#ifndef FINETUNED_DAEMON_RUN_JOB_H
#define FINETUNED_DAEMON_RUN_JOB_H

#include "base/job.h"
#include "comm/comm.h"
#include "train/base.h"

struct run_result {
    bool resumed;   // it went on from a checkpoint
    bool diverged;  // STATUS_DATA: too many batches in a row were not finite
    uint64_t step;  // how far it is
    double seconds; // of training
};

// Trains to the end or to a stop, scores, exports, reports; of a job that is complete only what is missing is made. All
// ranks return the same status. An error is logged here, once, by rank 0: before the launcher ends the others. `spent`:
// seconds of training that train.max_time counts beside this run's own.
enum status run_job(struct run_result *out, const struct job *job, struct base *base, struct comm *comm, double spent);

#endif
