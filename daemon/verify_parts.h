// SPDX-License-Identifier: Apache-2.0
// What the files of verify share: lines of the list, and what a run's events say of its other files.
#ifndef FINETUNED_DAEMON_VERIFY_PARTS_H
#define FINETUNED_DAEMON_VERIFY_PARTS_H

#include "daemon/verify.h"
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

// What the events say of the folder.
struct verify_told {
    json_t *exports;              // the SHA-256 of each file that an export made, by its name; later exports come later
    struct history_report report; // of the last `end`
    bool resumed;                 // the next `start` goes on
    bool ended;                   // nothing came after the run's end
};
// Lines for the run's files of events.
enum status verify_events(struct verify *v, struct verify_told *told);

// ---- verify_folder.c

enum status verify_shards(struct verify *v);
// Whether a file is a JSON object.
enum status verify_json(const char *path);

// ---- verify_sweep.c: a line for each run, the table and shards.

enum status verify_sweep(struct verify *v);

#endif
