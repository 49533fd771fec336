// SPDX-License-Identifier: Apache-2.0
// A run's folder: everything in it that can be told good from bad, one item each.
#include "base/file.h"
#include "base/hash.h"
#include "base/job.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/steps.h"
#include "daemon/verify.h"
#include "export/sums.h"
#include "train/history.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FINISHED "a finished run has it"
#define REPORT_MAX ((size_t)64 << 20) // bytes of a report.json

// ---- the list

void verify_release(struct verify *v) {
    for (size_t i = 0; i < v->n; i++) {
        free(v->items[i].path);
        free(v->items[i].kind);
        free(v->items[i].why);
    }
    for (size_t i = 0; i < v->n_notes; i++) {
        free(v->notes[i].path);
        free(v->notes[i].text);
    }
    free(v->items);
    free(v->notes);
    *v = (struct verify){0};
}

static enum status no_memory(const struct verify *v) {
    return status_set(STATUS_SYSTEM, "inspect %s: no memory", v->path);
}

static enum status note(struct verify *v, const char *name, const char *text) {
    struct verify_note next = {strdup(name), strdup(text)};
    struct verify_note *grown = realloc(v->notes, (v->n_notes + 1) * sizeof *grown);
    if (grown)
        v->notes = grown;
    if (!grown || !next.path || !next.text) {
        free(next.path);
        free(next.text);
        return no_memory(v);
    }
    v->notes[v->n_notes++] = next;
    return STATUS_OK;
}

static bool there(const struct verify *v, const char *name) {
    char *path = path_join(v->path, name);
    bool is = path && file_named(path);
    free(path);
    return is;
}

static enum status item_add(struct verify *v, const char *name, const char *kind, enum status status,
                            enum verify_depth depth) {
    struct verify_item next = {.path = strdup(name), .kind = strdup(kind), .status = status, .depth = depth};
    next.why = status != STATUS_OK ? strdup(status_message()) : NULL;
    struct verify_item *grown = realloc(v->items, (v->n + 1) * sizeof *grown);
    if (grown)
        v->items = grown;
    if (!grown || !next.path || !next.kind || (status != STATUS_OK && !next.why)) {
        free(next.path);
        free(next.kind);
        free(next.why);
        return no_memory(v);
    }
    v->items[v->n++] = next;
    v->wrong += status != STATUS_OK;
    return STATUS_OK;
}

// What was found of one thing. Only damage and what can't be read are findings; other failures end the whole.
static enum status item(struct verify *v, const char *name, const char *kind, enum status status,
                        enum verify_depth depth) {
    if (status != STATUS_OK && status != STATUS_DATA && status != STATUS_IO)
        return status;
    if (status != STATUS_OK && !there(v, name))
        return note(v, name, "went while it was being read");
    return item_add(v, name, kind, status, depth);
}

// ---- one thing by its kind

static enum status one(struct verify *v, const char *name, enum inspect_kind kind) {
    enum verify_depth depth = VERIFY_HASHES;
    char *path = path_join(v->path, name);
    if (!path)
        return no_memory(v);
    enum status status = verify_one(&depth, kind, path);
    free(path);
    return item(v, name, inspect_kind_name(kind), status, depth);
}

// ---- checkpoints

static enum status step_item(struct verify *v, const char *folder, const char *name) {
    uint64_t step = 0;
    char *below = path_join(folder, name), *path = below ? path_join(v->path, below) : NULL;
    enum status status = path ? STATUS_OK : no_memory(v);
    if (status == STATUS_OK && strncmp(name, ".tmp-", 5) == 0)
        status = note(v, below, "left by a save that was ended, or one that is under way; the next start removes it");
    else if (status == STATUS_OK && strstr(name, ".aside-"))
        status = note(v, below, "set aside by an earlier start: not looked at");
    else if (status == STATUS_OK && strncmp(name, ".owner", 6) == 0)
        status = STATUS_OK; // a run is under way
    else if (status == STATUS_OK && step_parse(&step, name))
        status = one(v, below, INSPECT_CHECKPOINT);
    else if (status == STATUS_OK && strcmp(name, "latest") != 0 && strcmp(name, "best") != 0)
        status = note(v, below, "no name of ours: not looked at");
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
    enum status status = path ? STATUS_OK : no_memory(v);
    if (status == STATUS_OK && file_named(path))
        status = item(v, below, "link", check_link(path), VERIFY_STRUCTURE);
    free(path);
    free(below);
    return status;
}

