// SPDX-License-Identifier: Apache-2.0
// What a run writes could be put in place: told before its first step, where its end would fail, write into another
// run's files through a link, or replace what is the user's.
#ifndef FINETUNED_DAEMON_PATHS_WRITTEN_H
#define FINETUNED_DAEMON_PATHS_WRITTEN_H

#include "base/job.h"

#include <stdbool.h>

// STATUS_USAGE if <folder>/<name> can't become a file; or, of what is not `ours`, if it is there, or is a link to what
// belongs to another run (taken_by).
enum status written_file(const char *folder, const char *name, bool ours);
// That, and file_place, of all that a run writes below its out, in checkpoints.dir and in data.cache. Where no run was,
// what is there under the names that it gives is the user's. What has begun goes on: links are told by a warning.
enum status written_check(const struct job *job);
// Whether a run was in the job's out: it has events, a job.yaml as runs write it, or checkpoints where the job keeps
// them below it (events may be lost), by no link to another run's.
bool written_begun(const struct job *job);

#endif
