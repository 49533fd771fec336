// SPDX-License-Identifier: Apache-2.0
#include "train/progress.h"

#include "base/clock.h"

#include <unistd.h>

static uint64_t steps_left(const struct trainer *t) {
    uint64_t done = t->job->train.max_steps ? t->state.step : t->state.cursor;
    return t->state.steps_total > done ? t->state.steps_total - done : 0;
}

static void progress_line(const struct trainer *t, const struct step_result *r, double seconds) {
    double rate = (double)t->meter.tweets / seconds;
    double left = (double)steps_left(t) * t->plan.batch / rate;
    log_progress("step %llu/%llu, epoch %llu: loss %.4f, lr %.3g, norm %.3f, %.1f %s/s, %.0f tokens/s, %d:%02d left",
                 (unsigned long long)r->step, (unsigned long long)t->state.steps_total, (unsigned long long)r->epoch,
                 r->loss, r->lr, r->norm, rate, t->inputs.config.head == HEAD_QUESTION_ANSWERING ? "windows" : "tweets",
                 (double)t->meter.tokens / seconds, (int)left / 60, (int)left % 60);
}

static void progress_samples(struct trainer *t, const struct step_result *r) {
    text_puts(&t->events.line, ", \"samples\": [");
    for (uint32_t i = 0; i < r->examples; i++)
        text_printf(&t->events.line, i ? ", %u" : "%u", r->samples[i]);
    text_puts(&t->events.line, "]");
}

static enum status progress_event(struct trainer *t, const struct step_result *r, double seconds) {
    event_begin(&t->events, "step");
    event_integer(&t->events, "step", (int64_t)r->step);
    event_integer(&t->events, "epoch", (int64_t)r->epoch);
    event_number(&t->events, "loss", r->loss);
    event_number(&t->events, "lr", r->lr);
    event_number(&t->events, "grad_norm", r->norm);
    event_number(&t->events, "tweets_per_s", (double)t->meter.tweets / seconds);
    event_number(&t->events, "tokens_per_s", (double)t->meter.tokens / seconds);
    event_number(&t->events, "flops_share", t->meter.flops / seconds / t->peak_flops);
    if (t->job->log.samples)
        progress_samples(t, r);
    return event_end(&t->events);
}

static enum status progress_board(struct trainer *t, const struct step_result *r, double seconds) {
    const struct tensorboard_scalar scalars[] = {
        {"train/loss", r->loss},
        {"train/lr", r->lr},
        {"train/grad_norm", r->norm},
        {"train/tweets_per_s", (double)t->meter.tweets / seconds},
        {"train/tokens_per_s", (double)t->meter.tokens / seconds},
        {"train/flops_share", t->meter.flops / seconds / t->peak_flops},
    };
    return tensorboard_write(&t->board, r->step, scalars, sizeof scalars / sizeof *scalars);
}

enum status progress_step(struct trainer *t, const struct step_result *r) {
    t->meter.tweets += r->examples;
    t->meter.tokens += r->tokens;
    t->meter.flops += r->flops;
    t->total.tweets += r->examples;
    t->total.tokens += r->tokens;
    t->steps_done++;
    if (r->step % (uint64_t)t->job->log.every != 0)
        return STATUS_OK;
    double now = clock_seconds(), seconds = now - t->meter.since;
    seconds = seconds > 1e-9 ? seconds : 1e-9;
    progress_line(t, r, seconds);
    enum status status = progress_event(t, r, seconds);
    if (status == STATUS_OK)
        status = progress_board(t, r, seconds);
    t->meter = (struct meter){.since = now};
    return status;
}
