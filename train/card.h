// SPDX-License-Identifier: Apache-2.0
// What a model card says of a model's training: scores by class, data, settings, versions. No clock and no host in it:
// the same run gives the same bytes.
#ifndef FINETUNED_TRAIN_CARD_H
#define FINETUNED_TRAIN_CARD_H

#include "train/trainer.h"

// Markdown, sections from "## " on. Of the best model, after trainer_finish.
void card_of_run(struct text *out, const struct trainer *trainer);
// Of a checkpoint, whose scores are not known.
void card_of_checkpoint(struct text *out, const struct trainer_state *state);

// The base's name without the folders above it; NULL for a random: model. malloc'ed.
char *card_base(const struct job *job);

#endif
