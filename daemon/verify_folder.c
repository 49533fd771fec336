// SPDX-License-Identifier: Apache-2.0
// A run's folder: everything in it that can be told good from bad, one item each.
#include "daemon/verify_parts.h"

#include "base/file.h"
#include "base/job.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/owner.h"
#include "checkpoints/steps.h"
#include "daemon/published.h"
#include "export/sums.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FINISHED "a finished run has it"
#define REPORT_MAX ((size_t)64 << 20) // bytes of a report.json

// ---- checkpoints

static enum status step_item(struct verify *v, const char *folder, const char *name) {
    uint64_t step = 0;
    char *below = path_join(folder, name), *path = below ? path_join(v->path, below) : NULL;
    enum status status = path ? STATUS_OK : verify_no_memory(v);
    if (status == STATUS_OK && steps_name_is_left(name))
        status =
            verify_note(v, below, "left by a save that was ended, or one that is under way; the next start removes it");
    else if (status == STATUS_OK && strstr(name, ".aside-"))
        status = verify_note(v, below, "set aside by an earlier start: not looked at");
    else if (status == STATUS_OK && owner_name_is_given(name))
        status = STATUS_OK; // a run is under way
    else if (status == STATUS_OK && step_parse(&step, name))
        status = verify_found_one(v, below, INSPECT_CHECKPOINT);
    else if (status == STATUS_OK && strcmp(name, "latest") != 0 && strcmp(name, "best") != 0)
        status = verify_note(v, below, "no name of ours: not looked at");
    free(path);
    free(below);
    return status;
}

static enum status check_link(const char *path) {
    char target[STEP_NAME + 1] = "";
    struct stat info;
    uint64_t step;
    if (lstat(path, &info) != 0 || !S_ISLNK(info.st_mode))
        return status_set(STATUS_DATA, "%s: is no link", path);
    ssize_t size = readlink(path, target, sizeof target - 1);
    if (size <= 0 || !step_parse(&step, target))
        return status_set(STATUS_DATA, "%s: leads to %s, which is no step's name beside it", path, target);
    return file_is_folder(path) ? STATUS_OK
                                : status_set(STATUS_DATA, "%s: leads to %s, which is not there", path, target);
}

static enum status link_item(struct verify *v, const char *folder, const char *name) {
    char *below = path_join(folder, name), *path = below ? path_join(v->path, below) : NULL;
    enum status status = path ? STATUS_OK : verify_no_memory(v);
    if (status == STATUS_OK && file_named(path))
        status = verify_found(v, below, "link", check_link(path), VERIFY_STRUCTURE);
    free(path);
    free(below);
    return status;
}

// `folder`: below the run's, or elsewhere.
static enum status checkpoints(struct verify *v, const char *folder) {
    char **names, *path = path_join(v->path, folder);
    size_t n;
    enum status status = path ? file_list(&names, &n, path) : verify_no_memory(v);
    free(path);
    if (status != STATUS_OK)
        return verify_found(v, folder, "checkpoints", status, VERIFY_STRUCTURE);
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        status = step_item(v, folder, names[i]);
    file_list_free(names, n);
    if (status == STATUS_OK)
        status = link_item(v, folder, "latest");
    return status == STATUS_OK ? link_item(v, folder, "best") : status;
}

// ---- what exports made

static enum status archive_item(struct verify *v, const json_t *exports, const char *name) {
    char *below = path_join("artifacts", name), *path = below ? path_join(v->path, below) : NULL;
    enum inspect_kind kind = INSPECT_NONE;
    enum verify_depth depth = VERIFY_HASHES;
    enum status status = path ? STATUS_OK : verify_no_memory(v);
    const char *wanted = json_string_value(json_object_get(exports, name));
    if (status == STATUS_OK && !wanted && (file_is_temporary(name) || inspect_kind_of(&kind, path) != STATUS_OK)) {
        status = verify_note(v, below, "no artifact that is known: not looked at");
    } else if (status == STATUS_OK) {
        status = published_check(path, wanted, "export");
        if (status == STATUS_OK)
            status = inspect_kind_of(&kind, path);
        if (status == STATUS_OK)
            status = verify_one(&depth, kind, path);
        status = verify_found(v, below, kind == INSPECT_NONE ? "archive" : inspect_kind_name(kind), status, depth);
    }
    free(path);
    free(below);
    return status;
}

