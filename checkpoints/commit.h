// SPDX-License-Identifier: Apache-2.0
// From a finished temporary folder to a checkpoint, and what may go then. Rank 0 only.
#ifndef FINETUNED_CHECKPOINTS_COMMIT_H
#define FINETUNED_CHECKPOINTS_COMMIT_H

#include "checkpoints/checkpoint.h"
#include "checkpoints/pieces.h"
#include "checkpoints/removal.h"
#include "checkpoints/rest.h"

// STATUS_AGAIN if one of dir->owners is lost: nothing may be renamed, linked or deleted there any more.
enum status commit_held(const struct checkpoint_dir *dir);

// `folder` holds checkpoint.h5, written and fsynced: MANIFEST.json, fsyncs, the rename to step-N, fsync of the parent.
// What stands at step-N already is set aside, unless it is the same run's (then it is replaced). What is to be deleted
// is added to `removal`. Nothing is renamed if a folder is lost.
enum status commit_folder(const char *folder, const struct checkpoint_dir *dir, const struct param_table *table,
                          const struct pieces *pieces, const struct rest *rest, const struct trainer_state *state,
                          struct removal *removal);

// The links latest and best; then old ones beyond `keep` go. The checkpoint is good whatever happens here: failures are
// logged.
void commit_tidy(const struct checkpoint_dir *dir, const struct trainer_state *state, struct removal *removal);

#endif
