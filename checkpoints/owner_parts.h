// SPDX-License-Identifier: Apache-2.0
// What owner*.c share.
#ifndef FINETUNED_CHECKPOINTS_OWNER_PARTS_H
#define FINETUNED_CHECKPOINTS_OWNER_PARTS_H

#include "checkpoints/owner.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#define OWNER_NAME ".owner"
#define OWNER_TRIES 1000 // times that .owner changed under our eyes
#define OWNER_HEARTBEAT_KEY "\"heartbeat\": \""
#define OWNER_HEARTBEAT_DIGITS 16

struct owner {
    char *path;         // <folder>/.owner
    const char *option; // what named the folder
    char *temporary;    // our file's other name while it is being put in place
    struct owner_record record;
    int fd; // of our own file, whatever name it has
    off_t heartbeat_at;
    pid_t process;
    bool beating;
    bool stop;
    atomic_bool lost;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
};

// ---- owner_record.c: the file's text, ours and another's

// Field 22 of /proc/<pid>/stat (proc(5)); 0 if there is no such process or it is only waiting to be reaped.
unsigned long long owner_start_time(long pid);
enum status owner_record_self(struct owner_record *record);
char *owner_format(const struct owner_record *record); // malloc'ed; NULL if there is no memory

struct owner_other {
    struct owner_record record; // of garbage: a token made from its bytes
    bool garbage;
    char *bytes;
    size_t size;
};

// Missing: STATUS_DATA.
enum status owner_other_read(struct owner_other *out, const char *path);
// After it could not be read: STATUS_IO and what to do about what has its name. STATUS_OK if it only went, or changed,
// under our eyes: look again.
enum status owner_other_refuse(const char *path, enum status found);

// ---- owner_held.c: asked later

bool owner_is_ours(const struct owner *owner);

// ---- owner_claim.c: taking .owner

// STATUS_AGAIN if it lives; *changed if the file is another now: look again.
enum status owner_judge(bool *changed, const struct owner *owner, const struct owner_other *other, const char *path,
                        double stale_s);
// Puts ours, written under its temporary name, in place.
enum status owner_place(const struct owner *owner, double stale_s);
// Our host's name with another boot id: it was restarted since.
bool owner_is_rebooted(const struct owner_record *other, const struct owner_record *self);

// ---- owner_left.c: what takers that died left

// The name that our file has until it is in place at `path`; malloc'ed, NULL if there is no memory.
char *owner_temporary(const char *path, const struct owner_record *record);
// Once it is in place: removes what takers that died left in the folder, and says so.
void owner_sweep(const struct owner *owner, const char *folder);

#endif
