// SPDX-License-Identifier: Apache-2.0
// A folder of checkpoints: each step in full and, of a run that has ended, whose they are and where the links lead.
#include "daemon/verify/parts.h"

#include "base/file.h"
#include "base/text.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/owner.h"
#include "checkpoints/steps.h"
#include "train/home.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- where it is

// A path that the job has below its out, below the folder that is looked at, which may be a copy of that out:
// malloc'ed; NULL: it lies elsewhere.
static char *below_out(const char *path, const char *out) {
    if (!file_is_in(path, out))
        return NULL;
    const char *below = path + strlen(out);
    below += strspn(below, "/");
    return *below ? strdup(below) : NULL;
}

static char *below_real_out(const char *path, const char *out) {
    char *real = NULL, *real_out = NULL, *below = NULL;
    if (file_real(&real, path) == STATUS_OK && file_real(&real_out, out) == STATUS_OK)
        below = below_out(real, real_out);
    free(real);
    free(real_out);
    return below;
}

static bool holds_steps(const struct verify *v, const char *folder) {
    struct steps steps = {0};
    char *path = path_join(v->path, folder);
    bool any = path && steps_list(&steps, path) == STATUS_OK && steps.n > 0;
    steps_release(&steps);
    free(path);
    return any;
}

static char *checkpoints_place(const struct verify *v, const struct job *job) {
    static const char usual[] = "checkpoints";
    char *below = job ? below_out(job->checkpoints.dir, job->out) : NULL;
    if (job && !below)
        below = below_real_out(job->checkpoints.dir, job->out);
    if (below || !job)
        return below ? below : strdup(usual);
    bool brought = !verify_there(v, job->checkpoints.dir) && holds_steps(v, usual); // it lay elsewhere then
    return strdup(brought ? usual : job->checkpoints.dir);
}

// ---- steps

static enum status step_is_runs(const struct verify_told *told, const char *path) {
    struct trainer_state state = {0};
    if (!told || !*told->run_id)
        return STATUS_OK;
    enum status status = checkpoint_state(&state, path);
    if (status == STATUS_OK && strcmp(state.run_id, told->run_id) != 0)
        status = status_set(STATUS_DATA, "%s: is of another run (%s) than report.json (%s)", path, state.run_id,
                            told->run_id);
    trainer_state_release(&state);
    return status;
}

static enum status step_found(struct verify *v, const struct verify_told *told, const char *below, const char *path) {
    enum verify_depth depth = VERIFY_HASHES;
    enum status status = verify_one(&depth, INSPECT_CHECKPOINT, path);
    if (status == STATUS_OK)
        status = step_is_runs(told, path);
    return verify_found(v, below, inspect_kind_name(INSPECT_CHECKPOINT), status, depth);
}

static enum status step_item(struct verify *v, const struct verify_told *told, const char *folder, const char *name) {
    uint64_t step = 0;
    char *below = path_join(folder, name), *path = below ? path_join(v->path, below) : NULL;
    enum status status = path ? STATUS_OK : verify_no_memory(v);
    if (status == STATUS_OK && steps_name_is_left(name))
        status =
            verify_note(v, below, "left by a save that was ended, or one that is under way; the next start removes it");
    else if (status == STATUS_OK && strstr(name, ".aside-"))
        status = verify_note(v, below, "set aside by an earlier start: not looked at");
    else if (status == STATUS_OK && (owner_name_is_given(name) || strcmp(name, HOME_FILE) == 0))
        status = STATUS_OK; // a run is under way; which one's they are
    else if (status == STATUS_OK && step_parse(&step, name))
        status = step_found(v, told, below, path);
    else if (status == STATUS_OK && strcmp(name, "latest") != 0 && strcmp(name, "best") != 0)
        status = verify_note(v, below, "no name of ours: not looked at");
    free(path);
    free(below);
    return status;
}

// ---- links

// `wanted`: where a finished run's link leads; 0: to any step.
static enum status check_link(const char *path, uint64_t wanted) {
    char target[STEP_NAME + 1] = "";
    struct stat info;
    uint64_t step;
    if (lstat(path, &info) != 0 || !S_ISLNK(info.st_mode))
        return status_set(STATUS_DATA, "%s: is no link", path);
    ssize_t size = readlink(path, target, sizeof target - 1);
    if (size <= 0 || !step_parse(&step, target))
        return status_set(STATUS_DATA, "%s: leads to %s, which is no step's name beside it", path, target);
    if (!file_is_folder(path))
        return status_set(STATUS_DATA, "%s: leads to %s, which is not there", path, target);
    return !wanted || step == wanted
               ? STATUS_OK
               : status_set(STATUS_DATA, "%s: leads to step %" PRIu64 ", but a finished run's leads to step %" PRIu64,
                            path, step, wanted);
}

