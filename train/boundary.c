// SPDX-License-Identifier: Apache-2.0
// What happens between two steps, in this order: end if a folder is lost, progress or skip, commit what is written,
// evaluate, save, stop. All ranks take the same way.
#include "base/hash.h"
#include "train/folder.h"
#include "train/progress.h"
#include "train/stop.h"
#include "train/trainer.h"

#include <math.h>

#define SKIPS_MAX 3 // not finite this often in a row: the run has diverged

#define STOP_MESSAGE 1024 // bytes of an error that an event takes

// `message` NULL: the reason says it all.
static enum status stop_event(struct trainer *t, const char *reason, int exit_code, const char *message) {
    event_begin(&t->events, "stop");
    event_integer(&t->events, "step", (int64_t)t->state.step);
    if (t->state.epoch)
        event_integer(&t->events, "epoch", (int64_t)t->state.epoch);
    event_string(&t->events, "reason", reason);
    event_integer(&t->events, "exit", exit_code);
    if (t->stop_signal)
        event_string(&t->events, "signal", stop_name(t->stop_signal));
    if (message)
        event_string(&t->events, "message", message);
    t->end = TRAINER_STOPPED;
    return event_end(&t->events);
}

void trainer_fail(struct trainer *t, enum status status) {
    char message[STOP_MESSAGE];
    snprintf(message, sizeof message, "%s", status_message());
    bool ours = t->events.fd >= 0 && !owner_lost(t->owners[0]); // else another's file stands there
    if (ours && t->started > 0 && t->end != TRAINER_STOPPED &&
        stop_event(t, t->diverged ? "nonfinite" : "error", status_exit_code(status), message) != STATUS_OK)
        log_warn("events: the stop event could not be written");
}

static bool skips_end(const struct trainer *t) {
    return t->state.skips_in_a_row >= SKIPS_MAX;
}

static enum status boundary_skip(struct trainer *t, const struct step_result *r) {
    char reason[96];
    snprintf(reason, sizeof reason, "not finite: loss %g, gradient norm %g", r->loss, r->norm);
    log_warn("skip: batch %llu after step %llu: %s", (unsigned long long)r->cursor, (unsigned long long)r->step,
             reason);
    event_begin(&t->events, "skip");
    event_integer(&t->events, "step", (int64_t)r->step);
    event_integer(&t->events, "cursor", (int64_t)r->cursor);
    event_string(&t->events, "reason", reason);
    TRY(event_end(&t->events));
    if (!skips_end(t))
        return STATUS_OK;
    t->diverged = true;
    TRY(stop_event(t, "nonfinite", 65, NULL));
    return status_set(
        STATUS_DATA,
        "step %llu: %u batches in a row were not finite (%s): the run has diverged; lower train.lr, set train.clip, or "
        "check the base model",
        (unsigned long long)r->step, SKIPS_MAX, reason);
}

static bool at_epoch_end(const struct trainer *t) {
    return t->state.cursor % plan_batches(&t->plan) == 0;
}

static bool each(int64_t every, const struct trainer *t, const struct step_result *r) {
    return every && !r->skipped && t->state.step % (uint64_t)every == 0;
}

// At each epoch's end, or each train.eval_every steps; and at the run's end, unless these weights just were evaluated.
static bool evaluation_due(const struct trainer *t, const struct step_result *r) {
    int64_t every = t->job->train.eval_every;
    if (t->state.step == 0)
        return false;
    if (!every)
        return at_epoch_end(t) || trainer_ended(t);
    return each(every, t, r) || (trainer_ended(t) && t->state.step % (uint64_t)every != 0);
}

// Besides those of checkpoints.every.
static bool save_due(const struct trainer *t, bool better) {
    return better || (t->state.step > 0 && (at_epoch_end(t) || trainer_ended(t)));
}

static enum status boundary_save(struct trainer *t, const struct step_result *r, bool better) {
    bool periodic = t->state.step > 0 && each(t->job->checkpoints.every, t, r);
    return save_due(t, better) ? save_now(t) : save_periodic(t, periodic);
}

// What the same job lacks to go on from the newest checkpoint.
static const char *onwards(const struct trainer *t) {
    return strcmp(t->job->checkpoints.resume, "auto") == 0 ? "" : " with checkpoints.resume: auto";
}

enum status boundary_differs(const struct trainer *t, int other, const char *what) {
    return status_set(STATUS_AGAIN,
                      "after step %llu rank %d has another %s than rank 0: a message was corrupted on its way, or its "
                      "processor or memory is at fault; start the same job again%s to go on from the newest checkpoint",
                      (unsigned long long)t->state.step, other, what, onwards(t));
}

