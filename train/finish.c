// SPDX-License-Identifier: Apache-2.0
// After the last step: the best model, its scores, the last event.
#include "train/trainer.h"

#include "base/clock.h"
#include "train/report_sums.h"

#include <string.h>

static char *finish_path(const struct trainer *t) {
    return text_format("%s/step-%08llu", t->job->checkpoints.dir, (unsigned long long)t->state.best_step);
}

// A best checkpoint that another run wrote is not ours to publish: ours is lost. Rank 0 looks.
static enum status finish_ours(struct trainer *t) {
    uint32_t foreign = 0;
    char *path = t->comm->rank == 0 && t->state.best_step != t->state.step ? finish_path(t) : NULL;
    if (path && t->state.best_step != 0 && resume_is_ours(t, path) == STATUS_DATA) {
        log_warn("%s", status_message());
        foreign = 1;
    }
    free(path);
    TRY(comm_flags(t->comm, &foreign));
    if (foreign) {
        t->state.best_step = 0;
        t->best_lost = true;
    }
    return STATUS_OK;
}

// The best model's weights, from its checkpoint where the run has gone on since.
static enum status finish_best(struct trainer *t) {
    struct trainer_state best = {0};
    struct checkpoint_arenas arenas = {.weights = t->arenas.weights};
    if (t->state.best_step == 0 && t->best_lost) {
        log_warn("the best checkpoint is lost and no evaluation came after it: the model of step %llu stands in for it",
                 (unsigned long long)t->state.step);
        t->state.best_step = t->state.step;
    }
    if (t->state.best_step == 0) {
        t->diverged = true;
        return status_set(
            STATUS_DATA,
            "%s: no evaluation on val had a finite loss, so there is no best model: the run has diverged; "
            "lower train.lr, set train.clip, or check the base model",
            t->job->out);
    }
    save_current(t);
    if (t->state.best_step == t->state.step)
        return STATUS_OK;
    char *path = finish_path(t);
    enum status status =
        path ? checkpoint_load(&arenas, &best, &t->table, path) : status_set(STATUS_SYSTEM, "trainer: no memory");
    if (status == STATUS_OK && strcmp(best.run_id, t->state.run_id) != 0)
        status = status_set(STATUS_DATA, "%s has become another run's", path);
    if (status == STATUS_OK) {
        optimizer_copy(t->optimizer);
        t->weights_step = best.step;
        t->weights_epoch = best.epoch;
    }
    trainer_state_release(&best);
    free(path);
    return status;
}

static enum status finish_evaluate(struct trainer *t, struct evaluation out[SPLITS]) {
    for (int split = SPLIT_VAL; split <= SPLIT_TEST; split++)
        if (t->inputs.shards[split].n) {
            enum status status = evaluate_split(t, (enum source_split)split, &out[split]);
            if (status == STATUS_AGAIN && t->stop_signal)
                return boundary_given_up(t, "while the best model was scored");
            TRY(status);
        }
    return STATUS_OK;
}

// Moments and gradients go before the exports, which open each artifact beside the weights to check it: what is needed
// then is no more than training needed.
static void finish_release(struct trainer *t) {
    optimizer_close(t->optimizer);
    buckets_close(t->buckets);
    t->optimizer = NULL;
    t->buckets = NULL;
    t->arenas.exp_avg = t->arenas.exp_avg_sq = NULL;
}

enum status trainer_finish(struct trainer *t, bool report) {
    pulse_set(PULSE_FINISH);
    // The weights in memory are the last step's, also of a run that was complete before.
    if (report && t->state.best_step != t->state.step)
        TRY(finish_evaluate(t, t->last));
    TRY(finish_ours(t));
    TRY(comm_agree(t->comm, finish_best(t)));
    finish_release(t);
    TRY(finish_evaluate(t, t->best));
    if (!report || !t->best[SPLIT_TEST].there)
        return STATUS_OK;
    return comm_agree(t->comm, evaluate_event(t, SPLIT_TEST, &t->best[SPLIT_TEST]));
}

enum status trainer_end_event(struct trainer *t) {
    double official;
    if (t->events.fd < 0)
        return STATUS_OK;
    evaluation_official(t, &t->best[SPLIT_VAL], &official);
    event_begin(&t->events, "end");
    event_integer(&t->events, "step", (int64_t)t->state.step);
    event_integer(&t->events, "epoch", (int64_t)t->state.epoch);
    text_printf(&t->events.line, ", \"best\": {\"step\": %llu, \"official\": ", (unsigned long long)t->state.best_step);
    json_number_add(&t->events.line, official);
    text_puts(&t->events.line, "}, \"report\": ");
    TRY(report_sums_print(&t->events.line, t->job->out));
    event_number(&t->events, "seconds", clock_seconds() - t->started);
    return event_end(&t->events);
}
