// SPDX-License-Identifier: Apache-2.0
// A verb's flags: `--name value`, `--name=value`, or a switch. One description each serves the parser, --help, man
// pages and completion.
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
    const char *value; // "FILE", for the help; NULL for switches. DIR, FILE and PATH are completed as such
    const char *help;
    const char *const *choices; // FLAG_CHOICE: NULL-terminated
    bool required;
};
#define FLAGS_END                                                                                                      \
    { NULL, FLAG_SWITCH, NULL, NULL, NULL, NULL, false }

struct verb_flags {
    const char *verb;
    const char *usage;                     // "[--json] PATH"; several ways to call it with \n between
    const char *about;                     // one or more lines
    const struct flag *flags;              // ends with FLAGS_END
    size_t min_words, max_words;           // words that are no flags
    const char *const *later;              // flags of later versions, NULL-terminated; NULL: none
    const char *const *word_choices;       // all that a word may be, NULL-terminated; NULL: anything
    const char *examples;                  // command lines with \n between; NULL: none
    const char *words;                     // what the words are, as a flag's value: "PATH"; NULL: there are none
    bool keys;                             // takes a job: a job file as its word, and the job's keys as flags
    const struct verb_flags *const *parts; // "bench gemm", …, each with flags of its own, NULL-terminated; NULL: none
};

// Parses argv[1..]; words that are no flags are moved to the front of `words` (argc pointers of room). `--` ends the
// flags.
// --help prints to standard output and sets *helped. STATUS_USAGE names the flag, the value and what is allowed.
enum status flags_parse(const struct verb_flags *spec, int argc, char **argv, char **words, size_t *n_words,
                        bool *helped);

// The same for a verb that takes a job: what is no flag of its own is kept for job_read.
struct job_words {
    const char *file;     // NULL: none
    const char **options; // keys and values, malloc'ed
    size_t n_options;
};
enum status flags_parse_job(struct job_words *out, const struct verb_flags *spec, int argc, char **argv, bool *helped);
// Whether "--key" is among the options.
bool job_words_give(const struct job_words *words, const char *flag);
void job_words_release(struct job_words *words);

// Logs the error and gives its exit code.
int verb_exit(enum status status);
// The same before there is a world, of a verb that a launcher may have started several times: one rank's complaint is
// enough.
int verb_refused(enum status status);

#endif
