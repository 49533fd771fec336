// SPDX-License-Identifier: Apache-2.0
#include "daemon/paths/places.h"

#include "base/file.h"
#include "base/options.h"
#include "daemon/run/export.h"
#include "daemon/paths/taken.h"
#include "daemon/paths/written.h"
#include "export/foreign.h"
#include "train/base.h"
#include "train/folder.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct place {
    const char *key;
    const char *path; // NULL: not a path in this job
    bool keeps;       // its own files are moved and removed by the run: it may not be above either
};

static enum status place_refuse(const struct place *place, const char *relation, const char *path, const char *does,
                                const struct job *job) {
    if (strcmp(place->path, path) == 0) // as they are written
        return status_set(STATUS_USAGE, "%s: %s is what the run %s (out: %s): choose another %s, or another out",
                          place->key, place->path, does, job->out, place->key);
    return status_set(STATUS_USAGE, "%s: %s %s %s, which the run %s (out: %s): choose another %s, or another out",
                      place->key, place->path, relation, path, does, job->out, place->key);
}

// `own` and `other`: resolved, of the key and of what is made at `path`.
static enum status place_compare(const struct place *place, const char *own, const char *path, const char *other,
                                 const struct job *job) {
    bool within = file_is_in(own, other);
    if (within)
        return place_refuse(place, strcmp(own, other) == 0 ? "is" : "lies in", path, "makes and replaces", job);
    return place->keeps && file_is_in(other, own)
               ? place_refuse(place, "holds", path, "makes: it needs a folder apart", job)
               : STATUS_OK;
}

static enum status place_one(const struct place *place, const char *own, const char *name, const struct job *job) {
    char *path = path_join(job->out, name), *other = NULL;
    enum status status = path ? file_real(&other, path) : status_set(STATUS_SYSTEM, "out: no memory");
    if (status == STATUS_OK)
        status = place_compare(place, own, path, other, job);
    free(other);
    free(path);
    return status;
}

// With a sweep's table in it `out` would be a sweep's folder.
static enum status place_kind(const struct place *place, const char *own, const struct job *job) {
    char *table = path_join(job->out, FOLDER_SWEEP), *real = NULL;
    enum status status = table ? file_real(&real, table) : status_set(STATUS_SYSTEM, "out: no memory");
    if (status == STATUS_OK && file_is_in(own, real))
        status = status_set(STATUS_USAGE, "%s: %s has a name that makes %s a sweep's folder: choose another %s",
                            place->key, place->path, job->out, place->key);
    free(real);
    free(table);
    return status;
}

static enum status place_apart(const struct place *place, const struct job *job) {
    char *own;
    enum status status = STATUS_OK;
    if (!place->path)
        return STATUS_OK;
    TRY(file_real(&own, place->path));
    for (size_t i = 0; taken_made[i] && status == STATUS_OK; i++)
        status = place_one(place, own, taken_made[i], job);
    for (size_t i = 0; taken_written[i] && status == STATUS_OK; i++)
        status = place_one(place, own, taken_written[i], job);
    if (status == STATUS_OK)
        status = place_kind(place, own, job);
    free(own);
    return status;
}

static const char *resume_path(const struct job *job) {
    const char *resume = job->checkpoints.resume;
    return resume && strcmp(resume, "auto") != 0 && strcmp(resume, "never") != 0 ? resume : NULL;
}

enum status places_apart(const struct job *job) {
    const struct place places[] = {
        {"checkpoints.dir", job->checkpoints.dir, true},
        {"data.cache", job->data.cache, false},
        {"model.base", job->model.base && !base_random(job->model.base) ? job->model.base : NULL, false},
        {"model.vocab", job->model.vocab, false},
        {"data.dir", job->data.dir, false},
        {"checkpoints.resume", resume_path(job), false},
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        TRY(place_apart(&places[i], job));
    return STATUS_OK;
}

// What the run writes into is no other's, nor its own checkpoints.
static enum status places_taken(const struct job *job) {
    char *checkpoints, *out = NULL;
    TRY(file_real(&checkpoints, job->checkpoints.dir));
    enum status status = file_real(&out, job->out);
    const struct taken_ask asks[] = {
        {"out", job->out, .checkpoints = checkpoints, .as = TAKEN_OUT},
        {"checkpoints.dir", job->checkpoints.dir, .out = out, .as = TAKEN_KEPT},
        {"data.cache", job->data.cache, .out = out, .checkpoints = checkpoints, .as = TAKEN_KEPT},
    };
    for (size_t i = 0; i < sizeof asks / sizeof *asks && status == STATUS_OK; i++)
        status = taken_check(&asks[i]);
    free(out);
    free(checkpoints);
    return status;
}

// The user's own job file: it would be replaced. A run has events.jsonl, still empty, before its job.yaml.
static bool is_of_user(const struct job *job, const char *path) {
    char *events = path_join(job->out, "events.jsonl");
    bool ours = !file_named(path) || (events && file_named(events)) || written_begun(job);
    free(events);
    return !ours;
}

static enum status places_job_file(const struct job *job) {
    char *path = path_join(job->out, "job.yaml"), *instead = path_join(job->out, "my.yaml");
    enum status status = path && instead ? STATUS_OK : status_set(STATUS_SYSTEM, "out: no memory");
    if (status == STATUS_OK && is_of_user(job, path))
        status = status_set(STATUS_USAGE,
                            "out: %s is where the run writes its own job.yaml, and no run wrote this one: rename it, "
                            "e.g. to %s, or choose another out",
                            path, instead);
    free(instead);
    free(path);
    return status;
}

// <out>/job.yaml holds them as absolute paths, to be read from any working directory.
static enum status path_can_be_told(const char *key, const char *path) {
    char *here = path && path[0] != '/' ? getcwd(NULL, 0) : NULL, *whole = here ? path_join(here, path) : NULL;
    enum status status =
        whole && !option_is_text(whole)
            ? status_set(STATUS_USAGE,
                         "%s: %s is %s in full, and no job.yaml can hold that: a control character, bytes that are no "
                         "UTF-8, or more than %d bytes: start in another working directory",
                         key, path, whole, OPTION_VALUE_MAX)
            : STATUS_OK;
    free(whole);
    free(here);
    return status;
}

static enum status places_told(const struct job *job) {
    TRY(path_can_be_told("out", job->out));
    TRY(path_can_be_told("checkpoints.dir", job->checkpoints.dir));
    TRY(path_can_be_told("data.cache", job->data.cache));
    TRY(path_can_be_told("data.dir", job->data.dir));
    TRY(path_can_be_told("model.vocab", job->model.vocab));
    return path_can_be_told("model.base", job->model.base && !base_random(job->model.base) ? job->model.base : NULL);
}

enum status places_check(const struct job *job) {
    char *why = NULL, *folder;
    TRY(places_told(job));
    TRY(file_place("out", job->out)); // before anything is looked for in it
    TRY(places_apart(job));
    TRY(places_taken(job));
    TRY(written_check(job));
    TRY(places_job_file(job));
    folder = path_join(job->out, "model");
    enum status status = folder ? foreign_find(&why, folder) : status_set(STATUS_SYSTEM, "out: no memory");
    if (why && run_check_kept(job) != STATUS_OK) // notes beside a whole model that stays are no reason to end
        status = status_set(STATUS_USAGE, "out: %s: move it away or choose another out", why);
    free(why);
    free(folder);
    return status;
}

enum status places_agree(const struct job *job, struct comm *comm) {
    return comm_agree(comm, comm->rank == 0 ? places_check(job) : STATUS_OK);
}
