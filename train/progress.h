// SPDX-License-Identifier: Apache-2.0
// What a user sees while it trains: the step events, and a progress line with rate and time left.
#ifndef FINETUNED_TRAIN_PROGRESS_H
#define FINETUNED_TRAIN_PROGRESS_H

#include "train/trainer.h"

// Counts a step; every log.every steps an event and a line.
enum status progress_step(struct trainer *trainer, const struct step_result *result);

#endif
