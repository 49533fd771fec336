// SPDX-License-Identifier: Apache-2.0
// What defines the run, and going on from a checkpoint of it. Rank 0 decides, all follow.
#include "train/trainer.h"

#include "base/hash.h"

#include <jansson.h>
#include <unistd.h>

// The keys that define the run and their values, those of model and data by content.
static json_t *resume_keys(const struct trainer *t) {
    json_t *keys = json_object();
    for (size_t i = 0; job_key(i); i++) {
        char *value = job_key_defines_run(i) ? job_value(t->job, job_key(i)) : NULL;
        if (value)
            json_object_set_new(keys, job_key(i), json_string(value));
        free(value);
    }
    char parts[16];
    snprintf(parts, sizeof parts, "%u", t->state.parts);
    json_object_set_new(keys, "train.parts", json_string(parts));
    json_object_set_new(keys, "train.precision", json_string(t->state.precision));
    if (t->inputs.config.head == HEAD_QUESTION_ANSWERING)
        json_object_set_new(keys, INPUTS_NO_ANSWER_KEY, json_string(t->inputs.no_answer ? "true" : "false"));
    json_object_set_new(keys, INPUTS_DATA_KEY, json_string(t->inputs.data_hash));
    json_object_set_new(keys, "model.base (content)", json_string(t->inputs.base_hash));
    return keys;
}

