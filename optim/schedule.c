// SPDX-License-Identifier: Apache-2.0
// Formulas: transformers/optimization.py (get_linear_schedule_with_warmup and its siblings). Behind `total` the cosine
// stays where it ended instead of climbing again.
#include "optim/schedule.h"

#include <math.h>

static double steps(uint64_t n) {
    return (double)n;
}

static uint64_t at_least_one(uint64_t n) {
    return n > 0 ? n : 1;
}

// The share of the steps between warm-up and end that is done at `step` >= warmup: 0 … 1.
static double progress(const struct schedule *s, uint64_t step) {
    uint64_t span = s->total > s->warmup ? s->total - s->warmup : 1;
    double share = steps(step - s->warmup) / steps(span);
    return share < 1 ? share : 1;
}

static double linear(const struct schedule *s, uint64_t step) {
    if (step >= s->total)
        return 0;
    return steps(s->total - step) / steps(at_least_one(s->total - s->warmup));
}

static double cosine(const struct schedule *s, uint64_t step) {
    double value = 0.5 * (1 + cos(M_PI * s->cycles * 2 * progress(s, step)));
    return value > 0 ? value : 0;
}

static double polynomial(const struct schedule *s, uint64_t step) {
    if (step >= s->total || s->base_lr == 0)
        return s->base_lr == 0 ? 0 : s->lr_end / s->base_lr;
    double decayed = (s->base_lr - s->lr_end) * pow(1 - progress(s, step), s->power) + s->lr_end;
    return decayed / s->base_lr;
}

double schedule_multiplier(const struct schedule *s, uint64_t step) {
    if (step < s->warmup)
        return steps(step) / steps(at_least_one(s->warmup));
    switch (s->kind) {
    case SCHEDULE_LINEAR:
        return linear(s, step);
    case SCHEDULE_COSINE:
        return cosine(s, step);
    case SCHEDULE_POLYNOMIAL:
        return polynomial(s, step);
    case SCHEDULE_CONSTANT:
        break;
    }
    return 1;
}

double schedule_lr(const struct schedule *schedule, uint64_t step) {
    return schedule->base_lr * schedule_multiplier(schedule, step);
}

uint64_t schedule_warmup_steps(double warmup, uint64_t total) {
    if (!(warmup > 0))
        return 0;
    if (warmup < 1)
        return (uint64_t)ceil(warmup * steps(total));
    return warmup < 0x1p63 ? (uint64_t)warmup : UINT64_MAX / 2;
}