// `folder`: below the run's, or elsewhere.
static enum status checkpoints(struct verify *v, const char *folder) {
    char **names, *path = path_join(v->path, folder);
    size_t n;
    enum status status = path ? file_list(&names, &n, path) : no_memory(v);
    free(path);
    if (status != STATUS_OK)
        return item(v, folder, "checkpoints", status, VERIFY_STRUCTURE);
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        status = step_item(v, folder, names[i]);
    file_list_free(names, n);
    if (status == STATUS_OK)
        status = link_item(v, folder, "latest");
    return status == STATUS_OK ? link_item(v, folder, "best") : status;
}

// ---- events, and what they say of exports

#define EVENT_FIX " (a start passes over this line; to mend the file, remove it)"

static enum status check_event(json_t **out, const char *line, size_t size, const char *path, size_t number) {
    json_error_t error;
    *out = json_loadb(line, size, JSON_REJECT_DUPLICATES, &error);
    if (!*out)
        return status_set(STATUS_DATA, "%s:%zu: %s" EVENT_FIX, path, number, error.text);
    if (json_is_string(json_object_get(*out, "event")) && json_is_number(json_object_get(*out, "time")))
        return STATUS_OK;
    json_decref(*out);
    return status_set(STATUS_DATA, "%s:%zu: no event: it has no \"event\" or no \"time\"" EVENT_FIX, path, number);
}

// What the events say of the folder.
struct told {
    json_t *exports;              // the SHA-256 of each file that an export made, by its name; later exports come later
    struct history_report report; // of the last `end`
    bool resumed;                 // the next `start` goes on
    bool ended;                   // nothing came after the run's end
};

static void exports_add(json_t *exports, const json_t *event) {
    const char *path = json_string_value(json_object_get(event, "path"));
    const char *kind = json_string_value(json_object_get(event, "kind"));
    if (!path || !kind)
        return;
    const char *slash = strrchr(path, '/');
    json_object_set(exports,
                    strcmp(kind, "model") == 0 ? "model.safetensors"
                    : slash                    ? slash + 1
                                               : path,
                    json_object_get(event, "sha256"));
}

// A fresh start does not know what an earlier run exported there. `told` NULL: events of another rank, which tell of
// its end only.
static void told_add(struct told *told, const json_t *event) {
    if (!told)
        return;
    const char *name = json_string_value(json_object_get(event, "event"));
    bool start = strcmp(name, "start") == 0;
    if (start && !told->resumed)
        json_object_clear(told->exports);
    if (strcmp(name, "export") == 0)
        exports_add(told->exports, event);
    told->resumed = strcmp(name, "resume") == 0 || (told->resumed && !start);
    if (strcmp(name, "end") == 0)
        history_end_report(&told->report, event);
    told->ended = strcmp(name, "end") == 0 || (told->ended && strcmp(name, "export") == 0);
}

static enum status check_events(struct told *told, bool *half, const char *path) {
    char *bytes;
    size_t size, number = 1;
    TRY(file_read(&bytes, &size, path, HISTORY_MAX));
    const char *at = bytes, *end = bytes + size, *stop;
    char why[1024] = "";
    for (; at < end && (stop = memchr(at, '\n', (size_t)(end - at))); at = stop + 1, number++) {
        json_t *event;
        if (check_event(&event, at, (size_t)(stop - at), path, number) == STATUS_OK) {
            told_add(told, event);
            json_decref(event);
        } else if (!*why) { // the first of them is named; the others still tell of the run
            snprintf(why, sizeof why, "%s", status_message());
        }
    }
    *half = at < end;
    free(bytes);
    return *why ? status_set(STATUS_DATA, "%s", why) : STATUS_OK;
}

static enum status events_item(struct verify *v, struct told *told, const char *name) {
    bool half = false;
    char *path = path_join(v->path, name);
    if (!path)
        return no_memory(v);
    TRY(item(v, name, "events", check_events(told, &half, path), VERIFY_STRUCTURE));
    free(path);
    return half ? note(v, name, "ends in half a line, as a crash leaves it; the next start cuts it off") : STATUS_OK;
}

// ---- what exports made

static enum status check_published(const char *path, const char *wanted, const char *event) {
    char sha256[65];
    TRY(hash_sha256_file(sha256, path));
    if (!wanted || strcmp(sha256, wanted) == 0)
        return STATUS_OK;
    return status_set(STATUS_DATA, "%s: its SHA-256 is not the one of the run's %s event", path, event);
}

