// SPDX-License-Identifier: Apache-2.0
// What defines the run, and going on from a checkpoint of it. Rank 0 decides, all follow.
#include "train/trainer.h"
#include "base/file.h"
#include "base/markup.h"

#include "base/hash.h"
#include "checkpoints/steps.h"

#include <jansson.h>
#include <unistd.h>

#define BASE_KEY "model.base (content)"

// Takes `keys` away where a value found no memory: a key must not just be missing.
static void keys_set(json_t **keys, const char *key, const char *value) {
    if (*keys && json_object_set_new(*keys, key, json_string(value)) != 0) {
        json_decref(*keys);
        *keys = NULL;
    }
}

// The keys that define the run and their values, those of model and data by content. NULL: no memory.
static json_t *resume_keys(const struct trainer *t) {
    json_t *keys = json_object();
    for (size_t i = 0; job_key(i); i++) {
        char *value = job_key_defines_run(i) ? job_value(t->job, job_key(i)) : NULL;
        if (value)
            keys_set(&keys, job_key(i), value);
        free(value);
    }
    char parts[16];
    snprintf(parts, sizeof parts, "%u", t->state.parts);
    if (t->state.parts)
        keys_set(&keys, "train.parts", parts);
    else if (!t->job->train.parts) // auto, and the tokens are not counted yet
        json_object_del(keys, "train.parts");
    keys_set(&keys, "train.precision", t->state.precision);
    if (t->inputs.config.head == HEAD_QUESTION_ANSWERING)
        keys_set(&keys, INPUTS_NO_ANSWER_KEY, t->inputs.no_answer ? "true" : "false");
    keys_set(&keys, INPUTS_DATA_KEY, t->inputs.data_hash);
    keys_set(&keys, BASE_KEY, t->inputs.base_hash);
    return keys;
}

