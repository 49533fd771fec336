// SPDX-License-Identifier: Apache-2.0
// Taking a folder without a lock service: link(2) gives .owner its name for one starter only. A stale .owner is
// replaced, never deleted first: its taker must hold the claim .owner.next-<token>, a name made from the stale file's
// own token and so given to one starter only; while the claim stands, .owner can't change hands, so "still that token?"
// asked under it stays true up to the rename. A taker that died with its claim is itself a stale owner, whose claim is
// the next link of the chain.
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoints/owner_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define OWNER_CHAIN 8 // dead takers in a row

// ---- alive or not

static enum status owner_in_use(const struct owner *owner, const struct owner_record *record) {
    return status_set(STATUS_AGAIN,
                      "%s: %.*s is in use by pid %ld on host %s (started %s): wait for it or choose another %s",
                      owner->option, (int)(strlen(owner->path) - strlen("/" OWNER_NAME)), owner->path, record->pid,
                      record->host, record->started, owner->option);
}

// Watches another host's file by our own clock: any change of it, also its going, is life. Returns whether it stayed as
// it is.
static bool owner_is_still(const struct owner_other *other, const char *path, double stale_s) {
    struct timespec nap = {.tv_sec = 0, .tv_nsec = 250000000}, start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (;;) {
        struct owner_other again;
        enum status status = owner_other_read(&again, path);
        bool same =
            status == STATUS_OK && again.size == other->size && memcmp(again.bytes, other->bytes, again.size) == 0;
        free(again.bytes);
        if (!same)
            return false;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) * 1e-9 >= stale_s)
            return true;
        nanosleep(&nap, NULL);
    }
}

// The same kernel since the same boot, and the same numbering of processes: then /proc knows. A container beside ours
// on the same host is like another host.
static bool owner_is_here(const struct owner_record *other, const struct owner_record *self) {
    return self->start_time && other->boot_id[0] && strcmp(other->boot_id, self->boot_id) == 0 &&
           strcmp(other->pid_namespace, self->pid_namespace) == 0;
}

bool owner_is_rebooted(const struct owner_record *other, const struct owner_record *self) {
    return strcmp(other->host, self->host) == 0 && strcmp(other->host, "localhost") != 0 && other->boot_id[0] &&
           strcmp(other->boot_id, self->boot_id) != 0;
}

enum status owner_judge(bool *changed, const struct owner *owner, const struct owner_other *other, const char *path,
                        double stale_s) {
    const struct owner_record *record = &other->record;
    *changed = false;
    if (other->garbage) {
        log_warn("%s: not readable as an owner's file: taken for the rest of a crash", path);
        return STATUS_OK;
    }
    if (owner_is_here(record, &owner->record)) {
        unsigned long long start = owner_start_time(record->pid);
        return start && start == record->start_time ? owner_in_use(owner, record) : STATUS_OK;
    }
    if (owner_is_rebooted(record, &owner->record))
        return STATUS_OK;
    log_info("%s: held by pid %ld on host %s: watching it for up to %.0f s", path, record->pid, record->host, stale_s);
    if (owner_is_still(other, path, stale_s))
        return STATUS_OK;
    struct owner_other again;
    *changed = owner_other_read(&again, path) != STATUS_OK || strcmp(again.record.token, record->token) != 0;
    free(again.bytes);
    return *changed ? STATUS_OK : owner_in_use(owner, record);
}

// ---- putting ours in place

// link(2) on NFS may say EEXIST after it did the work: the link count knows.
static bool owner_link(const struct owner *owner, const char *name) {
    struct stat before, after;
    if (fstat(owner->fd, &before) != 0)
        return false;
    if (link(owner->temporary, name) == 0)
        return true;
    int error = errno;
    bool linked = fstat(owner->fd, &after) == 0 && after.st_nlink == before.st_nlink + 1;
    errno = error;
    return linked;
}