static enum status archive_item(struct verify *v, const json_t *exports, const char *name) {
    char *below = path_join("artifacts", name), *path = below ? path_join(v->path, below) : NULL;
    enum inspect_kind kind = INSPECT_NONE;
    enum verify_depth depth = VERIFY_HASHES;
    enum status status = path ? STATUS_OK : no_memory(v);
    const char *wanted = json_string_value(json_object_get(exports, name));
    if (status == STATUS_OK && !wanted && (file_is_temporary(name) || inspect_kind_of(&kind, path) != STATUS_OK)) {
        status = note(v, below, "no artifact that is known: not looked at");
    } else if (status == STATUS_OK) {
        status = check_published(path, wanted, "export");
        if (status == STATUS_OK)
            status = inspect_kind_of(&kind, path);
        if (status == STATUS_OK)
            status = verify_one(&depth, kind, path);
        status = item(v, below, kind == INSPECT_NONE ? "archive" : inspect_kind_name(kind), status, depth);
    }
    free(path);
    free(below);
    return status;
}

// What should be there and is not. `why`: what tells of it.
static enum status lacks(struct verify *v, const char *name, const char *kind, const char *why) {
    return there(v, name)
               ? STATUS_OK
               : item_add(v, name, kind, status_set(STATUS_DATA, "%s: is missing: %s", name, why), VERIFY_STRUCTURE);
}

// Those that an export event tells of.
static enum status archives_lacking(struct verify *v, json_t *exports) {
    const char *name;
    json_t *sha256;
    enum status status = STATUS_OK;
    json_object_foreach(exports, name, sha256) {
        char *below = path_join("artifacts", name);
        if (status == STATUS_OK && strcmp(name, "model.safetensors") != 0)
            status = below ? lacks(v, below, "archive", "the run's export event tells of it") : no_memory(v);
        free(below);
    }
    return status;
}

// Each name of a folder below the run's.
static enum status each_name(struct verify *v, const char *folder, const char *kind, const json_t *exports,
                             enum status (*look)(struct verify *v, const json_t *exports, const char *name)) {
    char **names, *path = path_join(v->path, folder);
    size_t n;
    enum status status = path ? file_list(&names, &n, path) : no_memory(v);
    free(path);
    if (status != STATUS_OK)
        return item(v, folder, kind, status, VERIFY_STRUCTURE);
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        status = look(v, exports, names[i]);
    file_list_free(names, n);
    return status;
}

// Its own list, and the weights' SHA-256 as the run published it.
static enum status model_item(struct verify *v, const json_t *exports) {
    enum verify_depth depth = VERIFY_STRUCTURE;
    const char *wanted = json_string_value(json_object_get(exports, "model.safetensors"));
    char *path = path_join(v->path, "model"), *weights = path ? path_join(path, "model.safetensors") : NULL;
    enum status status = weights ? verify_one(&depth, INSPECT_MODEL, path) : no_memory(v);
    if (status == STATUS_OK && wanted)
        status = check_published(weights, wanted, "export");
    if (status == STATUS_OK && depth != VERIFY_HASHES)
        status = status_set(STATUS_DATA, "%s/" SUMS_NAME ": is missing: a run writes it with its model", path);
    free(weights);
    free(path);
    return item(v, "model", "model", status, depth);
}

// ---- the rest

static enum status shard_item(struct verify *v, const json_t *exports, const char *name) {
    size_t size = strlen(name);
    (void)exports;
    if (size <= 6 || strcmp(name + size - 6, ".shard") != 0)
        return STATUS_OK;
    char *below = path_join("shards", name);
    enum status status = below ? one(v, below, INSPECT_SHARD) : no_memory(v);
    free(below);
    return status;
}

static enum status check_report(const char *path) {
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
    enum status status = job ? STATUS_OK : no_memory(v);
    if (status == STATUS_OK && file_named(job))
        status = item(v, "job.yaml", "job", check_job(checkpoints_dir, job), VERIFY_STRUCTURE);
    free(job);
    return status;
}

// `wanted`: the SHA-256 that the end event tells, if nothing came after it; "": none. What is made for people has no
// structure to look at.
static enum status report_item(struct verify *v, const char *name, bool json, const char *wanted) {
    char *path = path_join(v->path, name);
    enum status status = path && json && file_named(path) ? check_report(path) : path ? STATUS_OK : no_memory(v);
    bool looks = path && file_named(path) && (json || *wanted);
    if (looks && status == STATUS_OK && *wanted)
        status = check_published(path, wanted, "end");
    free(path);
    return looks ? item(v, name, "report", status, *wanted ? VERIFY_HASHES : VERIFY_STRUCTURE) : status;
}

