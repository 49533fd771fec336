// SPDX-License-Identifier: Apache-2.0
#include "daemon/taken.h"

#include "base/file.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/manifest.h"
#include "checkpoints/steps.h"
#include "export/sums.h"
#include "model/model.h"
#include "train/folder.h"
#include "train/lost.h"

#include <stdlib.h>
#include <string.h>

// One folder on the way from `path` up.
struct level {
    const char *at;     // absolute, no link in it
    const char *parent; // "" of the root's
    const char *name;
    bool self; // it is `path` itself
};

static bool holds(const char *folder, const char *name) {
    char *path = path_join(folder, name);
    bool there = path && file_named(path);
    free(path);
    return there;
}

const char *const taken_made[] = {"model", "artifacts", "tensorboard", NULL};
const char *const taken_written[] = {"report.json", "report.md", "job.yaml", "events.jsonl", ".owner", NULL};

static enum status refuse(const struct taken_ask *ask, const struct level *level, const char *what) {
    return status_set(STATUS_USAGE, "%s: %s %s %s, %s: choose another %s", ask->key, ask->path,
                      level->self ? "is" : "lies in", level->at, what, ask->as == TAKEN_FILE ? "file" : "folder");
}

// A folder that is held by a run whose `out` is elsewhere has its .owner from the start, before its first checkpoint.
static bool holds_checkpoints(const char *folder, const struct taken_ask *ask) {
    struct steps steps;
    bool any = false;
    if (ask->checkpoints && strcmp(folder, ask->checkpoints) == 0)
        return true;
    if (holds(folder, "latest") || (holds(folder, ".owner") && !holds(folder, "events.jsonl")))
        return true;
    if (steps_list(&steps, folder) == STATUS_OK)
        for (size_t i = 0; i < steps.n && !any; i++) {
            char *path = step_path(folder, steps.at[i]);
            any = path && checkpoint_is(path);
            free(path);
        }
    steps_release(&steps);
    return any;
}

// A job.yaml alone may be anybody's.
static bool is_run(const char *folder) {
    return holds(folder, "events.jsonl") || holds(folder, ".owner");
}

// Whether `folder` is <a run's out>/<name>.
static bool is_of_run(const char *folder, const char *name) {
    const char *slash = strrchr(folder, '/');
    char *out = slash && strcmp(slash + 1, name) == 0 ? strndup(folder, (size_t)(slash - folder)) : NULL;
    bool is = out && is_run(out);
    free(out);
    return is;
}

static bool is_checkpoint(const char *folder) {
    return holds(folder, MANIFEST_NAME) && holds(folder, MANIFEST_FILE);
}

static bool is_on_its_way(const struct level *level) {
    return file_is_temporary(level->name) || (owner_name_is_given(level->name) && is_run(level->parent));
}

static bool is_made(const struct taken_ask *ask, const struct level *level) {
    for (size_t i = 0; taken_made[i]; i++) {
        bool may = level->self && ((ask->as == TAKEN_MODEL && strcmp(level->name, "model") == 0) ||
                                   (ask->as == TAKEN_ARCHIVES && strcmp(level->name, "artifacts") == 0));
        if (!may && is_of_run(level->at, taken_made[i]))
            return true;
    }
    return false;
}

// The start of a run clears its folder of what is on its way: another's saves and shards, too.
static bool is_swept_by(const struct taken_ask *ask, const struct level *level) {
    return ask->as == TAKEN_OUT && level->self &&
           (is_of_run(level->at, "checkpoints") || is_of_run(level->at, "shards"));
}

// Ours are known by files of ours; a model that others made is not replaced, but no file of it is written over.
static bool is_model(const struct taken_ask *ask, const struct level *level) {
    if (!file_is_folder(level->at) || (ask->as == TAKEN_MODEL && level->self))
        return false;
    return holds(level->at, SUMS_NAME) || holds(level->at, "finetuned.json") ||
           (ask->as == TAKEN_FILE && model_is(level->at));
}

static bool is_written(const struct taken_ask *ask, const struct level *level) {
    bool is = ask->as == TAKEN_FILE && level->self && (lost_is(level->name) || is_of_run(level->parent, "shards"));
    for (size_t i = 0; ask->as == TAKEN_FILE && level->self && taken_written[i]; i++)
        is = is || strcmp(level->name, taken_written[i]) == 0;
    return is && (is_run(level->parent) || is_of_run(level->parent, "shards"));
}

static bool is_of_sweep(const struct taken_ask *ask, const struct level *level) {
    return ask->as == TAKEN_FILE && level->self && holds(level->parent, FOLDER_SWEEP) &&
           (strcmp(level->name, FOLDER_SWEEP) == 0 || strcmp(level->name, "sweep.md") == 0);
}

static enum status level_check(const struct taken_ask *ask, const struct level *level) {
    if (is_checkpoint(level->at))
        return refuse(ask, level, "a checkpoint, which its run removes as a whole");
    if (steps_name_is_given(level->name) &&
        (is_of_run(level->parent, "checkpoints") || holds_checkpoints(level->parent, ask)))
        return refuse(ask, level, "a name that runs give and remove in this folder of checkpoints");
    if (is_on_its_way(level))
        return refuse(ask, level, "a name of what is on its way, which the next start or export there removes");
    if (is_model(ask, level))
        return refuse(ask, level,
                      ask->as == TAKEN_FILE ? "a folder of model files"
                                            : "a model that this program made, and replaces as a whole");
    if (is_made(ask, level))
        return refuse(ask, level, "which a run makes");
    if (is_swept_by(ask, level))
        return refuse(ask, level, "where another run keeps what its starts save");
    if (is_written(ask, level) || is_of_sweep(ask, level))
        return refuse(ask, level, "a file that a run or a sweep writes");
    return STATUS_OK;
}

enum status taken_check(const struct taken_ask *ask) {
    char *at;
    bool self = true;
    enum status status = STATUS_OK;
    TRY(file_real(&at, ask->path));
    for (char *slash; status == STATUS_OK && (slash = strrchr(at, '/')) && slash[1]; *slash = '\0', self = false) {
        char *parent = strndup(at, (size_t)(slash - at));
        status = parent ? level_check(ask, &(struct level){at, parent, slash + 1, self})
                        : status_set(STATUS_SYSTEM, "%s: no memory", ask->path);
        free(parent);
    }
    free(at);
    return status;
}
