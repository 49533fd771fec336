// SPDX-License-Identifier: Apache-2.0
// finetuned run --dry-run: what the run would do and take, with nothing written.
#ifndef FINETUNED_DAEMON_RUN_DRY_RUN_H
#define FINETUNED_DAEMON_RUN_DRY_RUN_H

#include "base/job.h"
#include "comm/comm.h"
#include "train/dry_run.h"

// What is needed on a file system, and what it has.
struct dry_room {
    char *folder;               // the nearest one that is there
    uint64_t needed;            // bytes that are still to come
    uint64_t free;              // bytes that we may use
    uint64_t files, files_free; // the same in files and folders (inodes); UINT64_MAX free: it does not count them
    const char *what;           // "checkpoints"
};

struct dry_report {
    const struct trainer *trainer;
    uint64_t step;            // where the run would begin
    struct dry_memory memory; // of a rank
    struct dry_disk disk;
    struct dry_room rooms[2]; // checkpoints; everything else in <out>. On one file system the first holds both
    unsigned n_rooms;
    struct dry_work work;
    struct dry_time time; // steps 0: not measured
    uint64_t available;   // memory of this host, HOST_NONE if not known
};

// Sizes alone, of a trainer that trainer_look opened.
enum status dry_report_open(struct dry_report *out, const struct trainer *trainer);
void dry_report_close(struct dry_report *report);
// Trains a few steps in memory and forgets them; where memory may not suffice, nothing is trained even for a moment:
// the kernel would end us. Collective.
enum status dry_report_time(struct dry_report *report, struct trainer *trainer);
// Bytes that all ranks of this host take.
uint64_t dry_report_memory(const struct dry_report *report);
// What also makes room: "lower checkpoints.keep, ", or "" where that is 1.
const char *dry_advice(const struct job *job);
// STATUS_IO if some file system has too little room, naming it.
enum status dry_report_room(const struct dry_report *report);

// The same of a trainer that is about to take its first step.
enum status dry_room(const struct trainer *trainer);

// Collective; rank 0 prints. What run would refuse is refused in the same words with the same code.
enum status dry_run(const struct job *job, struct base *base, struct comm *comm, bool json);

#endif
