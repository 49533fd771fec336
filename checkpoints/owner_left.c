// SPDX-License-Identifier: Apache-2.0
// What takers of a folder that died left in it: files that they had not put in place, and claims. A taker may die
// before it has written a byte, so its temporary file's name says whose it is:
//   .owner.tmp-<where>-<pid>-<start time>-<token>
// where: 8 hex digits of boot id and process namespace, within which pid and start time name a process.
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoints/owner_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OWNER_LEFT_S 3600 // no start takes so long
#define OWNER_TOKEN 32    // hex digits

static const char next[] = OWNER_NAME ".next-";

static uint32_t owner_where(const struct owner_record *record) {
    char both[sizeof record->boot_id + sizeof record->pid_namespace + 1];
    int size = snprintf(both, sizeof both, "%s\n%s", record->boot_id, record->pid_namespace);
    return (uint32_t)hash64(both, (size_t)size);
}

char *owner_temporary(const char *path, const struct owner_record *record) {
    return text_format("%s.tmp-%08" PRIx32 "-%ld-%llu-%s", path, owner_where(record), record->pid, record->start_time,
                       record->token);
}

static bool owner_is_token(const char *text) {
    return strspn(text, "0123456789abcdef") == OWNER_TOKEN && text[OWNER_TOKEN] == '\0';
}

// The process that a name was made by.
struct maker {
    uint32_t where;
    long pid;
    unsigned long long start_time;
};

// False if it is no name that owner_temporary makes.
static bool owner_maker(struct maker *out, const char *name) {
    int end = 0;
    return sscanf(name, OWNER_NAME ".tmp-%8" SCNx32 "-%ld-%llu-%n", &out->where, &out->pid, &out->start_time, &end) ==
               3 &&
           end > 0 && owner_is_token(name + end);
}

// Of a process of this host, which is gone; of this host before it was started anew; of an age that no start has,
// compared with our own file's time: one clock, the file system's.
static bool owner_is_left(const struct owner *owner, const char *path, const struct maker *maker) {
    struct owner_other other;
    struct stat ours, theirs;
    if (owner->record.start_time && maker->where == owner_where(&owner->record))
        return owner_start_time(maker->pid) != maker->start_time;
    if (owner_other_read(&other, path) != STATUS_OK || fstat(owner->fd, &ours) != 0 || stat(path, &theirs) != 0)
        return false;
    free(other.bytes);
    return (!other.garbage && owner_is_rebooted(&other.record, &owner->record)) ||
           theirs.st_mtime + OWNER_LEFT_S < ours.st_mtime;
}

static bool owner_is_claim(const char *name) {
    return strncmp(name, next, sizeof next - 1) == 0 && owner_is_token(name + sizeof next - 1);
}

// To follow someone who is gone from .owner, where we are now.
static bool owner_is_old_claim(const struct owner *owner, const char *name) {
    return owner_is_claim(name) && strcmp(name + sizeof next - 1, owner->record.token) != 0;
}

bool owner_name_is_given(const char *name) {
    struct maker maker;
    return strcmp(name, OWNER_NAME) == 0 || owner_is_claim(name) || owner_maker(&maker, name);
}

void owner_sweep(const struct owner *owner, const char *folder) {
    char **names;
    size_t n;
    if (file_list(&names, &n, folder) != STATUS_OK)
        return;
    for (size_t i = 0; i < n; i++) {
        struct maker maker;
        bool claim = owner_is_old_claim(owner, names[i]), made = owner_maker(&maker, names[i]);
        char *path = claim || made ? path_join(folder, names[i]) : NULL;
        if (path && (claim || owner_is_left(owner, path, &maker)) && unlink(path) == 0)
            log_info("removed %s, left by a process that was ended", path);
        free(path);
    }
    file_list_free(names, n);
}
