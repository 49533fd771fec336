// SPDX-License-Identifier: Apache-2.0
#include "daemon/lines.h"

#include "base/file.h"
#include "base/text.h"
#include "data/source.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINES_READ 65536 // bytes asked for at a time

enum status lines_open(struct lines *out, char **words, size_t n_words, const char *file) {
    *out = (struct lines){.fd = STDIN_FILENO, .name = "standard input"};
    if (n_words && file)
        return status_set(STATUS_USAGE, "give texts as arguments or --file, not both");
    if (n_words) {
        out->words = words;
        out->n_words = n_words;
    }
    if (!file)
        return STATUS_OK;
    out->name = file;
    out->fd = open(file, O_RDONLY | O_CLOEXEC);
    if (out->fd >= 0)
        return STATUS_OK;
    return status_errno(file_missing_status(errno), "opening %s", file);
}

void lines_close(struct lines *lines) {
    if (lines->fd > STDIN_FILENO)
        close(lines->fd);
    free(lines->bytes);
    *lines = (struct lines){0};
}

static const char *lines_newline(struct lines *lines) {
    size_t from = lines->looked > lines->first ? lines->looked : lines->first;
    const char *found = lines->size > from ? memchr(lines->bytes + from, '\n', lines->size - from) : NULL;
    lines->looked = found ? from : lines->size;
    return found;
}

static enum status lines_room(struct lines *lines) {
    if (lines->first > 0 && (lines->first == lines->size || lines->room - lines->size < LINES_READ)) {
        memmove(lines->bytes, lines->bytes + lines->first, lines->size - lines->first);
        lines->size -= lines->first;
        lines->looked -= lines->looked < lines->first ? lines->looked : lines->first;
        lines->first = 0;
    }
    if (lines->size > SOURCE_TEXT_MAX)
        return status_set(STATUS_DATA, "%s:%zu: a line of more than %zu bytes", lines->name, lines->number + 1,
                          SOURCE_TEXT_MAX);
    if (lines->room - lines->size >= LINES_READ)
        return STATUS_OK;
    size_t room = lines->room * 2 + LINES_READ;
    char *grown = realloc(lines->bytes, room);
    if (!grown)
        return status_set(STATUS_SYSTEM, "%s:%zu: no memory", lines->name, lines->number + 1);
    lines->bytes = grown;
    lines->room = room;
    return STATUS_OK;
}

// What is there now; waits if that is nothing.
static enum status lines_read(struct lines *lines) {
    TRY(lines_room(lines));
    ssize_t n;
    do
        n = read(lines->fd, lines->bytes + lines->size, LINES_READ);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return status_errno(STATUS_IO, "reading %s", lines->name);
    lines->size += (size_t)n;
    lines->end = n == 0;
    return STATUS_OK;
}

bool lines_ready(struct lines *lines) {
    struct pollfd input = {.fd = lines->fd, .events = POLLIN};
    while (!lines->words && !lines->end && !lines_newline(lines))
        if (poll(&input, 1, 0) <= 0 || lines_read(lines) != STATUS_OK)
            return false; // lines_next meets the same error, and says it
    return true;
}

static enum status lines_line(struct lines *lines, const char **text, size_t *size, bool *end) {
    const char *newline;
    while (!(newline = lines_newline(lines)) && !lines->end)
        TRY(lines_read(lines));
    *end = !newline && lines->first == lines->size;
    *text = *end ? NULL : lines->bytes + lines->first;
    *size = newline ? (size_t)(newline - *text) : lines->size - lines->first;
    lines->first += *size + (newline != NULL);
    lines->number++;
    return STATUS_OK;
}

enum status lines_next(struct lines *lines, const char **text, size_t *size, bool *end) {
    if (lines->words) {
        *end = lines->number == lines->n_words;
        *text = *end ? NULL : lines->words[lines->number++];
        *size = *end ? 0 : strlen(*text);
    } else {
        TRY(lines_line(lines, text, size, end));
    }
    size_t bad = *end ? 0 : utf8_check(*text, *size);
    if (bad < *size)
        return status_set(STATUS_DATA, "%s:%zu: byte %zu (0x%02x) is not valid UTF-8",
                          lines->words ? "argument" : lines->name, lines->number, bad + 1, (unsigned char)(*text)[bad]);
    return STATUS_OK;
}
