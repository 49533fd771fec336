// SPDX-License-Identifier: Apache-2.0
// Holding a folder: our file and its heartbeat.
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
        status = file_error(STATUS_IO, "create", owner->temporary);
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

static void owner_look(struct owner *owner, uint64_t count, bool *said) {
    if (!owner_beat(owner, count) && !*said) {
        log_warn("%s: the heartbeat can't be written: %s", owner->path, strerror(errno));
        *said = true;
    }
    owner_lost(owner); // kept for who asks
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
    owner->temporary = owner->path ? owner_temporary(owner->path, &owner->record) : NULL;
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

enum status owner_take_within(struct owner **out, const char *folder, const char *option, double stale_s) {
    *out = NULL;
    struct owner *owner = calloc(1, sizeof *owner);
    if (!owner)
        return status_set(STATUS_SYSTEM, "%s: no memory", folder);
    owner->fd = -1;
    owner->option = option;
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

enum status owner_take(struct owner **out, const char *folder, const char *option) {
    return owner_take_within(out, folder, option, OWNER_STALE_S);
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
