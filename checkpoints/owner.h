// SPDX-License-Identifier: Apache-2.0
// <folder>/.owner: which run holds the folder (host, boot id, pid, start time, heartbeat). Held by rank 0.
#ifndef FINETUNED_CHECKPOINTS_OWNER_H
#define FINETUNED_CHECKPOINTS_OWNER_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct owner;
// STATUS_AGAIN naming host and pid if another living run holds it. Same host: alive is decided by pid and start time
// (and boot id); another host: stale after 30 s without a heartbeat by the reader's own clock. Safe when two start at
// once. A thread refreshes the heartbeat. The folder is made if it is missing. A file that can't be parsed (a crash of
// the host) counts as stale, with a warning. `option`: what named the folder, for the message: "out".
enum status owner_take(struct owner **out, const char *folder, const char *option);
void owner_release(struct owner *owner); // removes the file; NULL is fine
// Whether the folder is no longer ours, by a fresh look at the path (one stat): another host, seeing no heartbeat for
// OWNER_STALE_S, took it (we were stopped), or somebody removed the file or the folder. Lost once is lost for good. By
// any thread. NULL is held, as is one whose file system does not answer.
bool owner_lost(struct owner *owner);
// For before what can't be taken back: the same by opening the path and reading whose token it holds, which asks the
// server too where a stat may be answered from a cache. STATUS_AGAIN says what became of it.
enum status owner_check(struct owner *owner);

// Whether owner_take would say STATUS_AGAIN now; takes nothing and writes nothing. A missing folder is free.
enum status owner_ask(const char *folder, const char *option);
// The same of the folders above `folder` (as its real path is), for one that another run may hold with all that lies
// in it. What this very process holds is free.
enum status owner_ask_above(const char *folder, const char *option);

// Whether a run's .owner lies there: a living one's, or one that a crash left. Of somebody else's file it is false.
bool owner_is_there(const char *folder);
// Whether it is a name that holding a folder gives or removes there: .owner, .owner.next-…, .owner.tmp-….
bool owner_name_is_given(const char *name);

#define OWNER_STALE_S 30.0
#define OWNER_BEAT_S 5.0
// owner_take with another limit: tests don't wait half a minute.
enum status owner_take_within(struct owner **out, const char *folder, const char *option, double stale_s);

// The file, one JSON object in one line; the heartbeat comes last and always has 16 digits:
// {"host": …, "boot_id": …, "pid_namespace": …, "pid": …, "start_time": …, "started": "2025-01-31T12:00:00Z", "token":
// …, "heartbeat": "…"}
struct owner_record {
    char host[256], boot_id[64], pid_namespace[64], started[32], token[33];
    long pid;
    unsigned long long start_time; // field 22 of /proc/<pid>/stat
};
// A pure function of bytes; STATUS_DATA if it is not such a file.
enum status owner_parse(struct owner_record *out, const char *bytes, size_t size);

#endif
