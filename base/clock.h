// SPDX-License-Identifier: Apache-2.0
#ifndef FINETUNED_BASE_CLOCK_H
#define FINETUNED_BASE_CLOCK_H

// Seconds of the monotonic clock: for what takes how long.
double clock_seconds(void);

#endif
