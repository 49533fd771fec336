// SPDX-License-Identifier: Apache-2.0
// A gradient handed over as values alone.
#ifndef FINETUNED_TESTS_OPTIM_SUPPORT_H
#define FINETUNED_TESTS_OPTIM_SUPPORT_H

#include "optim/optimizer.h"
#include "optim/state.h"

static inline double norm_of(struct optimizer *optimizer, const float *values) {
    return optimizer_norm(optimizer, &(struct gradient){.values = values});
}

static inline double step_of(struct optimizer *optimizer, const float *values, double norm) {
    return optimizer_step(optimizer, &(struct gradient){.values = values}, norm);
}

#endif
