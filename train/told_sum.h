// SPDX-License-Identifier: Apache-2.0
// A file that a run made against the SHA-256 that its events tell of it: whole in itself, it may still be another
// run's, or another checkpoint's.
#ifndef FINETUNED_TRAIN_TOLD_SUM_H
#define FINETUNED_TRAIN_TOLD_SUM_H

#include "base/status.h"

// STATUS_DATA if its SHA-256 is not `wanted`; NULL, "": it only has to be readable. `event`: which tells of it.
enum status told_sum_check(const char *path, const char *wanted, const char *event);
// The message alone.
enum status told_sum_differs(const char *path, const char *event);

#endif