static enum status report_items(struct verify *v, const struct told *told) {
    TRY(report_item(v, REPORT_JSON, true, told->ended ? told->report.json : ""));
    return report_item(v, REPORT_MARKDOWN, false, told->ended ? told->report.markdown : "");
}

// A run makes it before its job.yaml, and tells its exports there before its report.
static enum status events_missing(struct verify *v) {
    struct stat info;
    char *path = path_join(v->path, "events.jsonl");
    if (!path)
        return no_memory(v);
    bool missing = stat(path, &info) != 0 && errno == ENOENT && (there(v, "job.yaml") || there(v, "report.json"));
    bool empty = stat(path, &info) == 0 && info.st_size == 0 && there(v, "report.json");
    enum status status = STATUS_OK;
    if (missing || empty)
        status = item_add(v, "events.jsonl", "events",
                          status_set(STATUS_DATA, "%s: %s: a run that got so far has written events", path,
                                     missing ? "is missing" : "is empty"),
                          VERIFY_STRUCTURE);
    free(path);
    return status;
}

static enum status run_events(struct verify *v, struct told *told) {
    TRY(events_missing(v));
    char **names;
    size_t n;
    TRY(file_list(&names, &n, v->path));
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        if (strcmp(names[i], "events.jsonl") == 0 || strncmp(names[i], "events.rank-", 12) == 0)
            status = events_item(v, strcmp(names[i], "events.jsonl") == 0 ? told : NULL, names[i]);
    file_list_free(names, n);
    return status;
}

// The folder of checkpoints as `path` names it, below the run's or elsewhere: `latest`, and `best` if there was one.
static enum status links_lacking(struct verify *v, const char *folder) {
    struct trainer_state state = {0};
    struct steps steps;
    char *path = path_join(v->path, folder), *latest = path_join(folder, "latest"), *best = path_join(folder, "best");
    enum status status = path && latest && best ? steps_list(&steps, path) : no_memory(v);
    char *newest = status == STATUS_OK && steps.n ? step_path(path, steps.at[steps.n - 1]) : NULL;
    if (status == STATUS_OK)
        steps_release(&steps);
    if (status == STATUS_OK)
        status = lacks(v, latest, "link", FINISHED);
    if (status == STATUS_OK && newest && checkpoint_state(&state, newest) == STATUS_OK && state.best_step)
        status = lacks(v, best, "link", FINISHED);
    trainer_state_release(&state);
    free(newest);
    free(best);
    free(latest);
    free(path);
    return status == STATUS_DATA ? STATUS_OK : status; // a folder that can't be listed has its line already
}

// What a run has that came to its end.
static enum status finished_lacking(struct verify *v, const char *checkpoints) {
    TRY(lacks(v, "job.yaml", "job", FINISHED));
    TRY(lacks(v, "report.json", "report", FINISHED));
    TRY(lacks(v, "report.md", "report", FINISHED));
    TRY(lacks(v, "model", "model", FINISHED));
    TRY(lacks(v, checkpoints, "checkpoints", FINISHED));
    return there(v, checkpoints) ? links_lacking(v, checkpoints) : STATUS_OK;
}

static enum status run_parts(struct verify *v, const struct told *told, const char *elsewhere) {
    const char *at = !there(v, "checkpoints") && elsewhere ? elsewhere : "checkpoints";
    if (there(v, at))
        TRY(checkpoints(v, at));
    if (there(v, "shards"))
        TRY(each_name(v, "shards", "shard", NULL, shard_item));
    if (there(v, "model"))
        TRY(model_item(v, told->exports));
    if (there(v, "artifacts"))
        TRY(each_name(v, "artifacts", "archive", told->exports, archive_item));
    TRY(archives_lacking(v, told->exports));
    return told->ended ? finished_lacking(v, at) : STATUS_OK;
}

static enum status run(struct verify *v, struct told *told) {
    char *elsewhere = NULL;
    enum status status = job_item(v, &elsewhere);
    if (status == STATUS_OK)
        status = run_events(v, told);
    if (status == STATUS_OK)
        status = report_items(v, told);
    if (status == STATUS_OK)
        status = run_parts(v, told, elsewhere);
    free(elsewhere);
    return status;
}

enum status verify_folder(struct verify *out, enum inspect_kind kind, const char *path) {
    struct told told = {.exports = json_object()};
    *out = (struct verify){.path = path};
    enum status status = !told.exports                 ? no_memory(out)
                         : kind == INSPECT_CHECKPOINTS ? checkpoints(out, "")
                                                       : run(out, &told);
    json_decref(told.exports);
    if (status != STATUS_OK)
        verify_release(out);
    return status;
}