uint64_t boundary_hash(double a, double b) {
    double values[2] = {isfinite(a) ? a : 0, isfinite(b) ? b : 0};
    return hash64(values, sizeof values) + (isfinite(a) ? 1 : 0) + (isfinite(b) ? 2 : 0);
}

// What the best model and an early stop are decided by.
static enum status boundary_same(struct trainer *t, double score, double loss) {
    uint32_t none = 0;
    int other;
    TRY(comm_flags_check(t->comm, &none, boundary_hash(score, loss), &other));
    return other < 0 ? STATUS_OK : boundary_differs(t, other, "score of an evaluation");
}

enum status boundary_evaluate(struct trainer *t, bool *better) {
    struct evaluation val;
    *better = false;
    t->state.evaluation_due = 1;
    enum status status = evaluate_split(t, SPLIT_VAL, &val);
    if (status == STATUS_AGAIN && t->stop_signal)
        return STATUS_OK; // it stays due, and the run stops
    TRY(status);
    t->state.evaluation_due = 0;
    double score = evaluate_score(t, &val);
    if (!isfinite(val.loss))
        log_warn("eval val: step %llu: the loss is not finite, so this model can't be the best",
                 (unsigned long long)t->state.step);
    TRY_GOTO(boundary_same(t, score, val.loss), done);
    *better = score == score && (t->state.best_step == 0 || score > t->state.best_metric);
    t->state.evaluations_without_gain = *better ? 0 : t->state.evaluations_without_gain + 1;
    if (*better) {
        t->state.best_step = t->state.step;
        t->state.best_metric = score;
    }
    status = comm_agree(t->comm, evaluate_event(t, SPLIT_VAL, &val));
done:
    evaluation_release(&val);
    return status;
}

static enum status boundary_stop(struct trainer *t) {
    char why[64];
    if (t->stop_signal)
        snprintf(why, sizeof why, "%s", stop_name(t->stop_signal));
    else
        snprintf(why, sizeof why, "train.max_time (%g s)", t->job->train.max_time);
    TRY(save_now(t));
    TRY(save_wait(t));
    TRY(stop_event(t, t->stop_signal ? "signal" : "time", 75, NULL));
    return status_set(STATUS_AGAIN,
                      "stopped by %s after step %llu with a checkpoint: start the same job again%s to go on", why,
                      (unsigned long long)t->state.step, onwards(t));
}

enum status boundary_due(struct trainer *t) {
    bool better;
    if (!t->state.evaluation_due || t->complete)
        return STATUS_OK;
    log_info("resume: step %llu is evaluated first: that is still due", (unsigned long long)t->state.step);
    TRY(boundary_evaluate(t, &better));
    if (t->state.evaluation_due)
        return boundary_stop(t);
    t->saved_step = t->saved_cursor = UINT64_MAX; // what is saved lacks what came of it
    t->end = trainer_ended(t) ? TRAINER_FINISHED : TRAINER_RUNNING;
    return save_now(t);
}

enum status boundary_asked(struct trainer *t, const char *when) {
    uint32_t flags = stop_flags(false) | folder_flags(t);
    TRY(comm_flags(t->comm, &flags));
    folder_told(t, flags);
    if (t->folder_lost)
        return folder_given_up(t);
    t->stop_signal = stop_flags_signal(flags);
    return t->stop_signal ? boundary_given_up(t, when) : STATUS_OK;
}

enum status boundary_given_up(struct trainer *t, const char *when) {
    if (t->started > 0)
        TRY(comm_agree(t->comm, stop_event(t, "signal", 75, NULL)));
    return status_set(STATUS_AGAIN, "stopped by %s %s: start the same job again", stop_name(t->stop_signal), when);
}

enum status trainer_boundary(struct trainer *t, const struct step_result *r) {
    bool better = false;
    if (t->folder_lost)
        return folder_given_up(t);
    if (r->differs >= 0)
        return boundary_differs(t, r->differs, "loss or gradient norm");
    t->state.epoch = r->epoch;
    t->weights_step = t->state.step;
    t->weights_epoch = t->state.epoch;
    if (skips_end(t)) // the state before them is good
        TRY(save_wait(t));
    TRY(comm_agree(t->comm, r->skipped ? boundary_skip(t, r) : progress_step(t, r)));
    TRY(save_written(t));
    if (evaluation_due(t, r))
        TRY(boundary_evaluate(t, &better));
    TRY(boundary_save(t, r, better));
    return t->stop_signal || t->stop_time ? boundary_stop(t) : STATUS_OK;
}
