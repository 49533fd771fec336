// SPDX-License-Identifier: Apache-2.0
// After the last step: the best model, its scores, the last event.
#include "train/trainer.h"

// The best model's weights, from its checkpoint where the run has gone on since.
static enum status finish_best(struct trainer *t) {
    struct trainer_state best = {0};
    struct checkpoint_arenas arenas = {.weights = t->arenas.weights};
    if (t->state.best_step == 0 && t->best_lost) {
        log_warn("the best checkpoint is lost and no evaluation came after it: the model of step %llu stands in for it",
                 (unsigned long long)t->state.step);
        t->state.best_step = t->state.step;
    }
    if (t->state.best_step == 0)
        return status_set(STATUS_DATA, "%s: no evaluation gave a score: there is no best model", t->job->out);
    params_current(t->optimizer);
    if (t->state.best_step == t->state.step)
        return STATUS_OK;
    char *path = text_format("%s/step-%08llu", t->job->checkpoints.dir, (unsigned long long)t->state.best_step);
    enum status status =
        path ? checkpoint_load(&arenas, &best, &t->table, path) : status_set(STATUS_SYSTEM, "trainer: no memory");
    if (status == STATUS_OK) {
        t->weights_step = best.step;
        t->weights_epoch = best.epoch;
    }
    trainer_state_release(&best);
    free(path);
    return status;
}

enum status trainer_best(struct trainer *t) {
    TRY(comm_agree(t->comm, finish_best(t)));
    return evaluate_split(t, SPLIT_VAL, &t->best_val, &t->best_val_loss);
}

enum status trainer_finish(struct trainer *t) {
    struct metrics metrics;
    double loss;
    TRY(evaluate_split(t, SPLIT_TEST, &metrics, &loss));
    enum status status = evaluate_event(t, SPLIT_TEST, &metrics, loss);
    if (status == STATUS_OK)
        status = report_write(t, &metrics, loss);
    metrics_close(&metrics);
    return comm_agree(t->comm, status);
}

enum status trainer_end_event(struct trainer *t) {
    event_begin(&t->events, "end");
    event_integer(&t->events, "step", (int64_t)t->state.step);
    event_integer(&t->events, "epoch", (int64_t)t->state.epoch);
    text_printf(&t->events.line, ", \"best\": {\"step\": %llu, \"official\": ", (unsigned long long)t->state.best_step);
    json_number_add(&t->events.line, metric_value(&t->best_val, metric_official(t->job->data.task)));
    text_puts(&t->events.line, "}");
    event_number(&t->events, "seconds", trainer_clock() - t->started);
    return event_end(&t->events);
}
