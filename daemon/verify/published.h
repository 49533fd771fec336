// SPDX-License-Identifier: Apache-2.0
// The model that a run made against what its events tell of it: see train/told_sum.h for its other files.
#ifndef FINETUNED_DAEMON_VERIFY_PUBLISHED_H
#define FINETUNED_DAEMON_VERIFY_PUBLISHED_H

#include "base/status.h"

// STATUS_DATA if the weights of a model directory, whose list, finetuned.sha256, agrees with its files, are not those
// of SHA-256 `wanted` by that list; NULL, "": nothing is known.
enum status published_model_check(const char *folder, const char *wanted);

#endif
