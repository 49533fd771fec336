// SPDX-License-Identifier: Apache-2.0
// inspect --verify: whether what a path names is as it was written.
#ifndef FINETUNED_DAEMON_VERIFY_VERIFY_H
#define FINETUNED_DAEMON_VERIFY_VERIFY_H

#include "base/text.h"
#include "daemon/verify/inspect.h"

// What can be told of it: a checksum of every byte, or only that its structure agrees.
enum verify_depth { VERIFY_HASHES, VERIFY_STRUCTURE };

// One thing, in full. STATUS_DATA: what is wrong, where. Not for runs, sweeps and folders of checkpoints.
enum status verify_one(enum verify_depth *depth, enum inspect_kind kind, const char *path);

struct verify_item {
    char *path, *kind; // `path`: below the run's folder
    enum status status;
    enum verify_depth depth;
    char *why; // what is wrong; NULL: nothing
};
struct verify_note {
    char *path, *text;
};
struct verify {
    const char *path;
    struct verify_item *items;
    size_t n, wrong;
    struct verify_note *notes;
    size_t n_notes;
};

// All that a run's or a sweep's folder, or a folder of checkpoints, holds. Fails only if it could not be looked
// through; verify_status says whether something is wrong.
enum status verify_folder(struct verify *out, enum inspect_kind kind, const char *path);
void verify_release(struct verify *verify);
enum status verify_status(const struct verify *verify); // STATUS_DATA, naming how many and the first

// For people a line each; or one JSON object.
void verify_print(struct text *out, const struct verify *verify, enum inspect_kind kind, bool json);

#endif
