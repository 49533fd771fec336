// SPDX-License-Identifier: Apache-2.0
// What a run makes when training has ended: its report, <out>/model, and an artifact for each kind of export.to.
#ifndef FINETUNED_DAEMON_RUN_EXPORT_H
#define FINETUNED_DAEMON_RUN_EXPORT_H

#include "train/trainer.h"

// A set: the report, the model directory, and RUN_MAKES_KIND << i for row i of exporters[].
enum { RUN_MAKES_REPORT = 1, RUN_MAKES_MODEL = 2, RUN_MAKES_KIND = 4 };

// Everything; of a run that was complete before, or was ended while it exported, only what is missing. Collective: rank
// 0 looks, all get its answer.
enum status run_missing(uint32_t *make, struct trainer *trainer);

// STATUS_DATA names what is missing of the files of a run that is complete, not looked into: reports, model, artifacts.
enum status run_check_outputs(const struct job *job);
// STATUS_OK: the run went to its end as this job asks it to, and its model is whole, file by file: the next start
// leaves <out>/model alone. Else why not.
enum status run_check_kept(const struct job *job);

// Makes the model directory and the artifacts of the set from the weights in memory. Collective; rank 0 works.
// STATUS_AGAIN: a signal came before the last of them.
enum status run_export(struct trainer *trainer, uint32_t make);

#endif
