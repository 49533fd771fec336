// SPDX-License-Identifier: Apache-2.0
#include "train/provenance.h"

#include "base/file.h"
#include "checkpoints/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define CPUINFO_MAX ((size_t)1 << 24) // bytes

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

// x86 says "model name"; Arm gives numbers only: "CPU implementer", "CPU part".
static void cpu_name(char *out, size_t room) {
    static const char *const keys[] = {"model name", "Model", "CPU part"};
    char *bytes = NULL;
    snprintf(out, room, "unknown");
    if (file_read(&bytes, NULL, "/proc/cpuinfo", CPUINFO_MAX) != STATUS_OK)
        return;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *at = strstr(bytes, keys[i]), *colon = at ? strchr(at, ':') : NULL;
        if (!colon)
            continue;
        colon += strspn(colon, ": \t");
        snprintf(out, room, "%s%.*s", i == 2 ? "CPU part " : "", (int)strcspn(colon, "\n"), colon);
        break;
    }
    free(bytes);
}

// Linux gives ru_maxrss in KiB.
static uint64_t peak_rss(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}

struct rank_facts {
    uint64_t rss;
    uint64_t first; // 1: the first rank of its host
};

enum status provenance_gather(struct provenance *out, struct comm *comm) {
    struct rank_facts mine = {peak_rss(), comm->local_rank == 0};
    struct rank_facts *all = calloc((size_t)comm->world, sizeof *all);
    *out = (struct provenance){.compiler = COMPILER};
    enum status status = comm_agree(comm, all ? STATUS_OK : status_set(STATUS_SYSTEM, "report: no memory"));
    if (status == STATUS_OK)
        status = comm_all_gather(comm, &mine, all, sizeof mine);
    for (int r = 0; status == STATUS_OK && r < comm->world; r++) {
        out->rss_max = all[r].rss > out->rss_max ? all[r].rss : out->rss_max;
        out->rss_sum += all[r].rss;
        out->hosts += (int)all[r].first;
    }
    free(all);
    cpu_name(out->cpu, sizeof out->cpu);
    comm_library(out->mpi, sizeof out->mpi);
    checkpoint_library(out->hdf5, sizeof out->hdf5);
    return status;
}
