// SPDX-License-Identifier: Apache-2.0
// What a run ran with: compiler, processor, libraries, hosts, memory.
#ifndef FINETUNED_TRAIN_PROVENANCE_H
#define FINETUNED_TRAIN_PROVENANCE_H

#include "comm/comm.h"

struct provenance {
    char compiler[96], cpu[128], mpi[96], hdf5[32]; // cpu: rank 0's
    int hosts;
    uint64_t rss_max, rss_sum; // bytes: the largest resident memory that a rank had, and all ranks' added up
};

// Collective; the same on every rank but for `cpu`.
enum status provenance_gather(struct provenance *out, struct comm *comm);

#endif
