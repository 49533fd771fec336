// SPDX-License-Identifier: Apache-2.0
// Taking a folder without a lock service: link(2) gives .owner its name for one starter only. A stale .owner is
// replaced, never deleted first: its taker must hold the claim .owner.next-<token>, a name made from the stale file's
// own token and so given to one starter only; while the claim stands, .owner can't change hands, so "still that token?"
// asked under it stays true up to the rename. A taker that died with its claim is itself a stale owner, whose claim is
// the next link of the chain.
#include "checkpoints/owner.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define OWNER_NAME ".owner"
#define OWNER_MAX 65536  // bytes of the file
#define OWNER_CHAIN 8    // dead takers in a row
#define OWNER_TRIES 1000 // times that .owner changed under our eyes
#define HEARTBEAT_KEY "\"heartbeat\": \""
#define HEARTBEAT_DIGITS 16

struct owner {
    char *path;      // <folder>/.owner
    char *temporary; // our file's other name while it is being put in place
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

// ---- who we are

static void owner_read_line(char *out, size_t room, const char *path) {
    char *bytes = NULL;
    if (file_read(&bytes, NULL, path, OWNER_MAX) == STATUS_OK)
        snprintf(out, room, "%.*s", (int)strcspn(bytes, "\n"), bytes);
    free(bytes);
}

// Field 22 of /proc/<pid>/stat (proc(5)); 0 if there is no such process or it is only waiting to be reaped.
static unsigned long long owner_start_time(long pid) {
    char path[64], line[1024] = "";
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    owner_read_line(line, sizeof line, path);
    char *at = strrchr(line, ')'); // the command's name may hold anything
    if (!at || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X')
        return 0;
    at += 2;
    for (int field = 3; field < 22 && at; field++)
        at = (at = strchr(at, ' ')) ? at + 1 : NULL;
    return at ? strtoull(at, NULL, 10) : 0;
}

static enum status owner_record_self(struct owner_record *record) {
    uint64_t token[2];
    struct tm now;
    time_t seconds = time(NULL);
    *record = (struct owner_record){.pid = (long)getpid()};
    if (getrandom(token, sizeof token, 0) != (ssize_t)sizeof token)
        return status_errno(STATUS_SYSTEM, "random bytes");
    snprintf(record->token, sizeof record->token, "%016" PRIx64 "%016" PRIx64, token[0], token[1]);
    gethostname(record->host, sizeof record->host - 1);
    owner_read_line(record->boot_id, sizeof record->boot_id, "/proc/sys/kernel/random/boot_id");
    if (readlink("/proc/self/ns/pid", record->pid_namespace, sizeof record->pid_namespace - 1) < 0)
        record->pid_namespace[0] = '\0';
    strftime(record->started, sizeof record->started, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &now));
    record->start_time = owner_start_time(record->pid);
    return STATUS_OK;
}

// ---- the file's text

static char *owner_format(const struct owner_record *record) {
    json_t *root = json_pack("{s:s, s:s, s:s, s:I, s:I, s:s, s:s, s:s}", "host", record->host, "boot_id",
                             record->boot_id, "pid_namespace", record->pid_namespace, "pid", (json_int_t)record->pid,
                             "start_time", (json_int_t)record->start_time, "started", record->started, "token",
                             record->token, "heartbeat", "0000000000000000");
    char *text = root ? json_dumps(root, JSON_PRESERVE_ORDER) : NULL;
    json_decref(root);
    return text;
}

static bool owner_text(char *out, size_t room, const json_t *root, const char *key) {
    const json_t *value = json_object_get(root, key);
    if (!json_is_string(value) || json_string_length(value) >= room)
        return false;
    memcpy(out, json_string_value(value), json_string_length(value) + 1);
    return true;
}

// It becomes part of a file's name.
static bool owner_token_is_right(const char *token) {
    for (const char *at = token; *at; at++)
        if (!isdigit((unsigned char)*at) && !(*at >= 'a' && *at <= 'f'))
            return false;
    return strlen(token) == 32;
}

static bool owner_record_read(struct owner_record *out, const json_t *root) {
    const json_t *pid = json_object_get(root, "pid"), *start = json_object_get(root, "start_time");
    if (!owner_text(out->host, sizeof out->host, root, "host") ||
        !owner_text(out->boot_id, sizeof out->boot_id, root, "boot_id") ||
        !owner_text(out->pid_namespace, sizeof out->pid_namespace, root, "pid_namespace") ||
        !owner_text(out->started, sizeof out->started, root, "started") ||
        !owner_text(out->token, sizeof out->token, root, "token") || !owner_token_is_right(out->token))
        return false;
    if (!json_is_integer(pid) || !json_is_integer(start) || json_integer_value(pid) <= 0 ||
        json_integer_value(start) < 0)
        return false;
    out->pid = (long)json_integer_value(pid);
    out->start_time = (unsigned long long)json_integer_value(start);
    return true;
}

enum status owner_parse(struct owner_record *out, const char *bytes, size_t size) {
    *out = (struct owner_record){0};
    json_t *root = size <= OWNER_MAX ? json_loadb(bytes, size, JSON_REJECT_DUPLICATES, NULL) : NULL;
    bool right = json_is_object(root) && owner_record_read(out, root);
    json_decref(root);
    return right ? STATUS_OK : status_set(STATUS_DATA, "not an owner's file");
}

// ---- the other's file

struct owner_other {
    struct owner_record record; // of garbage: a token made from its bytes
    bool garbage;
    char *bytes;
    size_t size;
};

static enum status owner_other_read(struct owner_other *out, const char *path) {
    *out = (struct owner_other){0};
    TRY(file_read(&out->bytes, &out->size, path, OWNER_MAX)); // missing: STATUS_DATA
    if (owner_parse(&out->record, out->bytes, out->size) == STATUS_OK)
        return STATUS_OK;
    out->garbage = true;
    out->record = (struct owner_record){0};
    snprintf(out->record.token, sizeof out->record.token, "%016" PRIx64 "%016zx", hash64(out->bytes, out->size),
             out->size);
    return STATUS_OK;
}

static enum status owner_in_use(const struct owner *owner, const struct owner_record *record) {
    return status_set(
        STATUS_AGAIN, "out folder %.*s is in use by pid %ld on host %s (started %s): wait for it or choose another out",
        (int)(strlen(owner->path) - strlen("/" OWNER_NAME)), owner->path, record->pid, record->host, record->started);
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

// Our host's name with another boot id: it was restarted since.
static bool owner_is_rebooted(const struct owner_record *other, const struct owner_record *self) {
    return strcmp(other->host, self->host) == 0 && strcmp(other->host, "localhost") != 0 && other->boot_id[0] &&
           strcmp(other->boot_id, self->boot_id) != 0;
}

// STATUS_AGAIN if it lives; *changed if the file is another now: look again.
static enum status owner_judge(bool *changed, const struct owner *owner, const struct owner_other *other,
                               const char *path, double stale_s) {
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
            return status_errno(STATUS_IO, "link %s", name);
        struct owner_other other;
        *again = owner_other_read(&other, name) != STATUS_OK;
        enum status status = *again ? STATUS_OK : owner_judge(again, owner, &other, name, stale_s);
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
        return status_errno(STATUS_IO, "link %s", owner->path);
    if (owner_other_read(&other, owner->path) != STATUS_OK)
        return file_exists(owner->path) ? status_set(STATUS_IO, "%s can't be read", owner->path) : STATUS_OK;
    enum status status = owner_judge(&again, owner, &other, owner->path, stale_s);
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
static enum status owner_place(const struct owner *owner, double stale_s) {
    bool done = false;
    for (unsigned tries = 0; tries < OWNER_TRIES && !done; tries++)
        TRY(owner_try(&done, owner, stale_s));
    return done ? STATUS_OK : status_set(STATUS_AGAIN, "%s changes hands all the time: try again", owner->path);
}

static enum status owner_write(struct owner *owner) {
    char *text = owner_format(&owner->record);
    const char *key = text ? strstr(text, HEARTBEAT_KEY) : NULL;
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
        owner->heartbeat_at = (off_t)(key - text) + (off_t)strlen(HEARTBEAT_KEY);
    free(text);
    return status;
}

// ---- heartbeat

// Into our own file, in one write of the same length: if another has taken .owner meanwhile, this can't touch the new
// one.
static bool owner_beat(struct owner *owner, uint64_t count) {
    char digits[HEARTBEAT_DIGITS + 1];
    snprintf(digits, sizeof digits, "%016" PRIx64, count);
    return pwrite(owner->fd, digits, HEARTBEAT_DIGITS, owner->heartbeat_at) == HEARTBEAT_DIGITS &&
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