static enum status resume_config(char **out, const struct trainer *t) {
    json_t *keys = resume_keys(t);
    *out = json_dumps_whole(keys, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(keys);
    return *out ? STATUS_OK : status_set(STATUS_SYSTEM, "resume: no memory");
}

static enum status resume_describe(struct trainer *t) {
    json_t *labels = json_array();
    bool whole = labels != NULL;
    for (uint32_t i = 0; i < t->inputs.labels.n && whole; i++)
        whole = json_array_append_new(labels, json_string(t->inputs.labels.names[i])) == 0;
    enum status status = resume_config(&t->state.config, t);
    t->state.labels = whole ? json_dumps_whole(labels, JSON_COMPACT) : NULL;
    json_decref(labels);
    TRY(status);
    if (!t->state.labels)
        return status_set(STATUS_SYSTEM, "resume: no memory");
    struct hash_stream *hash;
    TRY(hash_begin(&hash));
    hash_add_string(hash, t->state.config);
    hash_end(hash, t->state.config_hash);
    snprintf(t->state.data_hash, sizeof t->state.data_hash, "%s", t->inputs.data_hash);
    snprintf(t->state.base_hash, sizeof t->state.base_hash, "%s", t->inputs.base_hash);
    return STATUS_OK;
}

#define DIFFERENCES_SHOWN 6

// Hashes of files, which nobody can give again.
static bool key_is_content(const char *key) {
    return strcmp(key, INPUTS_DATA_KEY) == 0 || strcmp(key, BASE_KEY) == 0 || strcmp(key, INPUTS_NO_ANSWER_KEY) == 0;
}

// The base of the run that was saved, where its job.yaml tells: malloc'ed, else NULL.
static char *resume_old_base(const struct job *job, const char *path) {
    struct job *then = NULL;
    char *file = file_is_in(path, job->out) ? path_join(job->out, "job.yaml") : NULL;
    char *base = file && file_exists(file) && job_read(&then, file, NULL, 0, JOB_NEED_NOTHING) == STATUS_OK
                     ? strdup(then->model.base)
                     : NULL;
    job_free(then);
    free(file);
    return base;
}

// Where the files are that were others.
static void resume_place(struct text *out, const char *key, const struct job *job, const char *path) {
    char *base = strcmp(key, BASE_KEY) == 0 ? resume_old_base(job, path) : NULL;
    if (strcmp(key, INPUTS_DATA_KEY) == 0)
        text_printf(out, " (the files, labels or data.columns of %s)", job->data.dir);
    if (base)
        text_printf(out, " (then the files of %s)", base);
    free(base);
}

// What differs between the run that was saved and this job, key by key: "train.lr was 5.0e-05, but this job says
// 3e-05". `given`: how many are values that a job can give.
static size_t resume_differences(struct text *out, size_t *given, const char *config, const struct trainer_state *saved,
                                 const struct job *job, const char *path) {
    json_t *now = json_loads(config, 0, NULL);
    json_t *then = json_loads(saved->config ? saved->config : "{}", 0, NULL);
    const char *key;
    json_t *value;
    size_t n = 0;
    json_object_foreach(now, key, value) {
        const char *was = json_string_value(json_object_get(then, key));
        if (was && strcmp(was, json_string_value(value)) == 0)
            continue;
        *given += !key_is_content(key);
        if (n++ >= DIFFERENCES_SHOWN)
            continue;
        text_printf(out, "%s%s was %s, but this job says %s", n > 1 ? "; " : "", key, was ? was : "not recorded",
                    json_string_value(value));
        resume_place(out, key, job, path);
    }
    if (n > DIFFERENCES_SHOWN)
        text_printf(out, "; and %zu more", n - DIFFERENCES_SHOWN);
    json_decref(now);
    json_decref(then);
    return n;
}

// What would lead away from that checkpoint.
static const char *resume_away(const struct job *job, const char *path) {
    return file_is_in(path, job->out) ? "out" : "checkpoints.dir";
}

static enum status resume_differs(const struct job *job, const char *config, const struct trainer_state *saved,
                                  const char *path) {
    struct text differences = {0};
    enum status status = STATUS_OK;
    size_t given = 0, n = resume_differences(&differences, &given, config, saved, job, path);
    if (n)
        status =
            status_set(STATUS_DATA,
                       "%s is of another run: %s. %s%s%s, choose another %s, or set checkpoints.resume: never to "
                       "start afresh there",
                       path, differences.failed ? "" : text_string(&differences),
                       given == 0  ? "Restore the files"
                       : given > 1 ? "Give the old values again"
                                   : "Give the old value again",
                       given && given < n ? " and restore the files" : "",
                       given < n ? " as they were (or give the place where they are)" : "", resume_away(job, path));
    text_release(&differences);
    return status;
}

// What differs is said before the texts are tokenised and anything of the run is changed. (`parts` may only be known
// afterwards.)
static enum status resume_early(struct trainer *t, const char *path) {
    struct trainer_state saved = {0};
    char *config = NULL;
    enum status status;
    TRY_GOTO(checkpoint_state(&saved, path), done);
    precision_adopt(t, saved.precision);
    TRY_GOTO(resume_config(&config, t), done);
    status = resume_differs(t->job, config, &saved, path);
done:
    trainer_state_release(&saved);
    free(config);
    return status;
}

static enum status resume_look(struct trainer *t) {
    const struct checkpoint_choice *choice = &t->choice;
    if (t->comm->rank != 0)
        return STATUS_OK;
    TRY(checkpoint_look(&t->choice, t->job->checkpoints.dir, t->job->checkpoints.resume));
    for (size_t i = 0; i < choice->n_skipped; i++)
        log_warn("resume: skipped %s: %s", choice->skipped[i].path, choice->skipped[i].why);
    return choice->path ? resume_early(t, choice->path) : STATUS_OK;
}

// Rank 0's choice to every rank: t->from, NULL for a fresh start.
static enum status resume_tell(struct trainer *t) {
    const char *path = t->choice.path;
    uint64_t size = path ? strlen(path) + 1 : 0;
    TRY(comm_broadcast(t->comm, &size, sizeof size, 0));
    if (!size)
        return STATUS_OK;
    t->from = calloc(1, size);
    if (t->from && path)
        memcpy(t->from, path, size);
    TRY(comm_agree(t->comm, t->from ? STATUS_OK : status_set(STATUS_SYSTEM, "resume: no memory")));
    return comm_broadcast(t->comm, t->from, size, 0);
}

enum status resume_choose(struct trainer *t) {
    TRY(comm_agree(t->comm, resume_look(t)));
    return resume_tell(t);
}

static void resume_adopt(struct trainer *t, struct trainer_state *saved) {
    t->state.step = saved->step;
    t->state.cursor = saved->cursor;
    t->state.epoch = saved->epoch;
    t->state.skips_in_a_row = saved->skips_in_a_row;
    t->state.best_step = saved->best_step;
    t->state.best_metric = saved->best_metric;
    t->state.evaluations_without_gain = saved->evaluations_without_gain;
    t->state.evaluation_due = saved->evaluation_due;
    memcpy(t->state.run_id, saved->run_id, sizeof t->state.run_id);
    optimizer_resume(t->optimizer, saved->step);
    t->saved_step = saved->step;
    t->saved_cursor = saved->cursor;
    if (saved->steps_total != t->state.steps_total && !trainer_ended(t))
        log_info("resume: %llu steps in all now, %llu before: the schedule is computed anew from the new total",
                 (unsigned long long)t->state.steps_total, (unsigned long long)saved->steps_total);
}

static enum status resume_read(struct trainer *t) {
    struct trainer_state saved = {0};
    enum status status;
    TRY_GOTO(checkpoint_load(&t->arenas, &saved, &t->table, t->from), done);
    TRY_GOTO(resume_differs(t->job, t->state.config, &saved, t->from), done);
    resume_adopt(t, &saved);
    optimizer_copy(t->optimizer);
done:
    trainer_state_release(&saved);
    return status;
}

static void resume_lost(struct events *events, const struct history_lost *lost) {
    if (lost->rank < 0)
        return;
    event_integer(events, "rank", lost->rank);
    event_string(events, "host", lost->host);
    event_string(events, "operation", lost->operation);
}

static enum status resume_event(struct trainer *t) {
    const struct checkpoint_choice *choice = &t->choice;
    log_info("resume: step %llu from %s (%s before)", (unsigned long long)t->state.step, t->from, t->previous.ended);
    event_begin(&t->events, "resume");
    event_integer(&t->events, "step", (int64_t)t->state.step);
    event_integer(&t->events, "cursor", (int64_t)t->state.cursor);
    event_integer(&t->events, "epoch", (int64_t)t->state.epoch);
    event_string(&t->events, "checkpoint", t->from);
    text_puts(&t->events.line, ", \"skipped\": [");
    for (size_t i = 0; i < choice->n_skipped; i++) {
        text_puts(&t->events.line, i ? ", {\"path\": " : "{\"path\": ");
        json_string_add(&t->events.line, choice->skipped[i].path);
        text_puts(&t->events.line, ", \"why\": ");
        json_string_add(&t->events.line, choice->skipped[i].why);
        text_puts(&t->events.line, "}");
    }
    text_printf(&t->events.line, "], \"previous\": {\"step\": %llu, \"ended\": ", (unsigned long long)t->previous.step);
    json_string_add(&t->events.line, t->previous.ended);
    resume_lost(&t->events, &t->previous.lost);
    text_puts(&t->events.line, "}");
    return event_end(&t->events);
}

// A fresh run's id; the same on every rank.
static enum status resume_fresh(struct trainer *t) {
    uint64_t id[2] = {0, 0};
    if (t->comm->rank == 0) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        id[0] = (uint64_t)now.tv_sec;
        id[1] = ((uint64_t)now.tv_nsec << 32) ^ (uint64_t)getpid();
    }
    TRY(comm_broadcast(t->comm, id, sizeof id, 0));
    snprintf(t->state.run_id, sizeof t->state.run_id, "%016llx%016llx", (unsigned long long)id[0],
             (unsigned long long)id[1]);
    t->saved_step = t->saved_cursor = UINT64_MAX;
    return STATUS_OK;
}

