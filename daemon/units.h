// SPDX-License-Identifier: Apache-2.0
// Sizes and times for people.
#ifndef FINETUNED_DAEMON_UNITS_H
#define FINETUNED_DAEMON_UNITS_H

#include <stdint.h>

struct unit {
    char text[24];
};

struct unit unit_bytes(uint64_t bytes);   // "512 B", "1.5 MiB", "2.0 GiB"
struct unit unit_seconds(double seconds); // "0.4 s", "2 min 51 s", "3 h 04 min", "2 d 5 h"

#endif
