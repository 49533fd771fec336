// SPDX-License-Identifier: Apache-2.0
// Log lines on standard error. Standard output is for results only.
#ifndef FINETUNED_BASE_LOG_H
#define FINETUNED_BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

// Lines above `level` are dropped. With world > 1 a line says its rank, and info lines of ranks above 0 are dropped.
void log_setup(enum log_level level, int rank, int world);

// One line, one write. `format` needs no newline.
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Progress: on a terminal one line that the next line replaces, else a plain info line.
void log_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

#endif
