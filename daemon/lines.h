// SPDX-License-Identifier: Apache-2.0
// Texts for predict and tokenize: arguments, a file, or lines of standard input. A blank line is a text.
#ifndef FINETUNED_DAEMON_LINES_H
#define FINETUNED_DAEMON_LINES_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct lines {
    char **words; // given as arguments; NULL: read `fd`
    size_t n_words;
    int fd;
    const char *name;                 // of what is read, for messages
    char *bytes;                      // read and not yet handed out: [first, size)
    size_t first, size, room, looked; // looked: no newline before it
    bool end;                         // nothing comes behind `bytes`
    size_t number;                    // of the last text handed out, from 1
};

// `file` NULL and no words: standard input.
enum status lines_open(struct lines *out, char **words, size_t n_words, const char *file);
void lines_close(struct lines *lines);
// The next text without its newline; *end where there is none. Valid until the next call, lines_ready included.
enum status lines_next(struct lines *lines, const char **text, size_t *size, bool *end);
// Whether lines_next would answer at once: a whole line, or the end, is there. False: it might wait for its sender.
bool lines_ready(struct lines *lines);

#endif