// Those that an export event tells of.
static enum status archives_lacking(struct verify *v, json_t *exports) {
    const char *name;
    json_t *sha256;
    enum status status = STATUS_OK;
    json_object_foreach(exports, name, sha256) {
        char *below = path_join("artifacts", name);
        if (status == STATUS_OK && strcmp(name, "model.safetensors") != 0)
            status =
                below ? verify_lacks(v, below, "archive", "the run's export event tells of it") : verify_no_memory(v);
        free(below);
    }
    return status;
}

// Each name of a folder below the run's.
static enum status each_name(struct verify *v, const char *folder, const char *kind, const json_t *exports,
                             enum status (*look)(struct verify *v, const json_t *exports, const char *name)) {
    char **names, *path = path_join(v->path, folder);
    size_t n;
    enum status status = path ? file_list(&names, &n, path) : verify_no_memory(v);
    free(path);
    if (status != STATUS_OK)
        return verify_found(v, folder, kind, status, VERIFY_STRUCTURE);
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        status = look(v, exports, names[i]);
    file_list_free(names, n);
    return status;
}

// Its own list, and the weights' SHA-256 as the run published it.
static enum status model_item(struct verify *v, const json_t *exports) {
    enum verify_depth depth = VERIFY_STRUCTURE;
    const char *wanted = json_string_value(json_object_get(exports, "model.safetensors"));
    char *path = path_join(v->path, "model");
    enum status status = path ? verify_one(&depth, INSPECT_MODEL, path) : verify_no_memory(v);
    if (status == STATUS_OK && depth != VERIFY_HASHES)
        status = status_set(STATUS_DATA, "%s/" SUMS_NAME ": is missing: a run writes it with its model", path);
    if (status == STATUS_OK)
        status = published_check_model(path, wanted);
    free(path);
    return verify_found(v, "model", "model", status, depth);
}

// ---- the rest

static enum status shard_item(struct verify *v, const json_t *exports, const char *name) {
    size_t size = strlen(name);
    (void)exports;
    if (size <= 6 || strcmp(name + size - 6, ".shard") != 0)
        return STATUS_OK;
    char *below = path_join("shards", name);
    enum status status = below ? verify_found_one(v, below, INSPECT_SHARD) : verify_no_memory(v);
    free(below);
    return status;
}

enum status verify_shards(struct verify *v) {
    return verify_there(v, "shards") ? each_name(v, "shards", "shard", NULL, shard_item) : STATUS_OK;
}

enum status verify_json(const char *path) {
    char *bytes;
    size_t size;
    json_error_t error;
    TRY(file_read(&bytes, &size, path, REPORT_MAX));
    json_t *root = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &error);
    free(bytes);
    enum status status = json_is_object(root) ? STATUS_OK
                         : root               ? status_set(STATUS_DATA, "%s: no JSON object", path)
                                              : status_set(STATUS_DATA, "%s:%d: %s", path, error.line, error.text);
    json_decref(root);
    return status;
}

// A job file is the user's text: wrong in it is usage elsewhere, damage here.
static enum status check_job(char **checkpoints_dir, const char *path) {
    struct job *job = NULL;
    TRY(file_check_regular(path));
    enum status status = job_read(&job, path, NULL, 0, JOB_NEED_RUN); // the resolved job has every key
    if (status == STATUS_OK)
        *checkpoints_dir = strdup(job->checkpoints.dir);
    job_free(job);
    return status == STATUS_USAGE ? status_set(STATUS_DATA, "%s", status_message()) : status;
}

static enum status job_item(struct verify *v, char **checkpoints_dir) {
    char *job = path_join(v->path, "job.yaml");
    enum status status = job ? STATUS_OK : verify_no_memory(v);
    if (status == STATUS_OK && file_named(job))
        status = verify_found(v, "job.yaml", "job", check_job(checkpoints_dir, job), VERIFY_STRUCTURE);
    free(job);
    return status;
}

