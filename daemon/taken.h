// SPDX-License-Identifier: Apache-2.0
// Folders that are one thing, made and removed as a whole: a checkpoint, a model, what is on its way. Who writes into
// one loses it when its owner's turn comes, or makes the owner refuse it.
#ifndef FINETUNED_DAEMON_TAKEN_H
#define FINETUNED_DAEMON_TAKEN_H

#include "base/status.h"

#include <stdbool.h>

struct taken_ask {
    const char *key;         // for the message: "out"
    const char *path;        // as given; where links and ".." lead counts
    const char *checkpoints; // a folder that will hold checkpoints, or NULL: those that do are known by themselves
    bool replaces;           // it is itself a model, written as a whole: it may be one now, and only lie in none
};

// STATUS_USAGE if `path` is or lies in a checkpoint, in a name that a run gives or removes in its folder of checkpoints
// (step-N, .tmp-step-N-…), in a name of what is on its way in a run's folder or its artifacts, or in a directory of
// model files that this program made. Writes nothing; what is not there yet counts by its name.
enum status taken_check(const struct taken_ask *ask);

#endif
