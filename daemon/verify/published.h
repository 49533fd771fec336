// SPDX-License-Identifier: Apache-2.0
// A file that a run made against what its events tell of it: whole in itself may still be another run's, or another
// checkpoint's.
#ifndef FINETUNED_DAEMON_VERIFY_PUBLISHED_H
#define FINETUNED_DAEMON_VERIFY_PUBLISHED_H

#include "base/status.h"

// STATUS_DATA if its SHA-256 is not `wanted`; NULL, "": it only has to be readable. `event`: which tells of it.
enum status published_check(const char *path, const char *wanted, const char *event);
// The same of the weights of a model directory whose list, finetuned.sha256, agrees with its files: by the list.
enum status published_check_model(const char *folder, const char *wanted);

#endif
