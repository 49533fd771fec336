// SPDX-License-Identifier: Apache-2.0
#include "daemon/units.h"

#include <stdio.h>

struct unit unit_bytes(uint64_t bytes) {
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    struct unit unit;
    double value = (double)bytes;
    unsigned i = 0;
    for (; value >= 1023.95 && i < 5; i++)
        value /= 1024;
    snprintf(unit.text, sizeof unit.text, i ? "%.1f %s" : "%.0f %s", value, names[i]);
    return unit;
}

struct unit unit_seconds(double seconds) {
    struct unit unit;
    double whole = seconds < 1e15 ? seconds : 1e15;
    long long s = (long long)(whole + 0.5), minutes = s / 60, hours = s / 3600;
    if (whole < 9.95)
        snprintf(unit.text, sizeof unit.text, "%.1f s", whole);
    else if (s < 60)
        snprintf(unit.text, sizeof unit.text, "%lld s", s);
    else if (hours == 0)
        snprintf(unit.text, sizeof unit.text, "%lld min %lld s", minutes, s % 60);
    else if (hours < 48)
        snprintf(unit.text, sizeof unit.text, "%lld h %02lld min", hours, minutes % 60);
    else
        snprintf(unit.text, sizeof unit.text, "%lld d %lld h", hours / 24, hours % 24);
    return unit;
}
