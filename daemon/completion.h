// SPDX-License-Identifier: Apache-2.0
// What a shell needs to complete a command line of ours, from the tables of verbs, flags and options.
#ifndef FINETUNED_DAEMON_COMPLETION_H
#define FINETUNED_DAEMON_COMPLETION_H

#include "base/text.h"

// A script for bash (4 and above); it knows all by itself and starts no program. `zsh`: through its bashcompinit.
void completion_bash(struct text *out, bool zsh);

#endif
