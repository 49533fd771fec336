// SPDX-License-Identifier: Apache-2.0
// A run's folder: everything in it that can be told good from bad, one item each.
#include "daemon/verify/parts.h"

#include "base/file.h"
#include "train/told_sum.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define REPORT_MAX ((size_t)64 << 20) // bytes of a report.json

enum status verify_each(struct verify *v, const char *folder, const char *kind, const struct verify_told *told,
                        enum status (*look)(struct verify *v, const struct verify_told *told, const char *name)) {
    char **names, *path = path_join(v->path, folder);
    size_t n;
    enum status status = path ? file_list(&names, &n, path) : verify_no_memory(v);
    free(path);
    if (status != STATUS_OK)
        return verify_found(v, folder, kind, status, VERIFY_STRUCTURE);
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        status = look(v, told, names[i]);
    file_list_free(names, n);
    return status;
}

static enum status shard_item(struct verify *v, const struct verify_told *told, const char *name) {
    size_t size = strlen(name);
    (void)told;
    if (size <= 6 || strcmp(name + size - 6, ".shard") != 0)
        return STATUS_OK;
    char *below = path_join("shards", name);
    enum status status = below ? verify_found_one(v, below, INSPECT_SHARD) : verify_no_memory(v);
    free(below);
    return status;
}

enum status verify_shards(struct verify *v) {
    return verify_there(v, "shards") ? verify_each(v, "shards", "shard", NULL, shard_item) : STATUS_OK;
}

static enum status json_object_of(json_t **out, const char *path) {
    char *bytes;
    size_t size;
    json_error_t error;
    *out = NULL;
    TRY(file_check_regular(path));
    TRY(file_read(&bytes, &size, path, REPORT_MAX));
    *out = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &error);
    free(bytes);
    if (json_is_object(*out))
        return STATUS_OK;
    enum status status = *out ? status_set(STATUS_DATA, "%s: no JSON object", path)
                              : status_set(STATUS_DATA, "%s:%d: %s", path, error.line, error.text);
    json_decref(*out);
    *out = NULL;
    return status;
}

enum status verify_json(const char *path) {
    json_t *root;
    TRY(json_object_of(&root, path));
    json_decref(root);
    return STATUS_OK;
}

// ---- the job file

// The first key that defines the run and that the checkpoint was trained with another value of: STATUS_DATA.
static enum status job_is_runs(const struct job *job, const struct trainer_state *newest, const char *path) {
    json_t *then = newest->config ? json_loads(newest->config, 0, NULL) : NULL;
    enum status status = STATUS_OK;
    for (size_t i = 0; job_key(i) && status == STATUS_OK; i++) {
        const char *was = job_key_defines_run(i) ? json_string_value(json_object_get(then, job_key(i))) : NULL;
        bool open = strcmp(job_key(i), "train.parts") == 0 && !job->train.parts; // auto
        char *now = was && !open ? job_value(job, job_key(i)) : NULL;
        if (now && strcmp(now, was) != 0)
            status = status_set(STATUS_DATA,
                                "%s: is another run's: its %s is %s, but the checkpoint of step %" PRIu64
                                " was trained with %s",
                                path, job_key(i), now, newest->step, was);
        free(now);
    }
    json_decref(then);
    return status;
}

// A job file is the user's text: wrong in it is usage elsewhere, damage here.
static enum status job_open(struct job **out, const char *path) {
    *out = NULL;
    TRY(file_check_regular(path));
    enum status status = job_read(out, path, NULL, 0, JOB_NEED_RUN); // the resolved job has every key
    return status == STATUS_USAGE ? status_set(STATUS_DATA, "%s", status_message()) : status;
}

static enum status check_job(const struct verify_told *told, const char *path) {
    struct job *job;
    TRY(job_open(&job, path));
    enum status status = job_is_runs(job, &told->newest, path);
    job_free(job);
    return status;
}

