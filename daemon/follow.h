// SPDX-License-Identifier: Apache-2.0
// A link such as checkpoints/latest, read while a run moves it on: all files come from the one folder that it led to.
#ifndef FINETUNED_DAEMON_FOLLOW_H
#define FINETUNED_DAEMON_FOLLOW_H

#include "base/status.h"

// Calls `read` with what `path` leads to, if its last name, or the folder's of a file, is a link; else with `path`. If
// that fails and the folder has gone meanwhile, the link is followed again, a few times; then STATUS_AGAIN. STATUS_DATA
// if it was no link. A `read` that fails leaves nothing behind.
enum status follow_read(const char *path, enum status (*read)(void *context, const char *real), void *context);

#endif
