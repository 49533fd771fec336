// SPDX-License-Identifier: Apache-2.0
// A run's folder as report shows it: how far the run is, its report, its job.
#ifndef FINETUNED_DAEMON_RUN_FOLDER_H
#define FINETUNED_DAEMON_RUN_FOLDER_H

#include "base/job.h"
#include "base/text.h"

#include <jansson.h>

struct run_folder {
    const char *path;
    struct job *job;  // NULL: there is no job.yaml
    json_t *progress; // {"finished", "step", "epoch", "steps_total", "ended", "loss", "tweets_per_s", "starts",
                      // "seconds", "history"}
    json_t *report;   // NULL: none was written yet
    bool finished;    // the report is of where the run is now
    uint64_t world;   // ranks of its last start; 0: not known
};

// STATUS_DATA: no run's folder.
enum status run_folder_open(struct run_folder *out, const char *path);
void run_folder_close(struct run_folder *run);

// Whether a job's out is this folder, wherever links lead. One that was moved or copied holds the job of where it was.
bool run_folder_is_out(const char *folder, const struct job *job);
// The run's folder whose job.yaml `file` is (malloc'ed), where that job's out is another folder; else NULL.
char *run_folder_moved(const char *file, const struct job *job);

// Progress of a run that has not ended, and its report, as Markdown.
void run_folder_markdown(struct text *out, const struct run_folder *run);
// {"folder", "finished", "progress", "report"}; json_decref it, NULL without memory.
json_t *run_folder_json(const struct run_folder *run);

// Scores of the best model on a split as an object of numbers; of a run without a report the last evaluation's. NULL:
// none. json_decref it.
json_t *run_folder_scores(const struct run_folder *run, const char *split);

#endif
