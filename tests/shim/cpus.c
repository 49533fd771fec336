// SPDX-License-Identifier: Apache-2.0
// Preloaded: the process may use as many CPUs as CPUS says, whatever the host has. What it then pins to one that is not
// there stays unpinned. So a test sees more threads than this host has processors.
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *mask) {
    const char *wanted = getenv("CPUS");
    const unsigned long cpus = wanted ? strtoul(wanted, NULL, 10) : 1;
    (void)pid;
    if (cpus > 8 * size) {
        errno = EINVAL;
        return -1;
    }
    memset(mask, 0, size);
    for (unsigned long cpu = 0; cpu < cpus; cpu++)
        CPU_SET_S(cpu, size, mask);
    return 0;
}
