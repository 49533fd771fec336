// SPDX-License-Identifier: Apache-2.0
#include "train/history.h"

#include "base/file.h"
#include "base/pulse.h"
#include "base/log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void take_count(uint64_t *out, const json_t *event, const char *key) {
    const json_t *value = json_object_get(event, key);
    if (json_is_integer(value) && json_integer_value(value) >= 0)
        *out = (uint64_t)json_integer_value(value);
}

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static void take_word(char *out, size_t room, const json_t *object, const char *key) {
    const char *word = json_string_value(json_object_get(object, key));
    snprintf(out, room, "%s", word ? word : "");
}

// What came up to now belongs to a start that has ended.
static void history_pause(struct history *h, double time) {
    h->active += h->start > 0 && time > h->start ? time - h->start : 0;
    h->start = 0;
}

// From step 0: what came before is not of this run.
static void history_afresh(struct history *h) {
    h->n = 0;
    h->step = h->epoch = h->end_step = h->saved_step = 0;
    h->report = (struct history_report){0};
    h->loss = h->tweets_per_s = (double)NAN;
    h->exports.n = 0;
}

static void history_export(struct history_exports *exports, const json_t *event) {
    struct history_export e;
    const char *path = json_string_value(json_object_get(event, "path")), *slash = path ? strrchr(path, '/') : NULL;
    take_word(e.kind, sizeof e.kind, event, "kind");
    take_word(e.sha256, sizeof e.sha256, event, "sha256");
    snprintf(e.name, sizeof e.name, "%s", slash ? slash + 1 : path ? path : "");
    size_t i = 0;
    while (i < exports->n && strcmp(exports->at[i].kind, e.kind) != 0)
        i++;
    if (i < HISTORY_EXPORTS)
        exports->at[i] = e;
    exports->n += i == exports->n && i < HISTORY_EXPORTS;
}

const struct history_export *history_exported(const struct history_exports *exports, const char *kind) {
    for (size_t i = 0; i < exports->n; i++)
        if (strcmp(exports->at[i].kind, kind) == 0)
            return &exports->at[i];
    return NULL;
}

static void history_start(struct history *h, const json_t *event) {
    history_pause(h, h->at);
    if (!h->resumed)
        history_afresh(h);
    h->resumed = false;
    h->starts++;
    double time = number(event, "time");
    h->start = time == time ? time : 0;
    take_count(&h->steps_total, event, "steps_total");
    take_count(&h->world, event, "world");
    take_word(h->data_hash, sizeof h->data_hash, json_object_get(event, "data"), "hash");
    take_word(h->base_hash, sizeof h->base_hash, event, "base_hash");
}

static void history_resume(struct history *h, const json_t *event) {
    uint64_t step = 0;
    size_t kept = 0;
    history_pause(h, h->at);
    take_count(&step, event, "step");
    h->resumed = true;
    if (step < h->step) // to be trained again
        h->exports.n = 0;
    for (size_t i = 0; i < h->n; i++)
        if (h->evaluations[i].step <= step)
            h->evaluations[kept++] = h->evaluations[i];
    h->n = kept;
    h->end_step = h->end_step <= step ? h->end_step : 0;
    h->saved_step = h->saved_step <= step ? h->saved_step : step;
    h->loss = h->tweets_per_s = (double)NAN;
}

#define REPLACED_MAX 8 // how far back it can stand: a run is ended behind its last events

// Takes out an earlier one of the same split and step.
static void history_replaced(struct history *h, const struct history_evaluation *by) {
    size_t kept = h->n > REPLACED_MAX ? h->n - REPLACED_MAX : 0;
    for (size_t i = kept; i < h->n; i++)
        if (h->evaluations[i].step != by->step || strcmp(h->evaluations[i].split, by->split) != 0)
            h->evaluations[kept++] = h->evaluations[i];
    h->n = kept;
}

static enum status history_evaluation(struct history *h, const json_t *event) {
    if (h->n == h->room) {
        size_t room = h->room ? 2 * h->room : 16;
        struct history_evaluation *grown = realloc(h->evaluations, room * sizeof *grown);
        if (!grown)
            return status_set(STATUS_SYSTEM, "events: no memory");
        h->evaluations = grown;
        h->room = room;
    }
    const json_t *official = json_object_get(event, "official");
    struct history_evaluation e = {.loss = number(event, "loss"), .value = number(official, "value")};
    take_count(&e.epoch, event, "epoch");
    take_count(&e.step, event, "step");
    take_word(e.split, sizeof e.split, event, "split");
    take_word(e.official, sizeof e.official, official, "name");
    history_replaced(h, &e);
    h->evaluations[h->n++] = e;
    return STATUS_OK;
}

