// SPDX-License-Identifier: Apache-2.0
// Asked without taking: is a folder still ours, and is it another's.
#include "base/file.h"
#include "base/text.h"
#include "checkpoints/owner_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- ours

// Our own file stays open, so its number is no other's.
bool owner_is_ours(const struct owner *owner) {
    struct stat ours, there;
    return owner->fd >= 0 && fstat(owner->fd, &ours) == 0 && stat(owner->path, &there) == 0 &&
           ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

static bool owner_is_gone(int error) {
    return error == ENOENT || error == ENOTDIR;
}

// A file system that is away for a while proves nothing.
bool owner_lost(struct owner *owner) {
    struct stat there;
    if (!owner || atomic_load(&owner->lost))
        return owner != NULL;
    bool answers = stat(owner->path, &there) == 0 || owner_is_gone(errno);
    if (answers && !owner_is_ours(owner))
        atomic_store(&owner->lost, true);
    return atomic_load(&owner->lost);
}

// Whose token stands there now, unless nothing can be read.
static bool owner_token_differs(const struct owner *owner) {
    struct owner_other other;
    int fd = open(owner->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return owner_is_gone(errno);
    close(fd);
    bool read = owner_other_read(&other, owner->path) == STATUS_OK;
    free(other.bytes);
    return read && strcmp(other.record.token, owner->record.token) != 0;
}

enum status owner_check(struct owner *owner) {
    if (!owner)
        return STATUS_OK;
    if (!owner_lost(owner) && owner_token_differs(owner))
        atomic_store(&owner->lost, true);
    if (!atomic_load(&owner->lost))
        return STATUS_OK;
    return status_set(STATUS_AGAIN, "this run no longer holds %.*s: %s; nothing more is written there",
                      (int)(strlen(owner->path) - strlen("/" OWNER_NAME)), owner->path,
                      file_exists(owner->path) ? "another run took it" : "its " OWNER_NAME " is gone");
}

// ---- another's

static bool owner_is_this_process(const struct owner_record *other, const struct owner_record *self) {
    return other->pid == self->pid && other->start_time == self->start_time &&
           strcmp(other->boot_id, self->boot_id) == 0 && strcmp(other->pid_namespace, self->pid_namespace) == 0;
}

// `above`: of a folder above ours. What this process holds is free then, and so is what holds no run's file.
static enum status owner_ask_once(bool *changed, const struct owner *owner, bool above) {
    struct owner_other other;
    enum status status = owner_other_read(&other, owner->path);
    *changed = false;
    if (status != STATUS_OK) {
        status = owner_other_refuse(owner->path, status);
        *changed = status == STATUS_OK;
        status = above ? STATUS_OK : status;
    } else if (!above || !owner_is_this_process(&other.record, &owner->record)) {
        status = owner_judge(changed, owner, &other, owner->path, OWNER_STALE_S);
    }
    free(other.bytes);
    return status;
}

static enum status owner_ask_path(char *path, const char *option, bool above) {
    struct owner owner = {.path = path, .option = option, .fd = -1};
    bool changed = true;
    enum status status = owner_record_self(&owner.record);
    for (unsigned tries = 0; status == STATUS_OK && changed && tries < OWNER_TRIES && file_named(path); tries++)
        status = owner_ask_once(&changed, &owner, above);
    return status;
}

enum status owner_ask(const char *folder, const char *option) {
    char *path = path_join(folder, OWNER_NAME);
    enum status status =
        path ? owner_ask_path(path, option, false) : status_set(STATUS_SYSTEM, "%s: no memory", folder);
    free(path);
    return status;
}

enum status owner_ask_above(const char *folder, const char *option) {
    char *at = strdup(folder), *slash;
    enum status status = at ? STATUS_OK : status_set(STATUS_SYSTEM, "%s: no memory", folder);
    while (status == STATUS_OK && (slash = strrchr(at, '/'))) {
        *slash = '\0';
        char *path = text_format("%s/" OWNER_NAME, at);
        status = path ? owner_ask_path(path, option, true) : status_set(STATUS_SYSTEM, "%s: no memory", folder);
        free(path);
    }
    free(at);
    return status;
}

bool owner_is_there(const char *folder) {
    struct owner_other other = {0};
    char *path = path_join(folder, OWNER_NAME);
    bool is = path && file_named(path) && owner_other_read(&other, path) == STATUS_OK && !other.garbage;
    free(other.bytes);
    free(path);
    return is;
}
