// SPDX-License-Identifier: Apache-2.0
// events.jsonl read back: how far a run is, how it ended, and its evaluations. After a `resume` at step S what came
// with a step above S is superseded; after a `start` with no `resume` before it, all that came before. Of several
// evaluations of one split at one step, which are of the same weights, the last one counts.
#ifndef FINETUNED_TRAIN_HISTORY_H
#define FINETUNED_TRAIN_HISTORY_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_MAX ((size_t)1 << 31)      // bytes of an events file that is read back
#define HISTORY_LINE_MAX ((size_t)1 << 24) // bytes of a line that can be an event: a step's samples may be many

struct history_evaluation {
    char split[8];
    uint64_t epoch, step;
    double loss, value;
    char official[40]; // the name of `value`
};

// Which rank a `stop` event names.
struct history_lost {
    int64_t rank; // -1: none
    char host[256], operation[40];
};

#define REPORT_JSON "report.json"
#define REPORT_MARKDOWN "report.md"

// The SHA-256 of the report's two files; "": not told.
struct history_report {
    char json[65], markdown[65];
};

#define HISTORY_EXPORTS 8

// What an export made since the last step: of each kind the newest.
struct history_export {
    char kind[16], name[256]; // the file's or folder's name
    char sha256[65];          // of the file; of model.safetensors for a model; "": not told
};
struct history_exports {
    struct history_export at[HISTORY_EXPORTS];
    size_t n;
};

struct history {
    bool any;         // there is an event
    uint64_t broken;  // whole lines that are no events; blank ones do not count
    uint64_t first;   // the first of them, from 1
    uint64_t starts;  // `start` events
    double began, at; // time of the first and of the last event
    double active;    // seconds between each start and its last event, added up
    uint64_t step, epoch, steps_total;
    uint64_t world;               // ranks of the last start
    double loss, tweets_per_s;    // of the last step event; NaN: none
    char ended[64];               // "end", "stop: signal", … or "no stop event"
    struct history_lost lost;     // of a `stop` event that ended it
    uint64_t end_step;            // of the last `end` event; 0: none
    struct history_report report; // of that event
    uint64_t saved_step;          // of the newest checkpoint that is told of; 0: none
    struct history_exports exports;
    char data_hash[33], base_hash[33]; // of the last `start` event
    struct history_evaluation *evaluations;
    size_t n, room;
    // internal
    double start;
    bool resumed; // the next `start` goes on
};

// `whole`: how many of the bytes are whole lines; what follows is a line that a crash cut. Lines that are no events are
// passed over.
enum status history_parse(struct history *out, size_t *whole, const char *bytes, size_t size);
// Logs that there are lines which are no events, if there are.
void history_warn(const struct history *history, const char *path);
// <folder>/events.jsonl; nothing (any false) if it is not there. STATUS_DATA: it has lines, and none
// is an event.
enum status history_read(struct history *out, const char *folder);
// What an `end` event says of the report.
void history_end_report(struct history_report *out, const json_t *event);
// That of a kind; NULL: there is none.
const struct history_export *history_exported(const struct history_exports *exports, const char *kind);
void history_release(struct history *history);

#endif
