// SPDX-License-Identifier: Apache-2.0
// What the files of verify share: lines of the list, and what a run's events say of its other files.
#ifndef FINETUNED_DAEMON_VERIFY_PARTS_H
#define FINETUNED_DAEMON_VERIFY_PARTS_H

#include "base/job.h"
#include "checkpoints/checkpoint.h"
#include "daemon/verify/verify.h"
#include "train/history.h"

#include <jansson.h>
#include <stdbool.h>

// ---- verify_items.c: names are below v->path

enum status verify_no_memory(const struct verify *v);
bool verify_there(const struct verify *v, const char *name);
enum status verify_note(struct verify *v, const char *name, const char *text);
// A line; `status` and this thread's message are what was found.
enum status verify_add(struct verify *v, const char *name, const char *kind, enum status status,
                       enum verify_depth depth);
// The same; but what is gone meanwhile is only noted, and what is neither damage nor unreadable ends the whole.
enum status verify_found(struct verify *v, const char *name, const char *kind, enum status status,
                         enum verify_depth depth);
// One thing by its kind.
enum status verify_found_one(struct verify *v, const char *name, enum inspect_kind kind);
// A line only if what should be there is not. `why`: what tells of it.
enum status verify_lacks(struct verify *v, const char *name, const char *kind, const char *why);

// ---- verify_events.c

// What a run's own files say of the others.
struct verify_told {
    struct job *job;              // of job.yaml; NULL: it can't be read
    json_t *exports;              // the SHA-256 of each file that an export made, by its name; later exports come later
    struct history_report report; // of the last `end`
    bool resumed;                 // the next `start` goes on
    bool ended;                   // nothing came after the run's end
    uint64_t end_step;            // of the last `end`
    uint64_t saved_step;          // of the last checkpoint since the last start; 0: none
    char run_id[33];              // of a finished run's report.json; "": not known
    struct trainer_state newest;  // of the newest checkpoint, if it is this run's; its step is 0 else
};
// Lines for the run's files of events.
enum status verify_events(struct verify *v, struct verify_told *told);

// ---- verify_checkpoints.c

// A line for each checkpoint of a folder, and for the links. `told` NULL: no run is known.
enum status verify_checkpoints(struct verify *v, struct verify_told *told, const char *folder);
// The same of the run's, wherever job.yaml has them; and what of them is missing.
enum status verify_checkpoints_of_run(struct verify *v, struct verify_told *told);

// ---- verify_exports.c

// A line for the model and each artifact, and for what is missing of those that the job asks for. Folders and files of
// others are noted.
enum status verify_exports(struct verify *v, const struct verify_told *told);

// ---- verify_folder.c

#define VERIFY_FINISHED "a finished run has it"

// Each name of a folder below the run's.
enum status verify_each(struct verify *v, const char *folder, const char *kind, const struct verify_told *told,
                        enum status (*look)(struct verify *v, const struct verify_told *told, const char *name));
enum status verify_shards(struct verify *v);
// Whether a file is a JSON object.
enum status verify_json(const char *path);

// ---- verify_sweep.c: a line for each run, the table and shards.

enum status verify_sweep(struct verify *v);

#endif
