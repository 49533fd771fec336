// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedules, as transformers.get_scheduler: multiplier(s) scales the rate of the (s+1)-th update.
#ifndef FINETUNED_OPTIM_SCHEDULE_H
#define FINETUNED_OPTIM_SCHEDULE_H

#include <stdint.h>

enum schedule_kind { SCHEDULE_LINEAR, SCHEDULE_COSINE, SCHEDULE_CONSTANT, SCHEDULE_POLYNOMIAL }; // as enum job_schedule

struct schedule {
    enum schedule_kind kind;
    double base_lr;
    uint64_t warmup; // steps
    uint64_t total;  // steps
    double power;    // polynomial: 1.0
    double lr_end;   // polynomial: 1e-7
    double cycles;   // cosine: 0.5
};

double schedule_multiplier(const struct schedule *schedule, uint64_t step);
double schedule_lr(const struct schedule *schedule, uint64_t step); // base_lr * multiplier

// warmup < 1: a share of all steps, rounded up (as Transformers' warmup_ratio); >= 1: steps.
uint64_t schedule_warmup_steps(double warmup, uint64_t total);

#endif
