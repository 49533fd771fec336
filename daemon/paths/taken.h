// SPDX-License-Identifier: Apache-2.0
// Folders that are one thing, made and removed as a whole: a checkpoint, a model, what is on its way. Who writes into
// one loses it when its owner's turn comes, or makes the owner refuse it.
#ifndef FINETUNED_DAEMON_PATHS_TAKEN_H
#define FINETUNED_DAEMON_PATHS_TAKEN_H

#include "base/status.h"

#include <stdbool.h>

// What `path` is to become.
enum taken_as {
    TAKEN_KEPT,     // a folder that keeps files: checkpoints.dir, data.cache
    TAKEN_OUT,      // a run's folder, whose start removes temporary names in it
    TAKEN_MODEL,    // a directory of model files, replaced as a whole: it may be one now, and only lie in none
    TAKEN_ARCHIVES, // a folder that an archive is put into, beside a run's if need be
    TAKEN_FILE,     // one file
};

struct taken_ask {
    const char *key;         // for the message: "out"
    const char *path;        // as given; where links and ".." lead counts
    const char *out;         // a folder that will be a run's, or NULL: those that are are known by themselves
    const char *checkpoints; // one that will hold checkpoints, or NULL, likewise
    enum taken_as as;
};

// STATUS_USAGE if `path` is or lies in a temporary name (file_is_temporary, wherever it lies: the next start or export
// there removes it); a name that a run gives or removes in a folder of checkpoints (steps_name_is_given) or beside its
// .owner (owner_name_is_given); a run's model, artifacts or tensorboard; of a file: in any checkpoint or model, or if
// it is one of a run's or a sweep's own. A run is known by its events.jsonl, a folder of checkpoints by a run's above
// it or by a checkpoint in it: names alone are nobody's. What begins there goes on there, too: `out` that is a run's
// already is refused only in what is removed as a whole. Writes nothing; what is not there yet counts by its name.
enum status taken_check(const struct taken_ask *ask);

// The folder of the run whose own `path`, as file_real gives it, is: one of the files that it writes, its checkpoints,
// or what is or lies in the folders that it makes; malloc'ed, or NULL. Any other folder below a run's, shards too, is
// nobody's.
char *taken_by(const char *path);

// What a run makes below its out, and what it writes there besides; NULL behind the last.
extern const char *const taken_made[], *const taken_written[];

#endif