static void history_ended(struct history *h, const json_t *event, const char *name) {
    const char *reason = json_string_value(json_object_get(event, "reason"));
    if (strcmp(name, "stop") == 0)
        snprintf(h->ended, sizeof h->ended, "stop: %s", reason ? reason : "unknown");
    else
        snprintf(h->ended, sizeof h->ended, "%s", strcmp(name, "end") ? "no stop event" : "end");
    const json_t *rank = strcmp(name, "stop") == 0 ? json_object_get(event, "rank") : NULL;
    h->lost = (struct history_lost){.rank = json_is_integer(rank) ? json_integer_value(rank) : -1};
    if (h->lost.rank >= 0) {
        take_word(h->lost.host, sizeof h->lost.host, event, "host");
        take_word(h->lost.operation, sizeof h->lost.operation, event, "operation");
    }
}

// The best model's evaluation on test names an earlier step, and so may a checkpoint, which is told after its commit.
static void history_step(struct history *h, const json_t *event, const char *name) {
    const char *split = json_string_value(json_object_get(event, "split"));
    uint64_t before = h->step;
    if (!split || strcmp(split, "test") != 0) {
        take_count(&h->step, event, "step");
        take_count(&h->epoch, event, "epoch");
    }
    if (strcmp(name, "checkpoint") != 0)
        return;
    take_count(&h->saved_step, event, "step");
    if (h->step < before)
        h->step = before;
}

void history_end_report(struct history_report *out, const json_t *event) {
    const json_t *report = json_object_get(event, "report");
    take_word(out->json, sizeof out->json, report, REPORT_JSON);
    take_word(out->markdown, sizeof out->markdown, report, REPORT_MARKDOWN);
}

static void history_end(struct history *h, const json_t *event) {
    take_count(&h->end_step, event, "step");
    history_end_report(&h->report, event);
}

static enum status history_event(struct history *h, const json_t *event, const char *name) {
    double time = number(event, "time");
    enum status status = STATUS_OK;
    if (strcmp(name, "start") == 0)
        history_start(h, event);
    if (strcmp(name, "resume") == 0)
        history_resume(h, event);
    if (strcmp(name, "eval") == 0)
        status = history_evaluation(h, event);
    if (strcmp(name, "export") == 0)
        history_export(&h->exports, event);
    history_step(h, event, name);
    if (strcmp(name, "step") == 0) {
        h->exports.n = 0;
        h->loss = number(event, "loss");
        h->tweets_per_s = number(event, "tweets_per_s");
    }
    if (strcmp(name, "end") == 0)
        history_end(h, event);
    history_ended(h, event, name);
    if (strcmp(name, "end") == 0 || strcmp(name, "stop") == 0)
        history_pause(h, time);
    h->began = h->any || time != time ? h->began : time;
    h->at = time == time ? time : h->at;
    h->any = true;
    return status;
}

// Line `number`, from 1, without its newline.
static enum status history_line(struct history *h, const char *line, size_t size, uint64_t number) {
    json_t *event = size <= HISTORY_LINE_MAX ? json_loadb(line, size, 0, NULL) : NULL;
    const char *name = json_string_value(json_object_get(event, "event"));
    enum status status = name ? history_event(h, event, name) : STATUS_OK;
    if (!name && size) {
        h->first = h->broken ? h->first : number;
        h->broken++;
    }
    json_decref(event);
    return status;
}

enum status history_parse(struct history *out, size_t *whole, const char *bytes, size_t size) {
    enum status status = STATUS_OK;
    uint64_t number = 0;
    *out =
        (struct history){.ended = "no stop event", .loss = (double)NAN, .tweets_per_s = (double)NAN, .lost.rank = -1};
    *whole = 0;
    for (const char *end; status == STATUS_OK && *whole < size && (end = memchr(bytes + *whole, '\n', size - *whole));
         *whole = (size_t)(end - bytes) + 1) {
        status = history_line(out, bytes + *whole, (size_t)(end - (bytes + *whole)), ++number);
        pulse_beat();
    }
    history_pause(out, out->at);
    if (status != STATUS_OK)
        history_release(out);
    return status;
}

void history_warn(const struct history *history, const char *path) {
    if (history->broken)
        log_warn("%s:%llu: no event of a run; %llu such line%s passed over: remove what is no event", path,
                 (unsigned long long)history->first, (unsigned long long)history->broken,
                 history->broken == 1 ? " is" : "s are");
}

static enum status history_check(struct history *history, const char *path) {
    if (history->any || !history->broken) {
        history_warn(history, path);
        return STATUS_OK;
    }
    enum status status = status_set(STATUS_DATA, "%s:%llu: no event of a run, and no other line is one", path,
                                    (unsigned long long)history->first);
    history_release(history);
    return status;
}

enum status history_read(struct history *out, const char *folder) {
    char *path = path_join(folder, "events.jsonl"), *bytes = NULL;
    size_t size = 0, whole;
    enum status status = path ? STATUS_OK : status_set(STATUS_SYSTEM, "events: no memory");
    if (status == STATUS_OK && file_named(path))
        status = file_read(&bytes, &size, path, HISTORY_MAX);
    if (status == STATUS_OK)
        status = history_parse(out, &whole, bytes, size);
    if (status == STATUS_OK)
        status = history_check(out, path);
    free(bytes);
    free(path);
    return status;
}

void history_release(struct history *history) {
    free(history->evaluations);
    *history = (struct history){0};
}
