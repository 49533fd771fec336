// SPDX-License-Identifier: Apache-2.0
#include "daemon/taken.h"

#include "base/file.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/manifest.h"
#include "checkpoints/steps.h"
#include "export/sums.h"

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

static enum status refuse(const struct taken_ask *ask, const struct level *level, const char *what) {
    return status_set(STATUS_USAGE, "%s: %s %s %s, %s: choose another folder", ask->key, ask->path,
                      level->self ? "is" : "lies in", level->at, what);
}

// A folder that is held by a run whose `out` is elsewhere has its .owner from the start, before its first checkpoint.
static bool holds_checkpoints(const char *folder, const struct taken_ask *ask) {
    struct steps steps;
    bool any = false;
    if (ask->checkpoints && strcmp(folder, ask->checkpoints) == 0)
        return true;
    if (holds(folder, "latest") || (holds(folder, ".owner") && !holds(folder, "job.yaml")))
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

static bool is_run(const char *folder) {
    return holds(folder, "job.yaml") || holds(folder, "events.jsonl") || holds(folder, ".owner");
}

// Whether `folder` is <a run's out>/<name>.
static bool is_of_run(const char *folder, const char *name) {
    const char *slash = strrchr(folder, '/');
    char *out = slash && strcmp(slash + 1, name) == 0 ? strndup(folder, (size_t)(slash - folder)) : NULL;
    bool is = out && is_run(out);
    free(out);
    return is;
}

static bool is_checkpoint_name(const char *name) {
    uint64_t step;
    return step_parse(&step, name) || strcmp(name, "latest") == 0 || strcmp(name, "best") == 0 ||
           strncmp(name, STEPS_TMP, strlen(STEPS_TMP)) == 0;
}

static bool is_checkpoint(const char *folder) {
    return holds(folder, MANIFEST_NAME) && holds(folder, MANIFEST_FILE);
}

static bool is_swept(const struct level *level) {
    return file_is_temporary(level->name) && (is_run(level->parent) || is_of_run(level->parent, "artifacts"));
}

// Files by these names; a model that others made is not replaced.
static bool is_our_model(const char *folder) {
    return file_is_folder(folder) && (holds(folder, SUMS_NAME) || holds(folder, "finetuned.json"));
}

static enum status level_check(const struct taken_ask *ask, const struct level *level) {
    if (is_checkpoint(level->at))
        return refuse(ask, level, "a checkpoint, which its run removes as a whole");
    if (is_checkpoint_name(level->name) &&
        (is_of_run(level->parent, "checkpoints") || holds_checkpoints(level->parent, ask)))
        return refuse(ask, level, "a name that runs give and remove in this folder of checkpoints");
    if (is_swept(level))
        return refuse(ask, level, "a name of what is on its way, which the next start of that run removes");
    if (!(ask->replaces && level->self) && is_our_model(level->at))
        return refuse(ask, level, "a model that this program made, and replaces as a whole");
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
