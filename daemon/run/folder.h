// SPDX-License-Identifier: Apache-2.0
// A run's folder as report shows it: how far the run is, its report, its job.
#ifndef FINETUNED_DAEMON_RUN_FOLDER_H
#define FINETUNED_DAEMON_RUN_FOLDER_H

#include "base/job.h"
#include "base/text.h"
#include "daemon/flags.h"

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

// Whether a run has begun there.
bool run_folder_is_there(const char *folder);
// Whether a job's out is this folder, wherever links lead. One that was moved or copied holds the job of where it was.
bool run_folder_is_out(const char *folder, const struct job *job);
// The run's folder whose job.yaml `file` is (malloc'ed), where that job's out is another folder; else NULL.
char *run_folder_moved(const char *file, const struct job *job);
// Adds the flags, quoted for a shell, that take the run of a job to `folder`, --out and what it kept below its old out:
// " --out F --checkpoints.dir F/ck"; of the latter, where `given` (NULL: nothing) has it, as it is in `job`. False:
// nothing but --out lacks.
bool run_folder_moved_flags(struct text *out, const struct job *then, const char *folder, const struct job_words *given,
                            const struct job *job);
// Adds the command that goes on in the folder, whatever out its job has (NULL: there is none).
void run_folder_command(struct text *out, const char *folder, const struct job *then);
// STATUS_USAGE, with the command that serves: the words' job file was written by a run for its own out, is started for
// another one, and what was kept below the old one would be trained on there; or the run in the job's out was moved
// there with its checkpoints, and they are not where the job has them.
enum status run_folder_check_moved(const struct job *job, const struct job_words *words);

// Progress of a run that has not ended, and its report, as Markdown.
void run_folder_markdown(struct text *out, const struct run_folder *run);
// {"folder", "finished", "progress", "report"}; json_decref it, NULL without memory.
json_t *run_folder_json(const struct run_folder *run);

// Scores of the best model on a split as an object of numbers; of a run without a report the last evaluation's. NULL:
// none. json_decref it.
json_t *run_folder_scores(const struct run_folder *run, const char *split);

#endif