static enum status job_item(struct verify *v, const struct verify_told *told) {
    char *job = path_join(v->path, "job.yaml");
    enum status status = job ? STATUS_OK : verify_no_memory(v);
    if (status == STATUS_OK && file_named(job))
        status = verify_found(v, "job.yaml", "job", check_job(told, job), VERIFY_STRUCTURE);
    free(job);
    return status;
}

// ---- the report

// `wanted`: the SHA-256 that the end event tells, if nothing came after it; "": none.
static enum status check_report(char run_id[33], const char *path, bool json, const char *wanted) {
    json_t *root = NULL;
    TRY(json ? json_object_of(&root, path) : file_check_regular(path));
    const char *id = json_string_value(json_object_get(root, "run_id"));
    enum status status = *wanted ? told_sum_check(path, wanted, "end") : STATUS_OK;
    if (status == STATUS_OK && json && (!id || !json_is_object(json_object_get(root, "val"))))
        status = status_set(STATUS_DATA, "%s: no report of a run: it lacks run_id or val", path);
    if (status == STATUS_OK && id)
        snprintf(run_id, 33, "%s", id);
    json_decref(root);
    return status;
}

static enum status report_item(struct verify *v, char run_id[33], const char *name, bool json, const char *wanted) {
    char *path = path_join(v->path, name);
    enum status status = path ? STATUS_OK : verify_no_memory(v);
    if (path && file_named(path))
        status = verify_found(v, name, "report", check_report(run_id, path, json, wanted),
                              *wanted ? VERIFY_HASHES : VERIFY_STRUCTURE);
    free(path);
    return status;
}

static enum status report_items(struct verify *v, struct verify_told *told) {
    char run_id[33] = "", unused[33];
    TRY(report_item(v, run_id, REPORT_JSON, true, told->ended ? told->report.json : ""));
    TRY(report_item(v, unused, REPORT_MARKDOWN, false, told->ended ? told->report.markdown : ""));
    snprintf(told->run_id, sizeof told->run_id, "%s", told->ended ? run_id : ""); // an earlier end may be another run's
    return STATUS_OK;
}

// ---- all of it

// What a run has that came to its end.
static enum status finished_lacking(struct verify *v) {
    TRY(verify_lacks(v, "job.yaml", "job", VERIFY_FINISHED));
    TRY(verify_lacks(v, REPORT_JSON, "report", VERIFY_FINISHED));
    TRY(verify_lacks(v, REPORT_MARKDOWN, "report", VERIFY_FINISHED));
    return verify_lacks(v, "model", "model", VERIFY_FINISHED);
}

static enum status run(struct verify *v, struct verify_told *told) {
    char *path = path_join(v->path, "job.yaml");
    if (!path)
        return verify_no_memory(v);
    if (job_open(&told->job, path) != STATUS_OK)
        told->job = NULL; // its line says why
    free(path);
    TRY(verify_events(v, told));
    TRY(report_items(v, told));
    TRY(verify_checkpoints_of_run(v, told));
    TRY(job_item(v, told));
    TRY(verify_shards(v));
    TRY(verify_exports(v, told));
    return told->ended ? finished_lacking(v) : STATUS_OK;
}

static enum status run_folder(struct verify *v) {
    struct verify_told told = {.exports = json_object()};
    enum status status = told.exports ? run(v, &told) : verify_no_memory(v);
    trainer_state_release(&told.newest);
    json_decref(told.exports);
    job_free(told.job);
    return status;
}

enum status verify_folder(struct verify *out, enum inspect_kind kind, const char *path) {
    *out = (struct verify){.path = path};
    enum status status = kind == INSPECT_CHECKPOINTS ? verify_checkpoints(out, NULL, "")
                         : kind == INSPECT_SWEEP     ? verify_sweep(out)
                                                     : run_folder(out);
    if (status != STATUS_OK)
        verify_release(out);
    return status;
}
