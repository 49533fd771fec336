// SPDX-License-Identifier: Apache-2.0
#include "daemon/paths/taken.h"

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

static bool has_begun(const char *folder) {
    return holds(folder, "events.jsonl");
}

// The job's own out: what is above it is that one's question.
static bool is_asked(const struct taken_ask *ask, const char *folder) {
    return ask->out && strcmp(folder, ask->out) == 0;
}

// A job.yaml alone may be anybody's.
static bool is_run(const char *folder, const struct taken_ask *ask) {
    return has_begun(folder) || owner_is_there(folder) || is_asked(ask, folder);
}

// A folder that is held by a run whose `out` is elsewhere has its .owner from the start, before its first checkpoint.
static bool holds_checkpoints(const char *folder, const struct taken_ask *ask) {
    struct steps steps;
    bool any = false;
    if ((ask->checkpoints && strcmp(folder, ask->checkpoints) == 0) || (owner_is_there(folder) && !has_begun(folder)))
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

// Whether `folder` is <a run's out>/<name>.
static bool is_of_run(const char *folder, const char *name, const struct taken_ask *ask) {
    const char *slash = strrchr(folder, '/');
    char *out = slash && strcmp(slash + 1, name) == 0 ? strndup(folder, (size_t)(slash - folder)) : NULL;
    bool is = out && is_run(out, ask);
    free(out);
    return is;
}

// Whether `at` is or, of what is made as a whole, lies in what a run in another folder makes. Its shards may be shared.
static bool is_anothers(const char *at, bool self) {
    static const struct taken_ask nobody;
    bool is = self && is_of_run(at, "checkpoints", &nobody);
    for (size_t i = 0; taken_made[i]; i++)
        is = is || is_of_run(at, taken_made[i], &nobody);
    for (size_t i = 0; self && taken_written[i]; i++)
        is = is || is_of_run(at, taken_written[i], &nobody);
    return is;
}

char *taken_by(const char *path) {
    char *at = strdup(path);
    bool self = true;
    for (char *slash; at && (slash = strrchr(at, '/')); self = false) {
        bool is = is_anothers(at, self);
        *slash = '\0';
        if (is)
            return at;
    }
    free(at);
    return NULL;
}

static bool is_checkpoint(const char *folder) {
    return holds(folder, MANIFEST_NAME) && holds(folder, MANIFEST_FILE);
}

static bool is_on_its_way(const struct taken_ask *ask, const struct level *level) {
    return file_is_temporary(level->name) || steps_name_is_left(level->name) ||
           (owner_name_is_given(level->name) && is_run(level->parent, ask));
}

static bool is_step(const struct taken_ask *ask, const struct level *level) {
    return steps_name_is_given(level->name) &&
           (is_of_run(level->parent, "checkpoints", ask) || holds_checkpoints(level->parent, ask));
}

static bool is_made(const struct taken_ask *ask, const struct level *level) {
    for (size_t i = 0; taken_made[i]; i++) {
        bool may = level->self && ask->as == TAKEN_ARCHIVES && strcmp(level->name, "artifacts") == 0;
        if (!may && is_of_run(level->at, taken_made[i], ask))
            return true;
    }
    return false;
}

// The start of a run clears its folder of what is on its way: another's saves and shards, too.
static bool is_swept_by(const struct taken_ask *ask, const struct level *level) {
    return ask->as == TAKEN_OUT && level->self &&
           (is_of_run(level->at, "checkpoints", ask) || is_of_run(level->at, "shards", ask));
}

// No file of a checkpoint's or a model's is written over, whosever it is.
static bool is_model(const struct taken_ask *ask, const struct level *level) {
    return ask->as == TAKEN_FILE && file_is_folder(level->at) &&
           (is_checkpoint(level->at) || holds(level->at, SUMS_NAME) || model_is(level->at));
}

static bool is_written(const struct taken_ask *ask, const struct level *level) {
    bool is = ask->as == TAKEN_FILE && level->self && (lost_is(level->name) || is_of_run(level->parent, "shards", ask));
    for (size_t i = 0; ask->as == TAKEN_FILE && level->self && taken_written[i]; i++)
        is = is || strcmp(level->name, taken_written[i]) == 0;
    return is && (is_run(level->parent, ask) || is_of_run(level->parent, "shards", ask));
}

static bool is_of_sweep(const struct taken_ask *ask, const struct level *level) {
    return ask->as == TAKEN_FILE && level->self && holds(level->parent, FOLDER_SWEEP) &&
           (strcmp(level->name, FOLDER_SWEEP) == 0 || strcmp(level->name, "sweep.md") == 0);
}

static enum status level_check(const struct taken_ask *ask, const struct level *level) {
    bool step = is_step(ask, level), goes_on = ask->as == TAKEN_OUT && has_begun(ask->path);
    if (is_on_its_way(ask, level))
        return refuse(ask, level, "a name of what is on its way, which the next start or export there removes");
    if (step && is_checkpoint(level->at))
        return refuse(ask, level, "a checkpoint, which a run that saves there removes as a whole");
    if (goes_on)
        return STATUS_OK;
    if (step)
        return refuse(ask, level, "a name that runs give and remove in this folder of checkpoints");
    if (is_model(ask, level))
        return refuse(ask, level, is_checkpoint(level->at) ? "a checkpoint" : "a folder of model files");
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
    for (char *slash; status == STATUS_OK && (slash = strrchr(at, '/')) && slash[1] && !is_asked(ask, at);
         *slash = '\0', self = false) {
        char *parent = strndup(at, (size_t)(slash - at));
        status = parent ? level_check(ask, &(struct level){at, parent, slash + 1, self})
                        : status_set(STATUS_SYSTEM, "%s: no memory", ask->path);
        free(parent);
    }
    free(at);
    return status;
}
