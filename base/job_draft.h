// SPDX-License-Identifier: Apache-2.0
// A job while it is read: where each value came from, for messages. For base/job*.c.
#ifndef FINETUNED_BASE_JOB_DRAFT_H
#define FINETUNED_BASE_JOB_DRAFT_H

#include "base/options.h"

struct job_draft {
    struct job job;            // first: a job is freed as its draft
    const char *file;          // name for messages; NULL: none. Valid while it is read
    int64_t from[OPTIONS_MAX]; // 0: default, n: line n of the file, -1: a flag
};

#define JOB_FROM_FLAG (-1)

// Sets options[i] from the text. `from` as above.
enum status job_draft_set(struct job_draft *draft, size_t i, const char *text, bool quoted, int64_t from);
// STATUS_USAGE naming the nearest known key; `file` and `line` ("--" and "" for a flag) stand before the key.
enum status job_draft_unknown(const char *file, const char *line, const char *key);
// All of a YAML document's keys (base/job_yaml.c).
enum status job_draft_yaml(struct job_draft *draft, const char *bytes, size_t size);

#endif
