// SPDX-License-Identifier: Apache-2.0
// Flags of the verbs that are not a job's: `--name value`, `--name=value`, or a switch.
#ifndef FINETUNED_DAEMON_FLAGS_H
#define FINETUNED_DAEMON_FLAGS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum flag_kind { FLAG_SWITCH, FLAG_STRING, FLAG_COUNT, FLAG_CHOICE };

struct flag {
    const char *name; // "--split"
    enum flag_kind kind;
    void *out;         // bool *, const char **, int64_t *, int * (index into choices)
    const char *value; // "FILE", for the help; NULL for switches
    const char *help;
    const char *const *choices; // FLAG_CHOICE: NULL-terminated
    bool required;
};

struct verb_flags {
    const char *verb;
    const char *usage;           // "[--json] PATH"
    const char *about;           // one or more lines
    const struct flag *flags;    // ends with name NULL
    size_t min_words, max_words; // words that are no flags
    const char *const *later;    // flags of later versions, NULL-terminated; NULL: none
};

// Parses argv[1..]; words that are no flags are moved to the front of `words` (argc pointers of room). `--` ends the
// flags.
// --help prints to standard output and sets *helped. STATUS_USAGE names the flag, the value and what is allowed.
enum status flags_parse(const struct verb_flags *spec, int argc, char **argv, char **words, size_t *n_words,
                        bool *helped);

// Logs the error and gives its exit code.
int verb_exit(enum status status);

#endif
