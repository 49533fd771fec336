// SPDX-License-Identifier: Apache-2.0
// Names of what is on its way, and the removal of what a process that was ended left. People call their own copies
// .x.old or .x.tmp-1, so ours bear a mark that nobody else gives, and only a whole name as file_temporary makes it is
// removed.
#include "base/file_parts.h"

#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARK ".tmp-finetuned-"

// ---- names

char *file_temporary(const char *path) {
    static atomic_uint counter;
    size_t folder = path_folder_size(path), of = file_temporary_of(path + folder);
    const char *name = path + folder + (of ? 1 : 0);
    char *out = NULL;
    if (asprintf(&out, "%.*s.%.*s" MARK "%ld-%u", (int)folder, path, (int)(of ? of : strlen(name)), name,
                 (long)getpid(), atomic_fetch_add(&counter, 1)) < 0)
        return NULL;
    return out;
}

static size_t digits(const char *at) {
    return strspn(at, "0123456789");
}

// The last mark counts: the name before it is anybody's choice.
static const char *temporary_mark(const char *name) {
    const char *mark = NULL;
    for (const char *at = name; (at = strstr(at, MARK)); at++)
        mark = at;
    return mark;
}

size_t file_temporary_of(const char *name) {
    const char *mark = name[0] == '.' ? temporary_mark(name) : NULL;
    const char *pid = mark ? mark + strlen(MARK) : "", *count = pid + digits(pid);
    bool is = mark && mark > name + 1 && count > pid && count[0] == '-' && digits(count + 1) &&
              count[1 + digits(count + 1)] == '\0';
    return is ? (size_t)(mark - name) - 1 : 0;
}

bool file_is_temporary(const char *name) {
    return file_temporary_of(name) > 0;
}

bool file_is_temporary_for(const char *name, const char *base) {
    size_t of = file_temporary_of(name);
    return of && of == strlen(base) && memcmp(name + 1, base, of) == 0;
}

// ---- what is left of them

static bool folder_has(const char *folder, const char *name) {
    char *path = path_join(folder, name);
    bool has = path && file_named(path);
    free(path);
    return has;
}

bool file_is_run_folder(const char *path) {
    return folder_has(path, ".owner") || folder_has(path, "events.jsonl") || folder_has(path, "job.yaml");
}

// A folder that somebody moved a run to is theirs, whatever it is called. A link is removed, not followed.
static bool sweep_may(const char *path) {
    struct stat info;
    bool run = lstat(path, &info) == 0 && S_ISDIR(info.st_mode) && file_is_run_folder(path);
    if (run)
        log_warn("%s has the name of what is on its way, but holds a run: left there", path);
    return !run;
}

static enum status sweep_one(const char *folder, const char *name) {
    char *path = path_join(folder, name);
    if (!path)
        return status_set(STATUS_SYSTEM, "removing %s: no memory", name);
    bool may = sweep_may(path);
    enum status status = may ? file_remove(path) : STATUS_OK;
    if (status == STATUS_OK && may)
        log_info("removed %s, left by a process that was ended", path);
    free(path);
    return status;
}

enum status file_sweep(const char *folder, bool (*is_left)(const char *name)) {
    char **names;
    size_t n;
    enum status status = STATUS_OK;
    if (!file_is_folder(folder))
        return STATUS_OK;
    TRY(file_list(&names, &n, folder));
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        if (is_left(names[i]))
            status = sweep_one(folder, names[i]);
    file_list_free(names, n);
    return status;
}

// One whose process has ended. Our own number is that of one before us: nothing of ours is on its way when this is
// asked.
static bool sweep_is_beside(const char *name, const char *base) {
    if (!file_is_temporary_for(name, base))
        return false;
    long pid = strtol(name + 1 + strlen(base) + strlen(MARK), NULL, 10);
    return pid <= 0 || pid == (long)getpid() || (kill((pid_t)pid, 0) != 0 && errno == ESRCH);
}

enum status file_sweep_beside(const char *path) {
    size_t size = path_folder_size(path);
    char *folder = size ? strndup(path, size) : strdup(".");
    char **names = NULL;
    size_t n = 0;
    enum status status =
        folder ? STATUS_OK : status_set(STATUS_SYSTEM, "removing what was left of %s: no memory", path);
    if (status == STATUS_OK && file_is_folder(folder))
        status = file_list(&names, &n, folder);
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        if (sweep_is_beside(names[i], path + size))
            status = sweep_one(folder, names[i]);
    file_list_free(names, n);
    free(folder);
    return status;
}
