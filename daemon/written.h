// SPDX-License-Identifier: Apache-2.0
// What a run writes could be put in place: told before its first step, where its end would fail, write into another
// run's files through a link, or replace what is the user's.
#ifndef FINETUNED_DAEMON_WRITTEN_H
#define FINETUNED_DAEMON_WRITTEN_H

#include "base/job.h"

// STATUS_USAGE if <folder>/<name> can't become a file; if it is there and not `ours`; or if it is a link to what
// belongs to another run.
enum status written_file(const char *folder, const char *name, bool ours);
// That, and file_place, of all that a run writes below its out, in checkpoints.dir and in data.cache. Where no run was,
// what is there under the names that it gives is the user's.
enum status written_check(const struct job *job);

#endif
