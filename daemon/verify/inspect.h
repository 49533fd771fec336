// SPDX-License-Identifier: Apache-2.0
// What a path is, and what it holds.
#ifndef FINETUNED_DAEMON_VERIFY_INSPECT_H
#define FINETUNED_DAEMON_VERIFY_INSPECT_H

#include "base/text.h"

enum inspect_kind {
    INSPECT_NONE,
    INSPECT_CHECKPOINT,  // step-N folder or its checkpoint.h5
    INSPECT_MODEL,       // a folder with a config.json
    INSPECT_WEIGHTS,     // a file of weights, or an index of such files
    INSPECT_SHARD,       // *.shard
    INSPECT_ARCHIVE,     // *.tar.gz, *.tgz
    INSPECT_RUN,         // a run's out
    INSPECT_CHECKPOINTS, // its folder of checkpoints
    INSPECT_SWEEP,       // a sweep's out
};

// By names; STATUS_DATA: nothing is there, or none of these.
enum status inspect_kind_of(enum inspect_kind *kind, const char *path);
const char *inspect_kind_name(enum inspect_kind kind); // "checkpoint"

// For people, several lines, or one JSON object in a line. Opening it checks its structure: STATUS_DATA. Not for the
// last three kinds.
enum status inspect_describe(struct text *out, enum inspect_kind kind, const char *path, bool json);

#endif
