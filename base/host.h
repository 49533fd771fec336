// SPDX-License-Identifier: Apache-2.0
// What this host, or the container we are in, lets us have: read from /proc and /sys. `root` is put before those
// paths: "", or a test's folder.
#ifndef FINETUNED_BASE_HOST_H
#define FINETUNED_BASE_HOST_H

#include <stdbool.h>
#include <stdint.h>

#define HOST_NONE UINT64_MAX // no such limit, or not known

struct host_memory {
    uint64_t total;     // bytes of the host
    uint64_t free;      // bytes of the host that can be had without swapping (MemAvailable)
    uint64_t limit;     // of the control group (version 1 or 2) that leaves the least; HOST_NONE
    uint64_t used;      // of that limit, without the page cache that would be given up
    uint64_t available; // what we can have: the smaller of both rests
};
// False if /proc/meminfo can't be read.
bool host_memory(struct host_memory *out, const char *root);

// CPUs' time that the control group lets us have, as a number of CPUs ("1.5"); 0: no limit.
double host_cpu_quota(const char *root);

// First line of a file in /proc or /sys, "" if it can't be read. Returns `line`.
const char *host_line(char *line, unsigned room, const char *root, const char *path);

#endif