static enum status resume_describe(struct trainer *t) {
    json_t *keys = resume_keys(t), *labels = json_array();
    for (uint32_t i = 0; i < t->inputs.labels.n; i++)
        json_array_append_new(labels, json_string(t->inputs.labels.names[i]));
    t->state.config = json_dumps(keys, JSON_COMPACT | JSON_SORT_KEYS);
    t->state.labels = json_dumps(labels, JSON_COMPACT);
    json_decref(keys);
    json_decref(labels);
    if (!t->state.config || !t->state.labels)
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

// What differs between the run that was saved and this job, key by key: "train.lr was 5.0e-05, but this job says
// 3e-05".
static size_t resume_differences(struct text *out, const struct trainer *t, const struct trainer_state *saved) {
    json_t *now = json_loads(t->state.config, 0, NULL);
    json_t *then = json_loads(saved->config ? saved->config : "{}", 0, NULL);
    const char *key;
    json_t *value;
    size_t n = 0;
    json_object_foreach(now, key, value) {
        const char *was = json_string_value(json_object_get(then, key));
        if ((was && strcmp(was, json_string_value(value)) == 0) || n++ >= DIFFERENCES_SHOWN)
            continue;
        text_printf(out, "%s%s was %s, but this job says %s", n > 1 ? "; " : "", key, was ? was : "not recorded",
                    json_string_value(value));
        if (strcmp(key, INPUTS_DATA_KEY) == 0)
            text_puts(out, " (its files, labels or data.columns)");
    }
    if (n > DIFFERENCES_SHOWN)
        text_printf(out, "; and %zu more", n - DIFFERENCES_SHOWN);
    json_decref(now);
    json_decref(then);
    return n;
}

static enum status resume_differs(const struct trainer *t, const struct trainer_state *saved, const char *path) {
    struct text differences = {0};
    enum status status = STATUS_OK;
    if (resume_differences(&differences, t, saved))
        status = status_set(STATUS_DATA,
                            "%s is of another run: %s. Give the old value%s again, choose another out, or set "
                            "checkpoints.resume: never to start afresh there",
                            path, differences.failed ? "" : text_string(&differences),
                            strchr(text_string(&differences) ? text_string(&differences) : "", ';') ? "s" : "");
    text_release(&differences);
    return status;
}

static enum status resume_choose(struct trainer *t, struct checkpoint_choice *choice) {
    *choice = (struct checkpoint_choice){0};
    if (t->comm->rank != 0)
        return STATUS_OK;
    const struct job *job = t->job;
    if (!t->look)
        TRY(checkpoint_sweep(job->checkpoints.dir));
    TRY((t->look ? checkpoint_look : checkpoint_choose)(choice, job->checkpoints.dir, job->checkpoints.resume));
    for (size_t i = 0; i < choice->n_skipped; i++)
        log_warn("resume: skipped %s: %s", choice->skipped[i].path, choice->skipped[i].why);
    for (size_t i = 0; i < choice->n_aside; i++)
        log_warn("resume: %s %s", t->look ? "would set aside" : "set aside", choice->aside[i]);
    return STATUS_OK;
}

// Rank 0's choice to every rank; "" for a fresh start. malloc'ed.
static enum status resume_tell(struct trainer *t, char **path, const struct checkpoint_choice *choice) {
    uint64_t size = choice->path ? strlen(choice->path) + 1 : 1;
    TRY(comm_broadcast(t->comm, &size, sizeof size, 0));
    *path = calloc(1, size);
    if (*path && choice->path)
        memcpy(*path, choice->path, size);
    TRY(comm_agree(t->comm, *path ? STATUS_OK : status_set(STATUS_SYSTEM, "resume: no memory")));
    return comm_broadcast(t->comm, *path, size, 0);
}

static void resume_adopt(struct trainer *t, struct trainer_state *saved) {
    t->state.step = saved->step;
    t->state.cursor = saved->cursor;
    t->state.epoch = saved->epoch;
    t->state.skips_in_a_row = saved->skips_in_a_row;
    t->state.best_step = saved->best_step;
    t->state.best_metric = saved->best_metric;
    t->state.evaluations_without_gain = saved->evaluations_without_gain;
    memcpy(t->state.run_id, saved->run_id, sizeof t->state.run_id);
    t->optimizer->step = saved->step;
    t->saved_step = saved->step;
    t->saved_cursor = saved->cursor;
    if (saved->steps_total != t->state.steps_total && !trainer_ended(t))
        log_info("resume: %llu steps in all now, %llu before: the schedule is computed anew from the new total",
                 (unsigned long long)t->state.steps_total, (unsigned long long)saved->steps_total);
}

static enum status resume_load(struct trainer *t, const char *path) {
    struct trainer_state saved = {0};
    enum status status;
    TRY_GOTO(checkpoint_load(&t->arenas, &saved, &t->table, path), done);
    TRY_GOTO(resume_differs(t, &saved, path), done);
    resume_adopt(t, &saved);
done:
    trainer_state_release(&saved);
    return status;
}

static enum status resume_event(struct trainer *t, const char *path, const struct checkpoint_choice *choice) {
    log_info("resume: step %llu from %s (%s before)", (unsigned long long)t->state.step, path, t->previous.ended);
    event_begin(&t->events, "resume");
    event_integer(&t->events, "step", (int64_t)t->state.step);
    event_integer(&t->events, "cursor", (int64_t)t->state.cursor);
    event_integer(&t->events, "epoch", (int64_t)t->state.epoch);
    event_string(&t->events, "checkpoint", path);
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

// After a path from elsewhere the best checkpoint may not be in this run's folder. If it is the one we came from, it is
// saved here again; else the best is found anew.
static enum status resume_best(struct trainer *t) {
    char *best = text_format("%s/step-%08llu", t->job->checkpoints.dir, (unsigned long long)t->state.best_step);
    bool asked = best && t->comm->rank == 0 && t->state.best_step != 0;
    uint32_t missing = asked && checkpoint_verify(best) != STATUS_OK;
    if (missing)
        log_warn("resume: the best checkpoint, of step %llu, can't be used: %s", (unsigned long long)t->state.best_step,
                 status_message());
    free(best);
    TRY(comm_flags(t->comm, &missing));
    if (!missing)
        return STATUS_OK;
    if (t->state.best_step == t->state.step) {
        t->saved_step = t->saved_cursor = UINT64_MAX;
        return t->look ? STATUS_OK : save_now(t);
    }
    log_warn("resume: the best is found anew from step %llu on", (unsigned long long)t->state.step);
    t->state.best_step = 0;
    t->best_lost = true;
    return STATUS_OK;
}

enum status resume_open(struct trainer *t) {
    struct checkpoint_choice choice;
    char *path = NULL;
    enum status status;
    TRY(resume_describe(t));
    TRY(comm_same(t->comm, t->state.config_hash, sizeof t->state.config_hash, "the job"));
    TRY_GOTO(comm_agree(t->comm, resume_choose(t, &choice)), done);
    TRY_GOTO(resume_tell(t, &path, &choice), done);
    if (!*path) {
        status = resume_fresh(t);
        goto done;
    }
    TRY_GOTO(comm_agree(t->comm, resume_load(t, path)), done);
    t->from = path;
    path = NULL;
    TRY_GOTO(resume_complete(t), done);
    TRY_GOTO(resume_best(t), done);
    status = t->comm->rank == 0 && !t->complete ? resume_event(t, t->from, &choice) : STATUS_OK;
done:
    checkpoint_choice_release(&choice);
    free(path);
    return status;
}
