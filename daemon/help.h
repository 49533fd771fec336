// SPDX-License-Identifier: Apache-2.0
// --help of the program, of a verb and of a key of the job, from the tables; and what man pages share with it.
#ifndef FINETUNED_DAEMON_HELP_H
#define FINETUNED_DAEMON_HELP_H

#include "base/text.h"
#include "daemon/flags.h"

void help_program(void);
void help_verb(const struct verb_flags *spec);
// A key, or all keys of a section ("train"). False if there is neither.
bool help_key(const char *name);

// Every exit code and what it means; ends with meaning NULL.
struct help_exit {
    int code;
    const char *meaning;
};
extern const struct help_exit help_exits[];

// Adds words in lines of at most `width` columns, all but the first behind `indent` blanks. `column`: where the first
// begins. Newlines of the string stay.
void help_wrap(struct text *out, const char *string, unsigned column, unsigned indent, unsigned width);

#endif
