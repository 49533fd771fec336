// SPDX-License-Identifier: Apache-2.0
// <out>/events.jsonl: one JSON object a line, written by rank 0 with one write, at once. Keys as in docs/formats.md.
#ifndef FINETUNED_TRAIN_EVENTS_H
#define FINETUNED_TRAIN_EVENTS_H

#include "base/markup.h"
#include "base/status.h"
#include "base/text.h"
#include "checkpoints/owner.h"
#include "train/history.h"

#include <stdbool.h>
#include <stdint.h>

struct events {
    int fd; // -1: this rank writes none
    char *path;
    struct owner *owner; // of its folder: nothing is written into one that is lost (STATUS_AGAIN); NULL: not asked
    uint64_t size;       // of the file, as we left it
    struct text line;
};

// How the run before ended, read from the file's last lines.
struct events_previous {
    bool any;       // there was a run before
    uint64_t step;  // last step that an event names
    char ended[64]; // "end", "stop: signal", … or "no stop event"
    double at;      // time of the last event; 0: none
    struct history_lost lost;
    uint64_t end_step, saved_step; // as in struct history, as are the next
    struct history_report report;
    struct history_exports exports;
};

// Opens for append; a half line left by a crash is cut. `writes`: false on ranks above 0.
enum status events_open(struct events *events, struct events_previous *previous, const char *out, bool writes,
                        struct owner *owner);
// How the run before ended; nothing is changed.
enum status events_look(struct events_previous *previous, const char *out);
void events_close(struct events *events);

// A file that was removed, replaced or cut while the run goes on is gone on with (or made again), with a warning and a
// `gap` event first.
//
// One event: begin, any number of keys, end. Numbers have nine digits.
void event_begin(struct events *events, const char *name);
void event_integer(struct events *events, const char *key, int64_t value);
void event_number(struct events *events, const char *key, double value); // null if not finite
void event_string(struct events *events, const char *key, const char *value);
void event_raw(struct events *events, const char *key, const char *json); // ready-made JSON
enum status event_end(struct events *events);

// Seconds since 1970.
double events_now(void);

#endif
