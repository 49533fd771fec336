// SPDX-License-Identifier: Apache-2.0
#include "train/folder.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/pulse.h"
#include "checkpoints/steps.h"
#include "train/ended.h"
#include "train/home.h"
#include "train/stop.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define CHECKPOINTS "checkpoints.dir"
#define CACHE "data.cache"
#define SHARED_PATIENCE_S 10 // that a network file system may take to show a new file

// ---- taking it

static bool claim_has(const struct job *job, const char *name) {
    char *path = path_join(job->out, name);
    bool has = path && file_named(path);
    free(path);
    return has;
}

enum status folder_kind(const struct job *job) {
    return claim_has(job, FOLDER_SWEEP)
               ? status_set(STATUS_USAGE,
                            "out: %s is a sweep's folder (it holds " FOLDER_SWEEP "): a run needs another out, or "
                            "start finetuned sweep",
                            job->out)
               : STATUS_OK;
}

// A finished run whose checkpoints are not there is not begun anew: that would replace its model and report. An empty
// folder is a fresh start for all others.
static enum status claim_finished(const struct job *job) {
    struct events_previous previous;
    struct steps steps;
    if (strcmp(job->checkpoints.resume, "auto") != 0)
        return STATUS_OK;
    TRY(steps_list(&steps, job->checkpoints.dir));
    bool any = steps.n > 0;
    steps_release(&steps);
    if (any)
        return STATUS_OK;
    TRY(events_look(&previous, job->out));
    const char *has = ended_has(job->out, previous.any, previous.end_step);
    char when[32] = "";
    if (!has)
        return STATUS_OK;
    if (previous.end_step)
        snprintf(when, sizeof when, " at step %" PRIu64, previous.end_step);
    return status_set(
        STATUS_DATA,
        "checkpoints.dir: %s holds no checkpoint, but %s is of a run that ended%s and has its %s%s: bring the "
        "folder back (is its disk mounted? another checkpoints.dir?), set checkpoints.resume: never to train again "
        "from step 0 and replace what is there, or choose another out",
        job->checkpoints.dir, job->out, when, has, previous.any ? "" : " (its events.jsonl is gone or empty, too)");
}

// Whether there can be such folders. A cache that holds all shards need not be writable.
static enum status claim_places(const struct job *job) {
    TRY(file_place("out", job->out));
    TRY(file_place(CHECKPOINTS, job->checkpoints.dir));
    return file_is_folder(job->data.cache) ? STATUS_OK : file_place(CACHE, job->data.cache);
}

// Whether the folder could be ours.
static enum status claim_look(const struct job *job) {
    TRY(owner_ask(job->out, "out"));
    return claim_finished(job);
}

// How checkpoints.dir lies to `out`: the same folder, below it, or elsewhere.
enum claim_place { CLAIM_SAME, CLAIM_BELOW, CLAIM_ELSEWHERE };
static enum claim_place claim_place(const char *dir, const char *out) {
    if (strcmp(dir, out) == 0)
        return CLAIM_SAME;
    return file_is_in(dir, out) ? CLAIM_BELOW : CLAIM_ELSEWHERE;
}

// Two runs never save into one folder. Below its own `out` it is held with that; who comes from elsewhere takes the
// folder itself and then asks those above, and who is below asks the folder: of two who come at once at least one sees
// the other.
static enum status claim_checkpoints(struct trainer *t) {
    const char *dir = t->job->checkpoints.dir;
    char *real, *out = NULL;
    TRY(file_real(&real, dir));
    enum status status = file_real(&out, t->job->out);
    enum claim_place place = status == STATUS_OK ? claim_place(real, out) : CLAIM_SAME;
    if (status == STATUS_OK && place == CLAIM_ELSEWHERE && !t->look)
        status = owner_take(&t->owners[1], dir, CHECKPOINTS);
    else if (status == STATUS_OK && place != CLAIM_SAME)
        status = owner_ask(dir, CHECKPOINTS);
    if (status == STATUS_OK && place == CLAIM_ELSEWHERE)
        status = owner_ask_above(real, CHECKPOINTS);
    free(real);
    free(out);
    return status;
}

static enum status claim(struct trainer *t) {
    TRY(inputs_look(t->job));
    TRY(folder_kind(t->job));
    TRY(claim_places(t->job));
    if (t->look) {
        TRY(claim_look(t->job));
        TRY(claim_checkpoints(t));
        return home_check(t->job);
    }
    TRY(file_make_place(&t->made[0], "out", t->job->out));
    TRY(owner_take(&t->owners[0], t->job->out, "out"));
    TRY(claim_finished(t->job)); // an empty folder would be made where a disk belongs
    TRY(file_make_place(&t->made[1], CHECKPOINTS, t->job->checkpoints.dir));
    t->made[2] = file_first_missing(t->job->data.cache);
    enum status status = claim_checkpoints(t);
    memcpy(t->checkpoints.owners, t->owners, sizeof t->owners);
    return status == STATUS_OK ? home_check(t->job) : status;
}

enum status folder_claim(struct trainer *t) {
    return comm_agree(t->comm, t->comm->rank == 0 ? claim(t) : STATUS_OK);
}

void folder_unmake(struct trainer *t) {
    const char *paths[FOLDERS] = {t->job->out, t->job->checkpoints.dir, t->job->data.cache};
    for (size_t i = FOLDERS; i-- > 0;) {
        if (t->made[i])
            file_unmake(paths[i], t->made[i]);
        free(t->made[i]);
        t->made[i] = NULL;
    }
}