static enum status link_item(struct verify *v, const char *folder, const char *name, uint64_t wanted) {
    char *below = path_join(folder, name), *path = below ? path_join(v->path, below) : NULL;
    enum status status = path ? STATUS_OK : verify_no_memory(v);
    if (status == STATUS_OK && file_named(path))
        status = verify_found(v, below, "link", check_link(path, wanted), VERIFY_STRUCTURE);
    else if (status == STATUS_OK && wanted)
        status = verify_lacks(v, below, "link", VERIFY_FINISHED);
    free(path);
    free(below);
    return status;
}

// Where a finished run's links lead: to the last step, and to the best that its checkpoint tells of.
static enum status links(struct verify *v, const struct verify_told *told, const char *folder) {
    uint64_t end = told && told->ended ? told->end_step : 0,
             best = end && told->newest.step == end ? told->newest.best_step : 0;
    TRY(link_item(v, folder, "latest", end));
    return link_item(v, folder, "best", best);
}

// ---- all of it

// What the newest checkpoint says, if it is one of this run.
static void newest_read(struct verify_told *told, const char *path) {
    struct steps steps = {0};
    char *newest = steps_list(&steps, path) == STATUS_OK && steps.n ? step_path(path, steps.at[steps.n - 1]) : NULL;
    if (newest && (checkpoint_state(&told->newest, newest) != STATUS_OK || step_is_runs(told, newest) != STATUS_OK))
        trainer_state_release(&told->newest);
    steps_release(&steps);
    free(newest);
}

enum status verify_checkpoints(struct verify *v, struct verify_told *told, const char *folder) {
    char **names, *path = path_join(v->path, folder);
    size_t n;
    enum status status = path ? file_list(&names, &n, path) : verify_no_memory(v);
    if (status != STATUS_OK) {
        free(path);
        return verify_found(v, folder, "checkpoints", status, VERIFY_STRUCTURE);
    }
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        status = step_item(v, told, folder, names[i]);
    file_list_free(names, n);
    if (status == STATUS_OK && told)
        newest_read(told, path);
    free(path);
    return status == STATUS_OK ? links(v, told, folder) : status;
}

// The last step of a run that has ended is there.
static enum status end_lacking(struct verify *v, const struct verify_told *told, const char *folder) {
    char name[STEP_NAME];
    if (!told->end_step)
        return STATUS_OK;
    step_name(name, told->end_step);
    char *below = path_join(folder, name);
    enum status status = below ? verify_lacks(v, below, inspect_kind_name(INSPECT_CHECKPOINT), "the run ended there")
                               : verify_no_memory(v);
    free(below);
    return status;
}

static bool holds_named_steps(const char *path) {
    char **names;
    size_t n;
    bool any = false;
    if (file_list(&names, &n, path) != STATUS_OK)
        return false;
    for (size_t i = 0; i < n; i++)
        any = any || strncmp(names[i], "step-", 5) == 0; // set aside too: a start was ended before its first save
    file_list_free(names, n);
    return any;
}

// Of a run under way: what its events tell of can't all be gone.
static enum status saved_lacking(struct verify *v, const struct verify_told *told, const char *folder) {
    char *path = told->saved_step ? path_join(v->path, folder) : NULL;
    enum status status = STATUS_OK;
    if (path && !holds_named_steps(path))
        status = verify_add(v, folder, "checkpoints",
                            status_set(STATUS_DATA,
                                       "%s: holds no checkpoint, but the run's events tell of one of step %" PRIu64,
                                       path, told->saved_step),
                            VERIFY_STRUCTURE);
    free(path);
    return status;
}

static enum status some_lacking(struct verify *v, const struct verify_told *told, const char *folder) {
    if (!told->ended)
        return saved_lacking(v, told, folder);
    TRY(verify_lacks(v, folder, "checkpoints", VERIFY_FINISHED));
    return verify_there(v, folder) ? end_lacking(v, told, folder) : STATUS_OK;
}

enum status verify_checkpoints_of_run(struct verify *v, struct verify_told *told) {
    static const char usual[] = "checkpoints";
    char *folder = checkpoints_place(v, told->job);
    enum status status = folder ? STATUS_OK : verify_no_memory(v);
    if (folder && verify_there(v, folder))
        status = verify_checkpoints(v, told, folder);
    if (status == STATUS_OK)
        status = some_lacking(v, told, folder);
    if (status == STATUS_OK && strcmp(folder, usual) != 0 && verify_there(v, usual))
        status = verify_note(v, usual, "checkpoints.dir of job.yaml is another folder: not looked at");
    free(folder);
    return status;
}