// `wanted`: the SHA-256 that the end event tells, if nothing came after it; "": none. What is made for people has no
// structure to look at.
static enum status report_item(struct verify *v, const char *name, bool json, const char *wanted) {
    char *path = path_join(v->path, name);
    enum status status = path && json && file_named(path) ? verify_json(path) : path ? STATUS_OK : verify_no_memory(v);
    bool looks = path && file_named(path) && (json || *wanted);
    if (looks && status == STATUS_OK && *wanted)
        status = published_check(path, wanted, "end");
    free(path);
    return looks ? verify_found(v, name, "report", status, *wanted ? VERIFY_HASHES : VERIFY_STRUCTURE) : status;
}

static enum status report_items(struct verify *v, const struct verify_told *told) {
    TRY(report_item(v, REPORT_JSON, true, told->ended ? told->report.json : ""));
    return report_item(v, REPORT_MARKDOWN, false, told->ended ? told->report.markdown : "");
}

// The folder of checkpoints as `path` names it, below the run's or elsewhere: `latest`, and `best` if there was one.
static enum status links_lacking(struct verify *v, const char *folder) {
    struct trainer_state state = {0};
    struct steps steps;
    char *path = path_join(v->path, folder), *latest = path_join(folder, "latest"), *best = path_join(folder, "best");
    enum status status = path && latest && best ? steps_list(&steps, path) : verify_no_memory(v);
    char *newest = status == STATUS_OK && steps.n ? step_path(path, steps.at[steps.n - 1]) : NULL;
    if (status == STATUS_OK)
        steps_release(&steps);
    if (status == STATUS_OK)
        status = verify_lacks(v, latest, "link", FINISHED);
    if (status == STATUS_OK && newest && checkpoint_state(&state, newest) == STATUS_OK && state.best_step)
        status = verify_lacks(v, best, "link", FINISHED);
    trainer_state_release(&state);
    free(newest);
    free(best);
    free(latest);
    free(path);
    return status == STATUS_DATA ? STATUS_OK : status; // a folder that can't be listed has its line already
}

// What a run has that came to its end.
static enum status finished_lacking(struct verify *v, const char *checkpoints) {
    TRY(verify_lacks(v, "job.yaml", "job", FINISHED));
    TRY(verify_lacks(v, "report.json", "report", FINISHED));
    TRY(verify_lacks(v, "report.md", "report", FINISHED));
    TRY(verify_lacks(v, "model", "model", FINISHED));
    TRY(verify_lacks(v, checkpoints, "checkpoints", FINISHED));
    return verify_there(v, checkpoints) ? links_lacking(v, checkpoints) : STATUS_OK;
}

static enum status run_parts(struct verify *v, const struct verify_told *told, const char *elsewhere) {
    const char *at = !verify_there(v, "checkpoints") && elsewhere ? elsewhere : "checkpoints";
    if (verify_there(v, at))
        TRY(checkpoints(v, at));
    TRY(verify_shards(v));
    if (verify_there(v, "model"))
        TRY(model_item(v, told->exports));
    if (verify_there(v, "artifacts"))
        TRY(each_name(v, "artifacts", "archive", told->exports, archive_item));
    TRY(archives_lacking(v, told->exports));
    return told->ended ? finished_lacking(v, at) : STATUS_OK;
}

static enum status run(struct verify *v, struct verify_told *told) {
    char *elsewhere = NULL;
    enum status status = job_item(v, &elsewhere);
    if (status == STATUS_OK)
        status = verify_events(v, told);
    if (status == STATUS_OK)
        status = report_items(v, told);
    if (status == STATUS_OK)
        status = run_parts(v, told, elsewhere);
    free(elsewhere);
    return status;
}

static enum status run_folder(struct verify *v) {
    struct verify_told told = {.exports = json_object()};
    enum status status = told.exports ? run(v, &told) : verify_no_memory(v);
    json_decref(told.exports);
    return status;
}

enum status verify_folder(struct verify *out, enum inspect_kind kind, const char *path) {
    *out = (struct verify){.path = path};
    enum status status = kind == INSPECT_CHECKPOINTS ? checkpoints(out, "")
                         : kind == INSPECT_SWEEP     ? verify_sweep(out)
                                                     : run_folder(out);
    if (status != STATUS_OK)
        verify_release(out);
    return status;
}
