// SPDX-License-Identifier: Apache-2.0
// Every line of events.jsonl, and what they say of a run's other files.
#include "daemon/verify/parts.h"

#include "base/file.h"
#include "model/weight_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define EVENT_FIX " (a start passes over this line; to mend the file, remove it)"

static enum status check_event(json_t **out, const char *line, size_t size, const char *path, size_t number) {
    json_error_t error;
    *out = json_loadb(line, size, JSON_REJECT_DUPLICATES, &error);
    if (!*out)
        return status_set(STATUS_DATA, "%s:%zu: %s" EVENT_FIX, path, number, error.text);
    if (json_is_string(json_object_get(*out, "event")) && json_is_number(json_object_get(*out, "time")))
        return STATUS_OK;
    json_decref(*out);
    return status_set(STATUS_DATA, "%s:%zu: no event: it has no \"event\" or no \"time\"" EVENT_FIX, path, number);
}

static void exports_add(json_t *exports, const json_t *event) {
    const char *path = json_string_value(json_object_get(event, "path"));
    const char *kind = json_string_value(json_object_get(event, "kind"));
    if (!path || !kind)
        return;
    const char *slash = strrchr(path, '/');
    json_object_set(exports,
                    strcmp(kind, "model") == 0 ? WEIGHTS_NAME
                    : slash                    ? slash + 1
                                               : path,
                    json_object_get(event, "sha256"));
}

static void told_step(uint64_t *step, const json_t *event, const char *name) {
    if (strcmp(json_string_value(json_object_get(event, "event")), name) == 0)
        *step = (uint64_t)json_integer_value(json_object_get(event, "step"));
}

// A fresh start does not know what an earlier run exported there. `told` NULL: events of another rank, which tell of
// its end only.
static void told_add(struct verify_told *told, const json_t *event) {
    if (!told)
        return;
    const char *name = json_string_value(json_object_get(event, "event"));
    bool start = strcmp(name, "start") == 0;
    if (start && !told->resumed) {
        json_object_clear(told->exports);
        told->report = (struct history_report){0};
    }
    if (strcmp(name, "export") == 0)
        exports_add(told->exports, event);
    if (start || strcmp(name, "resume") == 0)
        told->saved_step = 0;
    told_step(&told->saved_step, event, "checkpoint");
    told_step(&told->end_step, event, "end");
    told->resumed = strcmp(name, "resume") == 0 || (told->resumed && !start);
    if (strcmp(name, "end") == 0)
        history_end_report(&told->report, event);
    told->ended = strcmp(name, "end") == 0 || (told->ended && strcmp(name, "export") == 0);
}

static enum status check_events(struct verify_told *told, bool *half, const char *path) {
    char *bytes;
    size_t size, number = 1;
    TRY(file_read(&bytes, &size, path, HISTORY_MAX));
    const char *at = bytes, *end = bytes + size, *stop;
    char why[1024] = "";
    for (; at < end && (stop = memchr(at, '\n', (size_t)(end - at))); at = stop + 1, number++) {
        json_t *event;
        if (check_event(&event, at, (size_t)(stop - at), path, number) == STATUS_OK) {
            told_add(told, event);
            json_decref(event);
        } else if (!*why) { // the first of them is named; the others still tell of the run
            snprintf(why, sizeof why, "%s", status_message());
        }
    }
    *half = at < end;
    free(bytes);
    return *why ? status_set(STATUS_DATA, "%s", why) : STATUS_OK;
}

static enum status events_item(struct verify *v, struct verify_told *told, const char *name) {
    bool half = false;
    char *path = path_join(v->path, name);
    if (!path)
        return verify_no_memory(v);
    enum status status = verify_found(v, name, "events", check_events(told, &half, path), VERIFY_STRUCTURE);
    free(path);
    TRY(status);
    return half ? verify_note(v, name, "ends in half a line, as a crash leaves it; the next start cuts it off")
                : STATUS_OK;
}

// A run makes it before its job.yaml, and tells its exports there before its report.
static enum status events_missing(struct verify *v) {
    struct stat info;
    char *path = path_join(v->path, "events.jsonl");
    if (!path)
        return verify_no_memory(v);
    bool missing =
        stat(path, &info) != 0 && errno == ENOENT && (verify_there(v, "job.yaml") || verify_there(v, "report.json"));
    bool empty = stat(path, &info) == 0 && info.st_size == 0 && verify_there(v, "report.json");
    enum status status = STATUS_OK;
    if (missing || empty)
        status = verify_add(v, "events.jsonl", "events",
                            status_set(STATUS_DATA, "%s: %s: a run that got so far has written events", path,
                                       missing ? "is missing" : "is empty"),
                            VERIFY_STRUCTURE);
    free(path);
    return status;
}

enum status verify_events(struct verify *v, struct verify_told *told) {
    TRY(events_missing(v));
    char **names;
    size_t n;
    TRY(file_list(&names, &n, v->path));
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        if (strcmp(names[i], "events.jsonl") == 0 || strncmp(names[i], "events.rank-", 12) == 0)
            status = events_item(v, strcmp(names[i], "events.jsonl") == 0 ? told : NULL, names[i]);
    file_list_free(names, n);
    return status;
}