// Whether the run before went to its end: then nothing is resumed. Rank 0 knows the events.
static enum status resume_complete(struct trainer *t) {
    uint32_t ended = strcmp(t->previous.ended, "end") == 0 && t->previous.step == t->state.step && trainer_ended(t);
    TRY(comm_flags(t->comm, &ended));
    t->complete = ended != 0;
    return STATUS_OK;
}

enum status resume_is_ours(const struct trainer *t, const char *path) {
    struct trainer_state saved = {0};
    bool other = checkpoint_state(&saved, path) == STATUS_OK && strcmp(saved.run_id, t->state.run_id) != 0;
    enum status status = other ? status_set(STATUS_DATA, "%s is of another run (%s; this one is %s)", path,
                                            saved.run_id, t->state.run_id)
                               : STATUS_OK;
    trainer_state_release(&saved);
    return status;
}

// After a path from elsewhere the best checkpoint may not be in this run's folder. If it is the one we came from, it is
// saved here again; else the best is found anew.
static enum status resume_best(struct trainer *t) {
    char *best = text_format("%s/step-%08llu", t->job->checkpoints.dir, (unsigned long long)t->state.best_step);
    bool asked = best && t->comm->rank == 0 && t->state.best_step != 0;
    uint32_t missing = asked && (checkpoint_verify(best) != STATUS_OK || resume_is_ours(t, best) != STATUS_OK);
    if (missing)
        log_warn("resume: the best checkpoint, of step %llu, can't be used: %s", (unsigned long long)t->state.best_step,
                 status_message());
    free(best);
    TRY(comm_flags(t->comm, &missing));
    if (!missing)
        return STATUS_OK;
    if (t->state.best_step == t->state.step) {
        t->saved_step = t->saved_cursor = UINT64_MAX;
        TRY(t->look ? STATUS_OK : save_now(t));
        return save_wait(t);
    }
    log_warn("resume: the best is found anew from step %llu on", (unsigned long long)t->state.step);
    t->state.best_step = 0;
    t->best_lost = true;
    return STATUS_OK;
}

