// SPDX-License-Identifier: Apache-2.0
// What is to be deleted, by a thread of its own: a file system may take half a second for a file of a gigabyte, which
// nobody needs to wait for. What is handed over has a temporary name already: checkpoint_sweep removes what a crash
// leaves.
#ifndef FINETUNED_CHECKPOINTS_REMOVAL_H
#define FINETUNED_CHECKPOINTS_REMOVAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct removal {
    char **paths;
    size_t n;
    pthread_t thread;
    bool running;
};

// Takes over the malloc'ed path. No memory: deletes it at once.
void removal_add(struct removal *removal, char *path);
void removal_begin(struct removal *removal);
// Waits for its end; what could not be deleted is told in the log.
void removal_end(struct removal *removal);

#endif