// ---- held

_Static_assert((FOLDER_LOST & STOP_FLAGS) == 0, "a flag of its own");

uint32_t folder_flags(const struct trainer *t) {
    return owner_lost(t->owners[0]) || owner_lost(t->owners[1]) ? FOLDER_LOST : 0;
}

void folder_told(struct trainer *t, uint32_t flags) {
    t->folder_lost = flags & FOLDER_LOST;
}

enum status folder_held(const struct trainer *t) {
    TRY(owner_check(t->owners[0]));
    return owner_check(t->owners[1]);
}

enum status folder_given_up(struct trainer *t) {
    TRY(comm_agree(t->comm, folder_held(t)));
    return status_set(STATUS_AGAIN, "this run no longer holds its folders");
}

// ---- seen by all

// A name that checkpoint_sweep removes, should we die before we do.
static char *shared_name(const struct trainer *t, uint64_t random) {
    return text_format("%s/" STEPS_TMP STEPS_SEEN "-%016" PRIx64, t->job->checkpoints.dir, random);
}

static enum status shared_wait(const struct trainer *t, const char *path) {
    struct timespec nap = {.tv_nsec = 20000000};
    for (double begun = clock_seconds(); !file_exists(path); nanosleep(&nap, NULL)) {
        pulse_beat();
        if (clock_seconds() - begun > SHARED_PATIENCE_S)
            return status_set(STATUS_IO,
                              "checkpoints.dir %s: what rank 0 writes there is not seen here: it must be a folder that "
                              "all ranks share (a relative path is of each rank's own working directory)",
                              t->job->checkpoints.dir);
    }
    return STATUS_OK;
}

enum status folder_shared(struct trainer *t) {
    uint64_t random = 0;
    if (t->look || t->comm->world == 1)
        return STATUS_OK;
    if (t->comm->rank == 0 && getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        random = (uint64_t)getpid() << 32 ^ (uint64_t)time(NULL);
    TRY(comm_broadcast(t->comm, &random, sizeof random, 0));
    char *path = shared_name(t, random);
    enum status status = path ? STATUS_OK : status_set(STATUS_SYSTEM, "trainer: no memory");
    if (status == STATUS_OK && t->comm->rank == 0)
        status = file_replace(path, "", 0);
    status = comm_agree(t->comm, status);
    if (status == STATUS_OK)
        status = comm_agree(t->comm, shared_wait(t, path));
    if (path && t->comm->rank == 0)
        unlink(path);
    free(path);
    return status;
}

// ---- going on

// What an earlier start left half-made beside the checkpoints, which have a sweep of their own.
static enum status settle_sweep(const struct job *job) {
    char *artifacts = path_join(job->out, "artifacts");
    enum status status =
        artifacts ? file_sweep(job->out, file_is_temporary) : status_set(STATUS_SYSTEM, "trainer: no memory");
    if (status == STATUS_OK)
        status = file_sweep(artifacts, file_is_temporary);
    free(artifacts);
    return status;
}

// A run was here, but nothing to go on from is.
static void settle_afresh(const struct trainer *t) {
    if (t->from || !t->previous.any || strcmp(t->job->checkpoints.resume, "auto") != 0)
        return;
    if (t->previous.saved_step)
        log_warn("resume: %s holds no checkpoint, but %s/events.jsonl tells of one of step %llu: a fresh start, those "
                 "steps are trained again (stop, and bring the folder back if it is only not mounted or named)",
                 t->job->checkpoints.dir, t->job->out, (unsigned long long)t->previous.saved_step);
    else
        log_warn("resume: %s holds no checkpoint: a fresh start (%s/events.jsonl ends at step %llu, %s)",
                 t->job->checkpoints.dir, t->job->out, (unsigned long long)t->previous.step, t->previous.ended);
}

// The checkpoints came alone, or the file was lost.
static void settle_eventless(const struct trainer *t) {
    if (t->from && !t->previous.any && strcmp(t->job->checkpoints.resume, "auto") == 0)
        log_warn(
            "resume: %s is there, but %s/events.jsonl, which tells of the steps before it, is gone or empty: the run "
            "goes on without",
            t->from, t->job->out);
}

static enum status settle(struct trainer *t) {
    const char *dir = t->job->checkpoints.dir;
    if (!t->look) {
        TRY(folder_held(t));
        TRY(settle_sweep(t->job));
        TRY(file_sweep(dir, file_is_temporary)); // of its .home
        TRY(checkpoint_sweep(dir));
        TRY(checkpoint_settle(&t->choice, dir));
    }
    for (size_t i = 0; i < t->choice.n_aside; i++)
        log_warn("resume: %s %s", t->look ? "would set aside" : "set aside", t->choice.aside[i]);
    return STATUS_OK;
}

enum status folder_settle(struct trainer *t) {
    enum status status = t->comm->rank == 0 ? settle(t) : STATUS_OK;
    if (status == STATUS_OK && t->look)
        status = events_look(&t->previous, t->job->out);
    else if (status == STATUS_OK)
        status = events_open(&t->events, &t->previous, t->job->out, t->comm->rank == 0, t->owners[0]);
    if (status == STATUS_OK && t->comm->rank == 0) {
        settle_afresh(t);
        settle_eventless(t);
    }
    if (status == STATUS_OK && !t->look)
        status = lost_open(&t->lost, t->comm, t->job->out, t->owners[0]);
    return comm_agree(t->comm, status);
}
