// SPDX-License-Identifier: Apache-2.0
#include "daemon/written.h"

#include "base/file.h"
#include "base/text.h"
#include "checkpoints/owner.h"
#include "checkpoints/steps.h"
#include "daemon/taken.h"
#include "export/export.h"
#include "train/events.h"
#include "train/folder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static enum status no_memory(const char *key) {
    return status_set(STATUS_SYSTEM, "%s: no memory", key);
}

// ---- what kind of thing stands there

static enum status file_fits(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0)
        return errno == ELOOP ? status_set(STATUS_USAGE,
                                           "out: %s is a link that leads in a circle, where the run writes a file: "
                                           "remove it or choose another out",
                                           path)
                              : STATUS_OK;
    return S_ISREG(info.st_mode)
               ? STATUS_OK
               : status_set(STATUS_USAGE,
                            "out: %s is %s, where the run writes a file: move it away or choose another out", path,
                            S_ISDIR(info.st_mode) ? "a folder" : "no regular file");
}

// ---- whose it is

// The run whose folder `path`, a real one, is or lies in; malloc'ed, or NULL.
static char *run_above(const char *path) {
    char *at = strdup(path);
    for (char *slash; at && (slash = strrchr(at, '/')); *slash = '\0') {
        char *events = path_join(at, "events.jsonl");
        bool is = events && file_named(events);
        free(events);
        if (is)
            return at;
    }
    free(at);
    return NULL;
}

// `out` itself may be a link, and so may a folder in it that others' disks hold: not one into another run's.
static enum status link_stays(const char *out, const char *path) {
    struct stat info;
    char *own = NULL, *real = NULL, *run = NULL;
    if (lstat(path, &info) != 0 || !S_ISLNK(info.st_mode))
        return STATUS_OK;
    enum status status = file_real(&own, out);
    if (status == STATUS_OK)
        status = file_real(&real, path);
    if (status == STATUS_OK && !file_is_in(real, own))
        run = run_above(real);
    if (run && strcmp(run, own) != 0)
        status =
            status_set(STATUS_USAGE,
                       "out: %s is a link that leads to %s, which is the run's in %s: a run writes its own; remove "
                       "the link or choose another out",
                       path, real, run);
    free(run);
    free(real);
    free(own);
    return status;
}

static enum status users_stay(const char *path, bool ours) {
    return ours || !file_exists(path)
               ? STATUS_OK
               : status_set(STATUS_USAGE,
                            "out: %s would be replaced, and no run wrote it: move it away or choose another out", path);
}

enum status written_file(const char *folder, const char *name, bool ours) {
    char *path = path_join(folder, name);
    enum status status = path ? file_fits(path) : no_memory("out");
    if (status == STATUS_OK)
        status = link_stays(folder, path);
    if (status == STATUS_OK)
        status = users_stay(path, ours);
    free(path);
    return status;
}

// ---- all of a run's

// Its checkpoints tell of a run whose events are lost.
static bool has_steps(const struct job *job) {
    struct steps steps = {0};
    bool any = file_is_in(job->checkpoints.dir, job->out) && steps_list(&steps, job->checkpoints.dir) == STATUS_OK &&
               steps.n > 0;
    steps_release(&steps);
    return any;
}

// A run was here: what has its names is its. What can't be read is looked at by who reads it.
static bool was_here(const struct job *job) {
    struct events_previous previous;
    return events_look(&previous, job->out) != STATUS_OK || previous.any || has_steps(job);
}

static enum status archives_check(const struct job *job, bool ours) {
    enum status status = STATUS_OK;
    for (size_t i = 0; exporters[i].kind && status == STATUS_OK; i++) {
        if (!job->export.to[exporters[i].job])
            continue;
        char *name = export_path(&exporters[i], "artifacts", job->job);
        status = name ? written_file(job->out, name, ours) : no_memory("out");
        free(name);
    }
    return status;
}

static enum status files_check(const struct job *job, bool ours) {
    for (size_t i = 0; taken_written[i]; i++) {
        bool report = strncmp(taken_written[i], "report.", 7) == 0; // the others are looked at by who reads them
        if (taken_written[i][0] != '.')
            TRY(written_file(job->out, taken_written[i], ours || !report));
    }
    return archives_check(job, ours);
}

static enum status folder_check(const struct job *job, const char *name, bool needed) {
    char *path = path_join(job->out, name);
    enum status status = path ? link_stays(job->out, path) : no_memory("out");
    if (status == STATUS_OK && needed)
        status = file_place("out", path);
    free(path);
    return status;
}

static enum status folders_check(const struct job *job) {
    TRY(folder_check(job, "artifacts", true));
    TRY(folder_check(job, "tensorboard", job->log.tensorboard));
    return folder_check(job, "model", false); // export/foreign.h looks at the rest
}

// Who holds the folder reads it: what stands there under that name is told now, and whether it is held then.
static enum status owner_check_kind(const struct job *job) {
    char *path = path_join(job->out, ".owner");
    enum status status = path ? STATUS_OK : no_memory("out");
    if (path && file_named(path) && file_check_regular(path) != STATUS_OK)
        status = owner_ask(job->out, "out");
    free(path);
    return status;
}

// Where checkpoints.dir or data.cache is <out>/<name>, as they are unless a job says otherwise.
static enum status kept_check(const struct job *job, const char *key, const char *path) {
    if (!file_is_folder(path)) // a folder that is there may be read-only and complete
        TRY(file_place(key, path));
    return file_is_in(path, job->out) ? link_stays(job->out, path) : STATUS_OK;
}

// A run in a folder of checkpoints, under a name that is given there, would be moved or lost.
static enum status names_check(const char *dir) {
    char **names;
    size_t n;
    enum status status = STATUS_OK;
    if (!file_is_folder(dir))
        return STATUS_OK;
    TRY(file_list(&names, &n, dir));
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        bool given = steps_name_is_given(names[i]) && !steps_name_is_left(names[i]);
        char *path = given ? path_join(dir, names[i]) : NULL;
        if (path && file_is_run_folder(path))
            status = status_set(STATUS_USAGE,
                                "checkpoints.dir: %s is a run's folder, and has a name that runs give and remove among "
                                "their checkpoints: move it away or choose another checkpoints.dir",
                                path);
        free(path);
    }
    file_list_free(names, n);
    return status;
}

enum status written_check(const struct job *job) {
    TRY(folder_kind(job));
    TRY(owner_check_kind(job));
    TRY(kept_check(job, "checkpoints.dir", job->checkpoints.dir));
    TRY(kept_check(job, "data.cache", job->data.cache));
    TRY(folders_check(job));
    TRY(files_check(job, was_here(job)));
    return names_check(job->checkpoints.dir);
}
