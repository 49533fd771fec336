// SPDX-License-Identifier: Apache-2.0
// A run's folders: taken, seen by all ranks, and put in order once the run is known to go on there.
#ifndef FINETUNED_TRAIN_FOLDER_H
#define FINETUNED_TRAIN_FOLDER_H

#include "train/trainer.h"

// A file that tells a sweep's folder from a run's.
#define FOLDER_SWEEP "sweep.json"

// STATUS_USAGE if `out` is a sweep's folder.
enum status folder_kind(const struct job *job);
// Takes <out>, and checkpoints.dir where it lies elsewhere: STATUS_AGAIN if another run holds it, STATUS_USAGE if it is
// a sweep's. Only looks, of a trainer that only looks. Collective, as are the others; rank 0 works.
enum status folder_claim(struct trainer *trainer);
// Takes away what this start made of them and left empty: a start that was refused leaves nothing. Once they are no
// longer held.
void folder_unmake(struct trainer *trainer);
// What ranks tell one another in each step: whether rank 0 finds a folder lost; what they all said.
#define FOLDER_LOST (1u << 29)
uint32_t folder_flags(const struct trainer *trainer);
void folder_told(struct trainer *trainer, uint32_t flags);
// Where all know that it is lost: the run's end, STATUS_AGAIN.
enum status folder_given_up(struct trainer *trainer);
// Not collective: STATUS_AGAIN if a folder is lost, by as fresh a look as there is. Before each write that takes a
// place of its own there.
enum status folder_held(const struct trainer *trainer);
// STATUS_IO naming rank and host that don't see in checkpoints.dir what rank 0 writes there.
enum status folder_shared(struct trainer *trainer);
// The run goes on here: left-overs and what is off its branch go out of its way, events.jsonl is opened.
enum status folder_settle(struct trainer *trainer);

#endif