static enum status resume_best_link(struct trainer *t) {
    bool mends = t->comm->rank == 0 && !t->look && t->state.best_step != 0;
    return mends ? checkpoint_mend_best(&t->choice, t->job->checkpoints.dir, t->state.best_step) : STATUS_OK;
}

// Not before it is known which is the best.
static enum status resume_retain(struct trainer *t) {
    bool may = t->comm->rank == 0 && !t->look && t->choice.step && !t->best_lost;
    return may ? checkpoint_retain(&t->checkpoints, &t->state) : STATUS_OK;
}

// Of a run that is done no start makes an older checkpoint again: what is wrong with one is said.
static enum status resume_others(const struct trainer *t) {
    struct steps steps;
    TRY(steps_list(&steps, t->job->checkpoints.dir));
    for (size_t i = 0; i < steps.n; i++) {
        bool known = steps.at[i] == t->state.step || steps.at[i] == t->state.best_step;
        char *path = known ? NULL : step_path(t->job->checkpoints.dir, steps.at[i]);
        if (path && (checkpoint_verify_step(path, steps.at[i]) != STATUS_OK || resume_is_ours(t, path) != STATUS_OK))
            log_warn("%s: it can't be made again; remove it", status_message());
        free(path);
    }
    steps_release(&steps);
    return STATUS_OK;
}

enum status resume_load(struct trainer *t) {
    TRY(resume_describe(t));
    TRY(comm_same(t->comm, t->state.config_hash, sizeof t->state.config_hash, "the job"));
    return t->from ? comm_agree(t->comm, resume_read(t)) : resume_fresh(t);
}

enum status resume_open(struct trainer *t) {
    if (!t->from)
        return STATUS_OK;
    TRY(resume_complete(t));
    TRY(resume_best(t));
    TRY(comm_agree(t->comm, resume_best_link(t)));
    TRY(comm_agree(t->comm, resume_retain(t)));
    TRY(comm_agree(t->comm, t->comm->rank == 0 && t->complete && !t->look ? resume_others(t) : STATUS_OK));
    return comm_agree(t->comm, t->comm->rank == 0 && !t->complete ? resume_event(t) : STATUS_OK);
}
