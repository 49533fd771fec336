// SPDX-License-Identifier: Apache-2.0
// Holding a folder: our file, its heartbeat, and whether it is still ours.
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoints/owner_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static enum status owner_write(struct owner *owner) {
    char *text = owner_format(&owner->record);
    const char *key = text ? strstr(text, OWNER_HEARTBEAT_KEY) : NULL;
    enum status status = STATUS_OK;
    owner->fd = open(owner->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (owner->fd < 0)
        status = status_errno(STATUS_IO, "create %s", owner->temporary);
    else if (!key)
        status = status_set(STATUS_SYSTEM, "%s: no memory", owner->path);
    else
        status = file_pwrite_all(owner->fd, text, strlen(text), 0, owner->temporary);
    if (status == STATUS_OK && fsync(owner->fd) != 0)
        status = status_errno(STATUS_IO, "fsync %s", owner->temporary);
    if (key)
        owner->heartbeat_at = (off_t)(key - text) + (off_t)strlen(OWNER_HEARTBEAT_KEY);
    free(text);
    return status;
}

// ---- heartbeat

// Into our own file, in one write of the same length: if another has taken .owner meanwhile, this can't touch the new
// one.
static bool owner_beat(struct owner *owner, uint64_t count) {
    char digits[OWNER_HEARTBEAT_DIGITS + 1];
    snprintf(digits, sizeof digits, "%016" PRIx64, count);
    return pwrite(owner->fd, digits, OWNER_HEARTBEAT_DIGITS, owner->heartbeat_at) == OWNER_HEARTBEAT_DIGITS &&
           fdatasync(owner->fd) == 0;
}

static bool owner_is_ours(const struct owner *owner) {
    struct stat ours, there;
    return owner->fd >= 0 && fstat(owner->fd, &ours) == 0 && stat(owner->path, &there) == 0 &&
           ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

// A file system that is away for a while proves nothing.
static bool owner_is_lost(const struct owner *owner) {
    struct stat there;
    bool answers = stat(owner->path, &there) == 0 || errno == ENOENT;
    return answers && !owner_is_ours(owner);
}

static void owner_look(struct owner *owner, uint64_t count, bool *said) {
    if (!owner_beat(owner, count) && !*said) {
        log_warn("%s: the heartbeat can't be written: %s", owner->path, strerror(errno));
        *said = true;
    }
    if (owner_is_lost(owner) && !atomic_exchange(&owner->lost, true))
        log_error("%s: this run no longer holds its folder", owner->path);
}

static void *owner_thread(void *context) {
    struct owner *owner = context;
    bool said = false;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    pthread_mutex_lock(&owner->lock);
    for (uint64_t count = 1; !owner->stop; count++) {
        until.tv_sec += (time_t)OWNER_BEAT_S;
        while (!owner->stop && pthread_cond_timedwait(&owner->wake, &owner->lock, &until) != ETIMEDOUT)
            continue;
        if (owner->stop)
            break;
        pthread_mutex_unlock(&owner->lock);
        owner_look(owner, count, &said);
        clock_gettime(CLOCK_MONOTONIC, &until);
        pthread_mutex_lock(&owner->lock);
    }
    pthread_mutex_unlock(&owner->lock);
    return NULL;
}

// Signals are for the other threads.
static enum status owner_beat_begin(struct owner *owner) {
    sigset_t all, before;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&owner->lock, NULL);
    pthread_cond_init(&owner->wake, &clock);
    pthread_condattr_destroy(&clock);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    errno = pthread_create(&owner->thread, NULL, owner_thread, owner);
    owner->beating = errno == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return owner->beating ? STATUS_OK : status_errno(STATUS_SYSTEM, "%s: heartbeat thread", owner->path);
}

static void owner_beat_end(struct owner *owner) {
    pthread_mutex_lock(&owner->lock);
    owner->stop = true;
    pthread_cond_signal(&owner->wake);
    pthread_mutex_unlock(&owner->lock);
    pthread_join(owner->thread, NULL);
    pthread_cond_destroy(&owner->wake);
    pthread_mutex_destroy(&owner->lock);
}

// ---- the whole

static void owner_remove(const struct owner *owner) {
    if (owner_is_ours(owner))
        unlink(owner->path);
}

static void owner_free(struct owner *owner) {
    if (owner->fd >= 0)
        close(owner->fd);
    free(owner->temporary);
    free(owner->path);
    free(owner);
}

static enum status owner_prepare(struct owner *owner, const char *folder) {
    TRY(file_make_folders(folder));
    TRY(owner_record_self(&owner->record));
    owner->path = path_join(folder, OWNER_NAME);
    owner->temporary = owner->path ? text_format("%s.tmp-%s", owner->path, owner->record.token) : NULL;
    if (!owner->temporary)
        return status_set(STATUS_SYSTEM, "%s: no memory", folder);
    return owner_write(owner);
}

static enum status owner_start(struct owner *owner, const char *folder, double stale_s) {
    enum status status = owner_prepare(owner, folder);
    if (status == STATUS_OK)
        status = owner_place(owner, stale_s);
    if (owner->fd >= 0)
        unlink(owner->temporary);
    TRY(status);
    owner_sweep(owner, folder);
    TRY(file_sync_folder(folder));
    return owner_beat_begin(owner);
}

enum status owner_take_within(struct owner **out, const char *folder, double stale_s) {
    *out = NULL;
    struct owner *owner = calloc(1, sizeof *owner);
    if (!owner)
        return status_set(STATUS_SYSTEM, "%s: no memory", folder);
    owner->fd = -1;
    owner->process = getpid();
    enum status status = owner_start(owner, folder, stale_s);
    if (status != STATUS_OK) {
        owner_remove(owner);
        owner_free(owner);
        return status;
    }
    *out = owner;
    return STATUS_OK;
}

enum status owner_take(struct owner **out, const char *folder) {
    return owner_take_within(out, folder, OWNER_STALE_S);
}

enum status owner_ask(const char *folder) {
    struct owner owner = {.path = path_join(folder, OWNER_NAME), .fd = -1};
    struct owner_other other = {0};
    bool changed = true;
    enum status status =
        owner.path ? owner_record_self(&owner.record) : status_set(STATUS_SYSTEM, "%s: no memory", folder);
    for (unsigned tries = 0; status == STATUS_OK && changed && tries < OWNER_TRIES && file_exists(owner.path);
         tries++) {
        if (owner_other_read(&other, owner.path) == STATUS_OK)
            status = owner_judge(&changed, &owner, &other, owner.path, OWNER_STALE_S);
        free(other.bytes);
        other = (struct owner_other){0};
    }
    free(owner.path);
    return status;
}

enum status owner_check(const struct owner *owner) {
    if (!atomic_load(&owner->lost))
        return STATUS_OK;
    return status_set(STATUS_AGAIN, "%s: another run took this folder over", owner->path);
}

void owner_release(struct owner *owner) {
    if (!owner)
        return;
    if (owner->process == getpid()) { // a forked child has neither the thread nor the right
        if (owner->beating)
            owner_beat_end(owner);
        owner_remove(owner);
    }
    owner_free(owner);
}
