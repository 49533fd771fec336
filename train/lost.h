// SPDX-License-Identifier: Apache-2.0
// A rank that is lost or stuck (comm/watch.h) as a `stop` event: by rank 0 into events.jsonl; where rank 0 is the one,
// by the lowest rank that lives into events.rank-<K>.jsonl beside it.
#ifndef FINETUNED_TRAIN_LOST_H
#define FINETUNED_TRAIN_LOST_H

#include "base/text.h"
#include "checkpoints/owner.h"
#include "comm/watch.h"
#include "train/events.h"

struct lost {
    struct comm *comm;
    struct text line;
    char *out;           // the run's folder
    char *path;          // of the file to write
    struct owner *owner; // rank 0: of `out`; where it is lost nothing is written
};

// From here on a loss is written into the folder `out`, which rank 0 holds.
enum status lost_open(struct lost *lost, struct comm *comm, const char *out, struct owner *owner);
void lost_close(struct lost *lost);

// Whether a name in a run's folder is that of another rank's events.
bool lost_is(const char *name);

#endif
