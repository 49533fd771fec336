// SPDX-License-Identifier: Apache-2.0
// A line is built on the stack and written at once, so that lines of several ranks or threads don't mix: 4096 bytes
// are what a pipe takes in one piece (PIPE_BUF).
#include "base/log.h"

#include "base/secret.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define LINE_SIZE 4096

static atomic_int log_level = LOG_INFO;
static atomic_int log_rank;
static atomic_int log_world = 1;
static atomic_bool log_transient; // a progress line stands on the terminal

void log_setup(enum log_level level, int rank, int world) {
    atomic_store(&log_level, (int)level);
    atomic_store(&log_rank, rank);
    atomic_store(&log_world, world);
}

static bool log_wanted(enum log_level level) {
    if ((int)level > atomic_load(&log_level))
        return false;
    return level != LOG_INFO || atomic_load(&log_world) <= 1 || atomic_load(&log_rank) == 0;
}

// At most 64 bytes.
static size_t log_prefix(char *line, enum log_level level) {
    static const char *const names[] = {
        [LOG_ERROR] = "error: ", [LOG_WARN] = "warning: ", [LOG_INFO] = "", [LOG_DEBUG] = "debug: "};
    if (atomic_load(&log_world) > 1)
        return (size_t)snprintf(line, 64, "finetuned: rank %d: %s", atomic_load(&log_rank), names[level]);
    return (size_t)snprintf(line, 64, "finetuned: %s", names[level]);
}

// Standard error may be a pipe that is full or closed: a log line is then lost, never waited for twice.
static void log_write(const char *line, size_t size) {
    while (size > 0) {
        ssize_t n = write(STDERR_FILENO, line, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        line += n;
        size -= (size_t)n;
    }
}

static void log_format(enum log_level level, bool progress, const char *format, va_list args) {
    int error = errno;
    char line[LINE_SIZE];
    bool transient = progress && isatty(STDERR_FILENO);
    size_t erase = atomic_exchange(&log_transient, transient) ? (size_t)snprintf(line, LINE_SIZE, "\r\x1b[2K") : 0;
    size_t size = erase + log_prefix(line + erase, level);
    int n = vsnprintf(line + size, LINE_SIZE - size, format, args);
    size_t room = LINE_SIZE - 1 - size; // the last byte is for the newline
    if (n < 0)
        line[size] = '\0';
    secret_mask(line + size);
    size_t end = strnlen(line + size, room) + size;
    for (size_t i = size; i < end; i++)
        if (line[i] == '\n' || line[i] == '\r')
            line[i] = ' ';
    if (!transient)
        line[end++] = '\n';
    log_write(line, end);
    errno = error;
}

void log_line(enum log_level level, const char *format, ...) {
    if (!log_wanted(level))
        return;
    va_list args;
    va_start(args, format);
    log_format(level, false, format, args);
    va_end(args);
}

void log_progress(const char *format, ...) {
    if (!log_wanted(LOG_INFO))
        return;
    va_list args;
    va_start(args, format);
    log_format(LOG_INFO, true, format, args);
    va_end(args);
}
