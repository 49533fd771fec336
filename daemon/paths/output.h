// SPDX-License-Identifier: Apache-2.0
// A file that a verb is told to write: --output, --predictions, --trace. What is there is replaced, so it is none that
// the verb reads, and none that others live by.
#ifndef FINETUNED_DAEMON_PATHS_OUTPUT_H
#define FINETUNED_DAEMON_PATHS_OUTPUT_H

#include "base/status.h"

#include <stddef.h>

struct output_other {
    const char *flag; // "--file", or what it is
    const char *path; // NULL: not given
};

struct output_ask {
    const char *flag; // "eval: --output"
    const char *path;
    const char *data;                 // the data's folder, or NULL
    const struct output_other *other; // (n) what is read, and what else is written
    size_t n;
};

// STATUS_USAGE if the file is one of the others, wherever links lead; by its name a file of data below `data`; or what
// taken_check refuses. Writes nothing.
enum status output_check(const struct output_ask *ask);

#endif
