// SPDX-License-Identifier: Apache-2.0
// The one table of the job file's options, and a value on its way between text and struct job. For base/job*.c; others
// use base/job.h.
#ifndef FINETUNED_BASE_OPTIONS_H
#define FINETUNED_BASE_OPTIONS_H

#include "base/job.h"
#include "base/text.h"

enum option_type {
    OPTION_TEXT,    // char *; NULL: unset, or "none" where the table says so
    OPTION_INTEGER, // int64_t
    OPTION_SEED,    // uint64_t, all of it
    OPTION_SIZE,    // int64_t: bytes, or KiB, MiB, GiB, TiB
    OPTION_REAL,    // double
    OPTION_BOOL,    // bool
    OPTION_CHOICE,  // int: which of `names`
    OPTION_PAIR,    // double[2]
    OPTION_SET,     // bool[]: which of `names`
    OPTION_WEIGHTS, // char *: one of `names`, or a list of positive numbers "[1.0, 2.0]"
    OPTION_LIST,    // struct job_list: different values of the option `each`
};

enum {
    OPTION_DEFINES_RUN = 1,   // see job_key_defines_run
    OPTION_NONE = 2,          // a text whose "none" is NULL
    OPTION_ABOVE_LEAST = 4,   // `least` itself is not allowed
    OPTION_BELOW_MOST = 8,    // `most` itself is not allowed
    OPTION_POWER_OF_TWO = 16, // of the number
    OPTION_NAME = 32,         // a text that becomes a folder's name: no slash, not . or ..
    OPTION_S3 = 64,           // a text that starts with s3://
};

// A word that stands for a number: `auto` for 0.
struct option_word {
    const char *word;
    double value;
};

#define OPTION_VALUE_MAX 4096 // bytes of a value

struct option {
    const char *key;
    enum option_type type;
    size_t offset;        // into struct job
    const char *fallback; // the default as in the YAML; NULL: none, the verb says whether it must be given
    double least, most;   // of numbers and sizes; of a choice: the first of `names` that is one
    struct option_word words[2];
    const char *const *names; // ends in NULL
    const char *each;         // of a list: whose values it holds
    unsigned flags;
    const char *later; // words not in this version yet, with blanks between; "*": all but the default
    const char *range; // for people, where it does not follow from the above
    const char *help;
};

#define OPTIONS_MAX JOB_KEYS_MAX
extern const struct option options[];
extern const size_t options_count;

const struct option *option_find(const char *key);
// True if `name` is a section: what stands before a dot of some keys.
// Whether any option may have that text: UTF-8 without control characters, neither empty nor too long.
bool option_is_text(const char *text);
bool option_is_section(const char *name);
// A type that takes several values: a list in YAML, commas in a flag.
bool option_is_list(const struct option *option);

// Reads `text` into the job. STATUS_USAGE: "<where>: '<text>' is not allowed; allowed: <range>". `quoted`: a string in
// YAML's eyes, so not a number and not a truth value.
enum status option_set(const struct option *option, struct job *job, const char *text, bool quoted, const char *where);
// A list's brackets taken off, in place; `rest` is NULL for an empty list. False if they don't match.
bool option_list_open(char *text, const char **rest);
// The next item, with commas between, as a copy without blanks around it in `item`. False at the end; `bad` says that
// an item was empty or too long.
bool option_list_next(const char **rest, char *item, size_t room, bool *bad);
// Of OPTION_LIST. STATUS_USAGE naming the value that is not allowed.
enum status option_list_set(const struct option *option, struct job_list *out, const char *text, const char *where);
void option_list_clear(struct job_list *list);
// Sets it free and to NULL, if it is memory.
void option_clear(const struct option *option, struct job *job);
// Adds the value as in the YAML; nothing if it is unset.
void option_print(struct text *out, const struct option *option, const struct job *job);
// Adds the shortest decimal that reads back as the same number, always with a dot.
void option_print_real(struct text *out, double value);
bool option_is_unset(const struct option *option, const struct job *job);
// Adds what is allowed, for people: "a number from 0 to 1 (excluded)".
void option_range(struct text *out, const struct option *option);
// The first of the value's words that this version can't do yet, in `out`; false if there is none.
bool option_later(struct text *out, const struct option *option, const struct job *job);

#endif
