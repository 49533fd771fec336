// SPDX-License-Identifier: Apache-2.0
#include "train/events.h"

#include "base/file.h"
#include "base/log.h"
#include "train/lost.h"

#define LOST_MAX ((size_t)1 << 20) // bytes of another rank's events

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

double events_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void previous_end(struct events_previous *previous, const struct history *history) {
    snprintf(previous->ended, sizeof previous->ended, "%s", history->ended);
    previous->at = history->at;
    previous->lost = history->lost;
}

// Where rank 0 was lost another rank may have told of it, after the last event that rank 0 wrote.
static enum status events_of_others(struct events_previous *previous, const char *out) {
    char **names;
    size_t n;
    if (!previous->any)
        return STATUS_OK;
    TRY(file_list(&names, &n, out));
    for (size_t i = 0; i < n; i++) {
        struct history history = {0};
        char *path = lost_is(names[i]) ? path_join(out, names[i]) : NULL, *bytes = NULL;
        size_t size = 0, whole;
        if (path && file_read(&bytes, &size, path, LOST_MAX) == STATUS_OK &&
            history_parse(&history, &whole, bytes, size) == STATUS_OK && history.any && history.at > previous->at)
            previous_end(previous, &history);
        history_release(&history);
        free(bytes);
        free(path);
    }
    file_list_free(names, n);
    return STATUS_OK;
}

// What a crash cuts of a line of ours; the blocks of a line that never reached the disk are zeros.
static bool events_is_half(const char *line, size_t size) {
    static const char begins[] = "{\"event\": \"";
    return line[0] == '\0' || memcmp(line, begins, size < sizeof begins - 1 ? size : sizeof begins - 1) == 0;
}

static enum status events_recover(struct events_previous *previous, const char *path, bool cuts) {
    if (!file_exists(path))
        return STATUS_OK;
    struct history history;
    struct file_map map;
    size_t whole;
    TRY(file_map_open(&map, path));
    size_t size = map.size;
    enum status status = history_parse(&history, &whole, map.at, size);
    bool half = status == STATUS_OK && whole < size && events_is_half(map.at + whole, size - whole);
    file_map_close(&map);
    TRY(status);
    history_warn(&history, path);
    previous->any = history.any;
    previous->step = history.step;
    previous->end_step = history.end_step;
    previous->saved_step = history.saved_step;
    previous->report = history.report;
    previous->exports = history.exports;
    previous_end(previous, &history);
    history_release(&history);
    if (cuts && half && truncate(path, (off_t)whole) != 0)
        return status_errno(STATUS_IO, "events: cutting a half line from %s", path);
    return STATUS_OK;
}

static enum status events_begin(struct events *events) {
    struct stat info;
    events->fd = open(events->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (events->fd < 0 || fstat(events->fd, &info) != 0)
        return status_errno(STATUS_IO, "events: opening %s", events->path);
    events->size = (uint64_t)info.st_size;
    return STATUS_OK;
}

static enum status events_put(struct events *events, const char *line, size_t size) {
    TRY(file_write_all(events->fd, line, size, events->path));
    events->size += size;
    return STATUS_OK;
}

// A half line at its end is no event's beginning.
static enum status events_whole(struct events *events) {
    char last = '\n';
    if (events->size && pread(events->fd, &last, 1, (off_t)events->size - 1) < 0)
        return status_errno(STATUS_IO, "events: reading %s", events->path);
    return last == '\n' ? STATUS_OK : events_put(events, "\n", 1);
}

// A backup by hard links has the same file: what we add is not in it.
static enum status events_own(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && info.st_nlink > 1 ? file_copy(path, path) : STATUS_OK;
}

enum status events_open(struct events *events, struct events_previous *previous, const char *out, bool writes,
                        struct owner *owner) {
    *events = (struct events){.fd = -1, .owner = owner};
    *previous = (struct events_previous){.ended = "no stop event", .lost.rank = -1};
    if (!writes)
        return STATUS_OK;
    events->path = path_join(out, "events.jsonl");
    if (!events->path)
        return status_set(STATUS_SYSTEM, "events: no memory");
    TRY(events_recover(previous, events->path, true));
    TRY(events_of_others(previous, out));
    TRY(events_own(events->path));
    TRY(events_begin(events));
    return events_whole(events); // anybody's line
}

enum status events_look(struct events_previous *previous, const char *out) {
    char *path = path_join(out, "events.jsonl");
    *previous = (struct events_previous){.ended = "no stop event", .lost.rank = -1};
    enum status status = path ? events_recover(previous, path, false) : status_set(STATUS_SYSTEM, "events: no memory");
    if (status == STATUS_OK)
        status = events_of_others(previous, out);
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

// ---- the file under our hands

// What became of it since the last event; NULL: it is as we left it, or nobody knows.
static const char *events_gap(const struct events *events) {
    struct stat ours, there;
    if (fstat(events->fd, &ours) != 0)
        return NULL;
    if (stat(events->path, &there) != 0)
        return errno == ENOENT ? "removed" : NULL;
    if (ours.st_dev != there.st_dev || ours.st_ino != there.st_ino)
        return "replaced";
    return (uint64_t)ours.st_size < events->size ? "cut" : NULL;
}

// Goes on in what stands there now. The events that went with the old one can't be had again.
static enum status events_again(struct events *events, const char *what) {
    char line[128];
    log_warn("%s was %s while the run goes on: the events before are lost there; it is gone on with from here",
             events->path, what);
    close(events->fd);
    TRY(events_begin(events));
    TRY(events_whole(events));
    int size =
        snprintf(line, sizeof line, "{\"event\": \"gap\", \"time\": %.3f, \"was\": \"%s\"}\n", events_now(), what);
    return events_put(events, line, (size_t)size);
}

enum status event_end(struct events *events) {
    if (events->fd < 0)
        return STATUS_OK;
    text_puts(&events->line, "}\n");
    const char *line = text_string(&events->line);
    if (!line)
        return status_set(STATUS_SYSTEM, "events: no memory for a line of %s", events->path);
    if (owner_lost(events->owner))
        return owner_check(events->owner);
    const char *gap = events_gap(events);
    if (gap)
        TRY(events_again(events, gap));
    return events_put(events, line, events->line.size);
}
