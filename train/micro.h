// SPDX-License-Identifier: Apache-2.0
// A rank's share of a global batch: G/world neighbouring parts, run as micro-batches of a power of two of parts each,
// so that each fits into max_tokens.
#ifndef FINETUNED_TRAIN_MICRO_H
#define FINETUNED_TRAIN_MICRO_H

#include "train/trainer.h"

struct micro {
    const struct plan_batch *global;
    uint32_t first; // this rank's first part
    uint32_t parts; // parts in a micro-batch, a power of two
    uint32_t n;     // micro-batches, a power of two
};

struct micro micro_begin(const struct trainer *t, const struct plan_batch *global);
// STATUS_USAGE if it is larger than what memory was taken for at the start.
enum status micro_room(const struct trainer *t, const struct micro *micro, uint64_t cursor);
// Packs micro-batch m into t->batch.
void micro_fill(struct trainer *t, const struct micro *micro, uint32_t m);
// Into trainer->rows: the rows of the embeddings that the global batch reads, the same on every rank. They are what
// this rank's micro-batches read, and more: the others have a gradient in this step too.
void micro_rows(struct trainer *trainer, const struct plan_batch *global);
// Tokens and FLOPs of the whole global batch (design, section 2), into `out`.
void micro_count(const struct trainer *t, const struct plan_batch *global, struct step_result *out);

// Before the first step: STATUS_USAGE if some part of some batch is longer than max_tokens, naming both keys.
// `*max_tokens`: the most tokens that a rank can have in one micro-batch; `*max_micro`: the most micro-batches of
// a step.
enum status micro_plan(struct trainer *t, uint64_t steps, uint32_t *max_tokens, uint32_t *max_micro);
#endif
