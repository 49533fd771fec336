// SPDX-License-Identifier: Apache-2.0
// The stages of train_step for a trace (base/trace.h); without one a stage costs a branch.
#ifndef FINETUNED_TRAIN_STAGE_H
#define FINETUNED_TRAIN_STAGE_H

#include "base/pulse.h"
#include "base/trace.h"
#include "train/trainer.h"

enum stage {
    STAGE_NONE,
    STAGE_DATA,    // the plan, packing, checks
    STAGE_UPDATE,  // AdamW, of the step before
    STAGE_FORWARD, // by layer
    STAGE_LOSS,
    STAGE_BACKWARD, // by layer
    STAGE_REDUCE,   // sums over micro-batches and ranks
    STAGE_NORM,
    STAGE_AGREE, // loss and signals of all ranks
    STAGES
};
extern const char *const stage_names[TRACE_STAGES];

// As a watcher sees them.
extern const enum pulse_operation stage_pulses[STAGES];

static inline void stage(const struct trainer *trainer, enum stage begins) {
    pulse_set(stage_pulses[begins]);
    if (trainer->trace)
        trace_stage(trainer->trace, begins);
}

#endif
