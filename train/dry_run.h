// SPDX-License-Identifier: Apache-2.0
// What a run would take, asked of a trainer that trainer_look opened: memory, disk, and time by a few steps that are
// trained in memory and forgotten.
#ifndef FINETUNED_TRAIN_DRY_RUN_H
#define FINETUNED_TRAIN_DRY_RUN_H

#include "train/trainer.h"

// Bytes of one rank. Arenas count as if all of them were in use, which makes it an upper bound.
struct dry_memory {
    uint64_t weights, moments, gradients, activations; // activations: of the largest micro-batch, or of evaluation
    uint64_t saves;                                    // what is copied aside for them
    uint64_t other;                                    // token shards, mapped, and the program itself
    uint64_t total;
};
struct dry_memory dry_memory(const struct trainer *t);

struct dry_disk {
    uint64_t checkpoint;       // bytes of one
    uint64_t there;            // how many are there
    uint64_t most;             // how many there can be at once: the newest, the best, and one on its way
    uint64_t model;            // bytes of <out>/model
    uint64_t artifacts;        // bytes of <out>/artifacts, at most, and of what is beside them on the way
    uint64_t shards;           // bytes of token shards that trainer_look did not find in the cache
    uint64_t checkpoint_files; // files and folders of one; the same of all else at most, links and temporary ones too
    uint64_t files;
};
enum status dry_disk(struct dry_disk *out, const struct trainer *t);

// What is still to be done.
struct dry_work {
    uint64_t steps, tokens;  // of training
    uint64_t evaluations;    // of val, without those in the end
    uint64_t tokens_forward; // of all evaluations
};
struct dry_work dry_work(const struct trainer *t);

struct dry_time {
    uint32_t steps;          // that were timed, behind one that was not
    double step_s;           // mean
    double tokens_per_s;     // of all ranks, training
    double forward_per_s;    // tokens, forward alone
    double train_s, score_s; // of the work; saving and exporting are not in it
};
// Collective. The weights are of no use afterwards. STATUS_AGAIN if a signal came.
enum status dry_time(struct dry_time *out, struct trainer *t, const struct dry_work *work);

#endif
