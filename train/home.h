// SPDX-License-Identifier: Apache-2.0
// <checkpoints.dir>/.home: the `out` of the run whose checkpoints these are. Where a run keeps them elsewhere, a copy
// of its `out` still names them: without this file the copy would go on in the original's checkpoints, and remove them.
#ifndef FINETUNED_TRAIN_HOME_H
#define FINETUNED_TRAIN_HOME_H

#include "base/job.h"

#define HOME_FILE ".home"

// STATUS_USAGE: job->checkpoints.dir is that of a run in another `out`, which is still there and keeps its checkpoints
// there. A folder that was moved or copied, or whose run was, is nobody's else.
enum status home_check(const struct job *job);
// From now on the folder is this job's.
enum status home_write(const struct job *job);

#endif