static char *owner_claim_name(const struct owner *owner, const char *token) {
    return text_format("%s.next-%s", owner->path, token);
}

// Claims the right to follow `other`; the claims of takers that died before come first in the chain. Names that we
// passed or hold are in `chain`. *again: something changed, start over.
static enum status owner_claim(bool *again, char *chain[OWNER_CHAIN], size_t *n, const struct owner *owner,
                               const char *token, double stale_s) {
    char next[33];
    snprintf(next, sizeof next, "%s", token);
    for (*n = 0; *n < OWNER_CHAIN;) {
        char *name = owner_claim_name(owner, next);
        if (!name)
            return status_set(STATUS_SYSTEM, "%s: no memory", owner->path);
        chain[(*n)++] = name;
        if (owner_link(owner, name))
            return STATUS_OK;
        if (errno != EEXIST)
            return file_error(STATUS_IO, "link", name);
        struct owner_other other;
        enum status status = owner_other_read(&other, name);
        *again = status != STATUS_OK;
        status = *again ? owner_other_refuse(name, status) : owner_judge(again, owner, &other, name, stale_s);
        snprintf(next, sizeof next, "%s", other.record.token);
        free(other.bytes);
        if (status != STATUS_OK || *again)
            return status;
    }
    return status_set(STATUS_AGAIN, "%s: too many starts that died while taking it: remove %s.next-*", owner->path,
                      owner->path);
}

// Under our claim: is .owner still the stale one? Then ours takes its place, and the claims go.
static enum status owner_replace(bool *again, char *chain[], size_t n, const struct owner *owner, const char *token) {
    struct owner_other now;
    enum status status = STATUS_OK;
    *again = owner_other_read(&now, owner->path) != STATUS_OK || strcmp(now.record.token, token) != 0;
    free(now.bytes);
    if (*again)
        unlink(chain[n - 1]);
    else if (rename(owner->temporary, owner->path) != 0)
        status = status_errno(STATUS_IO, "rename %s", owner->temporary);
    for (size_t i = n; !*again && i-- > 0;)
        unlink(chain[i]);
    return status;
}

static enum status owner_succeed(bool *again, const struct owner *owner, const char *token, double stale_s) {
    char *chain[OWNER_CHAIN] = {0};
    size_t n = 0;
    *again = false;
    enum status status = owner_claim(again, chain, &n, owner, token, stale_s);
    if (status == STATUS_OK && !*again)
        status = owner_replace(again, chain, n, owner, token);
    for (size_t i = 0; i < n; i++)
        free(chain[i]);
    return status;
}

// One look at .owner: ours now (*done), or someone's (STATUS_AGAIN), or to be looked at again.
static enum status owner_try(bool *done, const struct owner *owner, double stale_s) {
    struct owner_other other;
    bool again = false;
    *done = owner_link(owner, owner->path);
    if (*done)
        return STATUS_OK;
    if (errno != EEXIST)
        return file_error(STATUS_IO, "link", owner->path);
    enum status status = owner_other_read(&other, owner->path);
    if (status != STATUS_OK)
        return owner_other_refuse(owner->path, status);
    status = owner_judge(&again, owner, &other, owner->path, stale_s);
    if (status == STATUS_OK && !again) {
        status = owner_succeed(&again, owner, other.record.token, stale_s);
        *done = status == STATUS_OK && !again;
        if (*done && !other.garbage)
            log_warn("%s: pid %ld on host %s (started %s) is gone: taken over", owner->path, other.record.pid,
                     other.record.host, other.record.started);
    }
    free(other.bytes);
    return status;
}

// A file that another one replaced, or that went, under our eyes: look again.
enum status owner_place(const struct owner *owner, double stale_s) {
    bool done = false;
    for (unsigned tries = 0; tries < OWNER_TRIES && !done; tries++)
        TRY(owner_try(&done, owner, stale_s));
    return done ? STATUS_OK : status_set(STATUS_AGAIN, "%s changes hands all the time: try again", owner->path);
}
