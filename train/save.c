// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

// Nothing non-finite is ever saved.
static enum status save_check(struct trainer *t) {
    const float *const arenas[] = {t->arenas.weights, t->arenas.exp_avg, t->arenas.exp_avg_sq};
    static const char *const names[] = {"weights", "first moments", "second moments"};
    for (int i = 0; i < 3; i++)
        if (!optimizer_finite(t->optimizer, arenas[i])) {
            t->diverged = true;
            return status_set(
                STATUS_DATA, "step %llu: the %s are not finite: the run has diverged; lower train.lr or set train.clip",
                (unsigned long long)t->state.step, names[i]);
        }
    return STATUS_OK;
}

static enum status save_event(struct trainer *t, const struct checkpoint_saved *saved) {
    log_info("checkpoint: %s (%.1f MiB in %.2f s)", saved->path, (double)saved->bytes / 1048576, saved->write_s);
    event_begin(&t->events, "checkpoint");
    event_integer(&t->events, "step", (int64_t)t->state.step);
    event_string(&t->events, "path", saved->path);
    event_integer(&t->events, "bytes", (int64_t)saved->bytes);
    event_number(&t->events, "held_s", saved->held_s);
    event_number(&t->events, "write_s", saved->write_s);
    return event_end(&t->events);
}

enum status save_now(struct trainer *t) {
    struct checkpoint_saved saved = {0};
    double begun = trainer_clock();
    if (t->saved_step == t->state.step && t->saved_cursor == t->state.cursor)
        return STATUS_OK;
    enum pulse_operation before = pulse_set(PULSE_SAVE);
    params_current(t->optimizer);
    TRY(save_check(t));
    TRY(checkpoint_save(&saved, t->comm, &t->checkpoints, &t->table, &t->arenas, &t->state));
    t->saved_step = t->state.step;
    t->saved_cursor = t->state.cursor;
    enum status status = t->comm->rank == 0 ? save_event(t, &saved) : STATUS_OK;
    free(saved.path);
    t->times.save += trainer_clock() - begun;
    pulse_set(before);
    return status;
}
