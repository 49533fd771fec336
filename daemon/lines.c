// SPDX-License-Identifier: Apache-2.0
#include "daemon/lines.h"

#include "base/text.h"

#include <errno.h>

enum status lines_open(struct lines *out, char **words, size_t n_words, const char *file) {
    *out = (struct lines){.words = words, .n_words = n_words, .stream = stdin, .name = "standard input"};
    if (n_words && file)
        return status_set(STATUS_USAGE, "give texts as arguments or --file, not both");
    if (n_words)
        return STATUS_OK;
    out->words = NULL;
    if (!file)
        return STATUS_OK;
    out->name = file;
    out->stream = fopen(file, "re");
    if (out->stream)
        return STATUS_OK;
    return status_errno(errno == ENOENT ? STATUS_DATA : STATUS_IO, "opening %s", file);
}

void lines_close(struct lines *lines) {
    if (lines->stream && lines->stream != stdin)
        fclose(lines->stream);
    free(lines->line);
}

enum status lines_next(struct lines *lines, const char **text, size_t *size, bool *end) {
    *end = false;
    if (lines->words) {
        *end = lines->number == lines->n_words;
        *text = *end ? NULL : lines->words[lines->number++];
        *size = *end ? 0 : strlen(*text);
    } else {
        ssize_t n = getline(&lines->line, &lines->room, lines->stream);
        if (n < 0 && ferror(lines->stream))
            return status_errno(STATUS_IO, "reading %s", lines->name);
        *end = n < 0;
        *text = lines->line;
        *size = n < 0 ? 0 : (size_t)n - (lines->line[n - 1] == '\n');
        lines->number++;
    }
    if (*end)
        return STATUS_OK;
    size_t bad = utf8_check(*text, *size);
    if (bad < *size)
        return status_set(STATUS_DATA, "%s:%zu: byte %zu (0x%02x) is not valid UTF-8",
                          lines->words ? "argument" : lines->name, lines->number, bad + 1, (unsigned char)(*text)[bad]);
    return STATUS_OK;
}
