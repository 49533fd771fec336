// SPDX-License-Identifier: Apache-2.0
#include "train/events.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <unistd.h>

#define EVENTS_MAX ((size_t)1 << 31) // bytes of an events file that is read back

double events_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool json_plain(uint32_t code) {
    return code >= 0x20 && code != '"' && code != '\\' && code != 0x7f && code != 0x85 && code != 0x2028 &&
           code != 0x2029;
}

static void json_escape(struct text *text, uint32_t code) {
    if (code == '"' || code == '\\')
        text_printf(text, "\\%c", (char)code);
    else
        text_printf(text, "\\u%04x", code);
}

void json_string_bytes(struct text *text, const char *string, size_t size) {
    const char *at = string, *run = string, *end = string + size; // from `run` on nothing is added yet
    text_add(text, "\"", 1);
    while (at < end) {
        uint32_t code = 0;
        unsigned length = utf8_decode(at, end, &code);
        if (length && json_plain(code)) {
            at += length;
            continue;
        }
        text_add(text, run, (size_t)(at - run));
        if (length)
            json_escape(text, code);
        else
            text_add(text, "\xef\xbf\xbd", 3);
        run = at += length ? length : 1;
    }
    text_add(text, run, (size_t)(at - run));
    text_add(text, "\"", 1);
}

void json_string_add(struct text *text, const char *string) {
    json_string_bytes(text, string, strlen(string));
}

void json_number_add(struct text *text, double value) {
    if (isfinite(value))
        text_printf(text, "%.9g", value);
    else
        text_puts(text, "null");
}

static void previous_line(struct events_previous *previous, const char *line, size_t size) {
    json_t *event = json_loadb(line, size, 0, NULL);
    const char *name = json_string_value(json_object_get(event, "event"));
    json_t *step = json_object_get(event, "step");
    if (name) {
        previous->any = true;
        if (json_is_integer(step) && json_integer_value(step) >= 0)
            previous->step = (uint64_t)json_integer_value(step);
        const char *reason = json_string_value(json_object_get(event, "reason"));
        if (strcmp(name, "stop") == 0)
            snprintf(previous->ended, sizeof previous->ended, "stop: %s", reason ? reason : "unknown");
        else
            snprintf(previous->ended, sizeof previous->ended, "%s", strcmp(name, "end") ? "no stop event" : "end");
    }
    json_decref(event);
}

// Reads what is there; returns how many bytes are whole lines.
static size_t previous_read(struct events_previous *previous, const char *bytes, size_t size) {
    size_t whole = 0;
    for (const char *end; (end = memchr(bytes + whole, '\n', size - whole)); whole = (size_t)(end - bytes) + 1)
        previous_line(previous, bytes + whole, (size_t)(end - (bytes + whole)));
    return whole;
}

static enum status events_recover(struct events_previous *previous, const char *path, bool cuts) {
    if (!file_exists(path))
        return STATUS_OK;
    char *bytes;
    size_t size;
    TRY(file_read(&bytes, &size, path, EVENTS_MAX));
    size_t whole = previous_read(previous, bytes, size);
    free(bytes);
    if (cuts && whole < size && truncate(path, (off_t)whole) != 0)
        return status_errno(STATUS_IO, "events: cutting a half line from %s", path);
    return STATUS_OK;
}

enum status events_open(struct events *events, struct events_previous *previous, const char *out, bool writes) {
    *events = (struct events){.fd = -1};
    *previous = (struct events_previous){.ended = "no stop event"};
    if (!writes)
        return STATUS_OK;
    events->path = path_join(out, "events.jsonl");
    if (!events->path)
        return status_set(STATUS_SYSTEM, "events: no memory");
    TRY(events_recover(previous, events->path, true));
    events->fd = open(events->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (events->fd < 0)
        return status_errno(STATUS_IO, "events: opening %s", events->path);
    return STATUS_OK;
}

enum status events_look(struct events_previous *previous, const char *out) {
    char *path = path_join(out, "events.jsonl");
    *previous = (struct events_previous){.ended = "no stop event"};
    enum status status = path ? events_recover(previous, path, false) : status_set(STATUS_SYSTEM, "events: no memory");
    free(path);
    return status;
}

void events_close(struct events *events) {
    if (events->fd >= 0)
        close(events->fd);
    free(events->path);
    text_release(&events->line);
    *events = (struct events){.fd = -1};
}

void event_begin(struct events *events, const char *name) {
    text_clear(&events->line);
    text_printf(&events->line, "{\"event\": \"%s\", \"time\": %.3f", name, events_now());
}

static void event_key(struct events *events, const char *key) {
    text_printf(&events->line, ", \"%s\": ", key);
}

void event_integer(struct events *events, const char *key, int64_t value) {
    event_key(events, key);
    text_printf(&events->line, "%lld", (long long)value);
}

void event_number(struct events *events, const char *key, double value) {
    event_key(events, key);
    json_number_add(&events->line, value);
}

void event_string(struct events *events, const char *key, const char *value) {
    event_key(events, key);
    json_string_add(&events->line, value);
}

void event_raw(struct events *events, const char *key, const char *json) {
    event_key(events, key);
    text_puts(&events->line, json);
}

enum status event_end(struct events *events) {
    if (events->fd < 0)
        return STATUS_OK;
    text_puts(&events->line, "}\n");
    const char *line = text_string(&events->line);
    if (!line)
        return status_set(STATUS_SYSTEM, "events: no memory for a line of %s", events->path);
    return file_write_all(events->fd, line, events->line.size, events->path);
}
