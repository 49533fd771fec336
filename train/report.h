// SPDX-License-Identifier: Apache-2.0
// report.json and report.md of a run that has ended; keys as in docs/formats.md.
#ifndef FINETUNED_TRAIN_REPORT_H
#define FINETUNED_TRAIN_REPORT_H

#include "train/trainer.h"

// After trainer_finish(…, true). Collective; rank 0 writes.
enum status report_write(const struct trainer *trainer);

// A split's scores as a JSON object, or null.
void report_split(struct text *json, const struct trainer *trainer, enum source_split split,
                  const struct evaluation *evaluation);

#endif
