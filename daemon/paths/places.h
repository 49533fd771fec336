// SPDX-License-Identifier: Apache-2.0
// What a job keeps or reads must not lie where its run writes and replaces: the export would delete it. And what others
// wrote is not deleted.
#ifndef FINETUNED_DAEMON_PATHS_PLACES_H
#define FINETUNED_DAEMON_PATHS_PLACES_H

#include "base/job.h"
#include "comm/comm.h"

// STATUS_USAGE, naming both: a path of the job (checkpoints.dir, data.cache, model.base, …) that is or lies in
// <out>/model, <out>/artifacts or <out>/tensorboard, wherever links and ".." lead; checkpoints.dir above any of them,
// so also `out` itself. Writes nothing.
enum status places_apart(const struct job *job);
// The same, and STATUS_USAGE if <out>/model holds what is not of a model that this program wrote, or if out,
// checkpoints.dir or data.cache is or lies in what another run makes and removes (daemon/paths/taken.h).
enum status places_check(const struct job *job);
// places_check by rank 0, for all. Before anything of the job is opened.
enum status places_agree(const struct job *job, struct comm *comm);

#endif
