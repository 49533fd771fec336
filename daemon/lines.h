// SPDX-License-Identifier: Apache-2.0
// Texts for predict and tokenize: arguments, a file, or lines of standard input. A blank line is a text.
#ifndef FINETUNED_DAEMON_LINES_H
#define FINETUNED_DAEMON_LINES_H

#include "base/status.h"

#include <stdbool.h>
#include <stdio.h>
#include <stddef.h>

struct lines {
    char **words; // given as arguments; NULL: read `stream`
    size_t n_words;
    FILE *stream;
    const char *name; // of the stream, for messages
    char *line;
    size_t room, number;
};

// `file` NULL and no words: standard input.
enum status lines_open(struct lines *out, char **words, size_t n_words, const char *file);
void lines_close(struct lines *lines);
// The next text without its newline; *end where there is none. Valid until the next call.
enum status lines_next(struct lines *lines, const char **text, size_t *size, bool *end);

#endif
