// SPDX-License-Identifier: Apache-2.0
// A model directory that is to become the source of another: what is damaged in it would be published as good.
#ifndef FINETUNED_DAEMON_VERIFY_INTACT_H
#define FINETUNED_DAEMON_VERIFY_INTACT_H

#include "base/job.h"
#include "base/status.h"
#include "comm/comm.h"

// STATUS_DATA, naming `key` and the file, if `folder` has a finetuned.sha256 and a file of it is not as that says. The
// card may be edited. Without a list nothing is known, and nothing said.
enum status intact_check(const char *key, const char *folder);
// The same of the job's model.base. Collective; rank 0 reads.
enum status intact_base(const struct job *job, struct comm *comm);

#endif
