// SPDX-License-Identifier: Apache-2.0
#include "daemon/paths/written.h"

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/owner.h"
#include "checkpoints/steps.h"
#include "daemon/paths/taken.h"
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

static enum status users_stay(const char *path, bool ours) {
    return ours || !file_exists(path)
               ? STATUS_OK
               : status_set(STATUS_USAGE,
                            "out: %s would be replaced, and no run wrote it: move it away or choose another out", path);
}

// ---- where links lead

// A link into what another run writes.
struct link {
    char *real, *run; // where it leads, and that one's folder; NULL: it is no such link
};

static void link_release(struct link *link) {
    free(link->real);
    free(link->run);
}

// `out` itself may be a link, and so may a folder in it that other disks hold: not one that is another run's.
static enum status link_look(struct link *link, const char *out, const char *path) {
    struct stat info;
    char *own = NULL;
    *link = (struct link){0};
    if (lstat(path, &info) != 0 || !S_ISLNK(info.st_mode))
        return STATUS_OK;
    TRY(file_real(&own, out));
    enum status status = file_real(&link->real, path);
    if (status == STATUS_OK && !file_is_in(link->real, own))
        link->run = taken_by(link->real);
    free(own);
    return status;
}

// `told`: NULL refuses it; else a warning, the first time: what has begun goes on as it began.
static enum status link_check(const char *out, const char *path, bool *told) {
    struct link link;
    enum status status = link_look(&link, out, path);
    if (status == STATUS_OK && link.run && !told)
        status = status_set(STATUS_USAGE,
                            "out: %s is a link that leads to %s, which is the run's in %s: a run writes its own: let "
                            "the link lead elsewhere, or choose another out",
                            path, link.real, link.run);
    if (status == STATUS_OK && link.run && told && !*told) {
        *told = true;
        log_warn("%s is a link that leads to %s, which is the run's in %s, too: what has begun so goes on so", path,
                 link.real, link.run);
    }
    link_release(&link);
    return status;
}

// What is there, and by no link that leads to another run's.
static bool is_own(const char *out, const char *path) {
    struct link link = {0};
    bool own = file_exists(path) && link_look(&link, out, path) == STATUS_OK && !link.run;
    link_release(&link);
    return own;
}

// `told` as in link_check.
static enum status file_check(const char *folder, const char *name, bool ours, bool *told) {
    char *path = path_join(folder, name);
    enum status status = path ? file_fits(path) : no_memory("out");
    if (status == STATUS_OK)
        status = link_check(folder, path, told);
    if (status == STATUS_OK)
        status = users_stay(path, ours);
    free(path);
    return status;
}

enum status written_file(const char *folder, const char *name, bool ours) {
    bool told = false;
    return file_check(folder, name, ours, ours ? &told : NULL);
}

// ---- all of a run's

// What can't be read is looked at by who reads it.
static bool has_events(const struct job *job) {
    struct events_previous previous;
    return events_look(&previous, job->out) != STATUS_OK || previous.any;
}

static bool has_job_file(const struct job *job) {
    char *path = path_join(job->out, "job.yaml"), *bytes = NULL;
    bool has = path && is_own(job->out, path) && file_read(&bytes, NULL, path, JOB_FILE_MAX) == STATUS_OK &&
               strncmp(bytes, JOB_FILE_WRITTEN, strlen(JOB_FILE_WRITTEN)) == 0;
    free(bytes);
    free(path);
    return has;
}

// A name alone is nobody's.
static bool has_steps(const struct job *job) {
    const char *dir = job->checkpoints.dir;
    struct steps steps = {0};
    bool any = false;
    if (file_is_in(dir, job->out) && is_own(job->out, dir) && steps_list(&steps, dir) == STATUS_OK)
        for (size_t i = 0; i < steps.n && !any; i++) {
            char *path = step_path(dir, steps.at[i]);
            any = path && checkpoint_is(path);
            free(path);
        }
    steps_release(&steps);
    return any;
}

// Another's events make it a copy of that one by links: all that is there is that one's.
bool written_begun(const struct job *job) {
    char *events = path_join(job->out, "events.jsonl");
    bool begun = events && file_exists(events)
                     ? is_own(job->out, events) && (has_events(job) || has_job_file(job) || has_steps(job))
                     : has_job_file(job) || has_steps(job);
    free(events);
    return begun;
}

static enum status archives_check(const struct job *job, bool begun, bool *told) {
    enum status status = STATUS_OK;
    for (size_t i = 0; exporters[i].kind && status == STATUS_OK; i++) {
        if (!job->export.to[exporters[i].job])
            continue;
        char *name = export_path(&exporters[i], "artifacts", job->job);
        status = name ? file_check(job->out, name, begun, told) : no_memory("out");
        free(name);
    }
    return status;
}

static enum status files_check(const struct job *job, bool begun, bool *told) {
    for (size_t i = 0; taken_written[i]; i++) {
        bool report = strncmp(taken_written[i], "report.", 7) == 0; // the others are looked at by who reads them
        if (taken_written[i][0] != '.')
            TRY(file_check(job->out, taken_written[i], begun || !report, told));
    }
    return archives_check(job, begun, told);
}

static enum status folder_check(const struct job *job, const char *name, bool needed, bool *told) {
    char *path = path_join(job->out, name);
    enum status status = path ? link_check(job->out, path, told) : no_memory("out");
    if (status == STATUS_OK && needed)
        status = file_place("out", path);
    free(path);
    return status;
}

static enum status folders_check(const struct job *job, bool *told) {
    TRY(folder_check(job, "artifacts", true, told));
    TRY(folder_check(job, "tensorboard", job->log.tensorboard, told));
    return folder_check(job, "model", false, told); // export/foreign.h looks at the rest
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
static enum status kept_check(const struct job *job, const char *key, const char *path, bool *told) {
    if (!file_is_folder(path)) // a folder that is there may be read-only and complete
        TRY(file_place(key, path));
    return file_is_in(path, job->out) ? link_check(job->out, path, told) : STATUS_OK;
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
    bool begun = written_begun(job), once = false, *told = begun ? &once : NULL;
    TRY(folder_kind(job));
    TRY(owner_check_kind(job));
    TRY(kept_check(job, "checkpoints.dir", job->checkpoints.dir, told));
    TRY(kept_check(job, "data.cache", job->data.cache, told));
    TRY(folders_check(job, told));
    TRY(files_check(job, begun, told));
    return names_check(job->checkpoints.dir);
}
