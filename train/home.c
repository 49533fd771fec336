// SPDX-License-Identifier: Apache-2.0
// {"out": "<the real path of out>"}, in one line.
#include "train/home.h"

#include "base/file.h"
#include "base/text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define HOME_MAX (1 << 16) // bytes

// The path that the folder's file holds, malloc'ed; NULL: there is none that can be read.
static char *home_read(const char *dir) {
    char *path = path_join(dir, HOME_FILE), *bytes = NULL, *out = NULL;
    size_t size = 0;
    json_t *root = NULL;
    if (path && file_exists(path) && file_read(&bytes, &size, path, HOME_MAX) == STATUS_OK)
        root = json_loadb(bytes, size, 0, NULL);
    const char *value = json_string_value(json_object_get(root, "out"));
    if (value)
        out = strdup(value);
    json_decref(root);
    free(bytes);
    free(path);
    return out;
}

// Whether the run in `out` keeps its checkpoints in `dir`, a real path.
static bool home_keeps(const char *out, const char *dir) {
    struct job *job = NULL;
    char *path = path_join(out, "job.yaml"), *events = path_join(out, "events.jsonl"), *real = NULL;
    bool keeps = path && events && file_exists(path) && file_exists(events) &&
                 job_read(&job, path, NULL, 0, JOB_NEED_NOTHING) == STATUS_OK && job->checkpoints.dir &&
                 file_real(&real, job->checkpoints.dir) == STATUS_OK && strcmp(real, dir) == 0;
    free(real);
    free(events);
    free(path);
    job_free(job);
    return keeps;
}

static enum status home_refuse(const struct job *job, const char *home, const char *dir) {
    struct text from = {0}, to = {0};
    char *copy = path_join(job->out, "checkpoints");
    text_word(&from, dir);
    text_word(&to, copy ? copy : "");
    enum status status =
        status_set(STATUS_USAGE,
                   "checkpoints.dir: %s holds the checkpoints of the run in %s, which a run in %s would replace: give "
                   "this one a folder of its own, as by `cp -a %s %s` and --checkpoints.dir %s; or remove %s/job.yaml "
                   "if that run is not to go on",
                   job->checkpoints.dir, home, job->out, text_string(&from), text_string(&to), text_string(&to), home);
    free(copy);
    text_release(&from);
    text_release(&to);
    return status;
}

// Told at the start, where the first save would fail.
static enum status home_place(const char *dir) {
    char *path = path_join(dir, HOME_FILE);
    enum status status = path ? STATUS_OK : status_set(STATUS_SYSTEM, "checkpoints.dir: no memory");
    if (path && file_named(path) && file_check_regular(path) != STATUS_OK)
        status = status_set(STATUS_USAGE,
                            "checkpoints.dir: %s is no regular file, and the run writes one there: move it "
                            "away",
                            path);
    free(path);
    return status;
}

enum status home_check(const struct job *job) {
    TRY(home_place(job->checkpoints.dir));
    char *dir = NULL, *out = NULL, *home = home_read(job->checkpoints.dir);
    if (!home)
        return STATUS_OK;
    enum status status = file_real(&dir, job->checkpoints.dir);
    if (status == STATUS_OK)
        status = file_real(&out, job->out);
    if (status == STATUS_OK && strcmp(home, out) != 0 && home_keeps(home, dir))
        status = home_refuse(job, home, dir);
    free(out);
    free(dir);
    free(home);
    return status;
}

static enum status home_replace(const char *dir, const char *out) {
    char *path = path_join(dir, HOME_FILE);
    json_t *root = json_pack("{s:s}", "out", out);
    char *line = root ? json_dumps(root, JSON_COMPACT) : NULL;
    enum status status =
        path && line ? file_replace(path, line, strlen(line)) : status_set(STATUS_SYSTEM, "checkpoints.dir: no memory");
    free(line);
    json_decref(root);
    free(path);
    return status;
}

enum status home_write(const struct job *job) {
    char *out;
    TRY(file_real(&out, job->out));
    char *home = home_read(job->checkpoints.dir);
    enum status status = home && strcmp(home, out) == 0 ? STATUS_OK : home_replace(job->checkpoints.dir, out);
    free(home);
    free(out);
    return status;
}
