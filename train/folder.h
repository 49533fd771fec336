// SPDX-License-Identifier: Apache-2.0
// A run's folders: taken, seen by all ranks, and put in order once the run is known to go on there.
#ifndef FINETUNED_TRAIN_FOLDER_H
#define FINETUNED_TRAIN_FOLDER_H

#include "train/trainer.h"

// A file that tells a sweep's folder from a run's.
#define FOLDER_SWEEP "sweep.json"

// Takes <out>: STATUS_AGAIN if another run holds it, STATUS_USAGE if it is a sweep's. Only looks, of a trainer that
// only looks. Collective, as are the others; rank 0 works.
enum status folder_claim(struct trainer *trainer);
// STATUS_IO naming rank and host that don't see in checkpoints.dir what rank 0 writes there.
enum status folder_shared(struct trainer *trainer);
// The run goes on here: left-overs and what is off its branch go out of its way, events.jsonl is opened.
enum status folder_settle(struct trainer *trainer);

#endif
