// SPDX-License-Identifier: Apache-2.0
// --mpi: do all ranks run the same program, on clocks that agree, each on CPUs of its own?
#include "daemon/doctor/doctor.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/isa.h"
#include "base/pool.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>

#include <time.h>

#define CLOCK_ROUNDS 5
#define CLOCK_OFF 1.0  // seconds that clocks may differ
#define TRIP_SLOW 1e-3 // seconds of a small message there and back, the quickest of several
#define PROGRAM_MAX ((size_t)1 << 30)

// What each rank says of itself.
struct rank_facts {
    char host[256], isa[16];
    uint64_t program; // hash of the binary
    uint32_t cpus, cpus_host;
    cpu_set_t mask;
};

struct rank_clock {
    double off, trip; // seconds: its clock against rank 0's; a message there and back
};

static uint64_t facts_program(void) {
    struct file_map map;
    if (file_map_open(&map, "/proc/self/exe") != STATUS_OK)
        return 0;
    uint64_t hash = hash64(map.at, map.size);
    file_map_close(&map);
    return hash;
}

static void facts_fill(struct rank_facts *out, const struct comm *comm) {
    enum isa isa = isa_best();
    *out = (struct rank_facts){.program = facts_program(), .cpus = pool_cpus(), .cpus_host = pool_cpus_host()};
    memcpy(out->host, comm->host, sizeof out->host);
    if (isa_choose(&isa) != STATUS_OK)
        isa = ISA_PLAIN;
    snprintf(out->isa, sizeof out->isa, "%s", isa_name(isa));
    if (sched_getaffinity(0, sizeof out->mask, &out->mask) != 0)
        CPU_ZERO(&out->mask);
}

static double clock_now(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Rank 0 asks `peer` for its time a few times; the quickest answer says most: its clock was read in the middle.
static enum status clock_ask(struct rank_clock *out, struct comm *comm, int peer) {
    out->trip = INFINITY;
    for (int i = 0; i < CLOCK_ROUNDS; i++) {
        char ask = 0;
        double theirs, before = clock_now(CLOCK_REALTIME), start = clock_now(CLOCK_MONOTONIC);
        TRY(comm_send(comm, peer, &ask, sizeof ask));
        TRY(comm_receive(comm, peer, &theirs, sizeof theirs));
        double trip = clock_now(CLOCK_MONOTONIC) - start;
        if (trip < out->trip)
            *out = (struct rank_clock){theirs - (before + trip / 2), trip};
    }
    return STATUS_OK;
}

static enum status clock_answer(struct comm *comm) {
    for (int i = 0; i < CLOCK_ROUNDS; i++) {
        char ask;
        TRY(comm_receive(comm, 0, &ask, sizeof ask));
        double mine = clock_now(CLOCK_REALTIME);
        TRY(comm_send(comm, 0, &mine, sizeof mine));
    }
    return STATUS_OK;
}

static enum status clocks_ask(struct rank_clock *out, struct comm *comm) {
    for (int peer = 1; peer < comm->world; peer++) {
        if (comm->rank == 0)
            TRY(clock_ask(&out[peer], comm, peer));
        else if (comm->rank == peer)
            TRY(clock_answer(comm));
        TRY(comm_barrier(comm)); // nobody waits in a message meant for another
    }
    return STATUS_OK;
}

// ---- what rank 0 says

static bool facts_first_of_host(const struct rank_facts *at, int rank) {
    for (int i = 0; i < rank; i++)
        if (strcmp(at[i].host, at[rank].host) == 0)
            return false;
    return true;
}

static void say_world(struct doctor *d, const struct rank_facts *at, int n) {
    struct text hosts = {0};
    int count = 0;
    for (int i = 0; i < n; i++) {
        int ranks = 0;
        if (!facts_first_of_host(at, i))
            continue;
        for (int k = i; k < n; k++)
            ranks += strcmp(at[k].host, at[i].host) == 0;
        if (count++ < 8)
            text_printf(&hosts, "%s%s %d", count > 1 ? ", " : "", at[i].host, ranks);
    }
    doctor_ok(d, "%d rank%s on %d host%s (%s%s) over %s", n, n == 1 ? "" : "s", count, count == 1 ? "" : "s",
              text_string(&hosts) ? text_string(&hosts) : "", count > 8 ? ", …" : "", d->comm->ops->name);
    text_release(&hosts);
}

static void say_programs(struct doctor *d, const struct rank_facts *at, int n) {
    for (int i = 1; i < n; i++)
        if (at[i].program != at[0].program) {
            doctor_fail(d, STATUS_USAGE, "start the same binary on every host: copy it, or use a shared folder",
                        "rank %d on %s runs another program than rank 0 on %s", i, at[i].host, at[0].host);
            return;
        }
    doctor_ok(d, "the same program everywhere");
}

static void say_kernels(struct doctor *d, const struct rank_facts *at, int n) {
    char fix[96];
    for (int i = 1; i < n; i++)
        if (strcmp(at[i].isa, at[0].isa) != 0) {
            snprintf(fix, sizeof fix, "use hosts of one kind, or FINETUNED_ISA=avx2 (or plain) on all of them");
            doctor_warn(d, fix, "rank 0 on %s has %s kernels, rank %d on %s has %s: the slowest sets the pace",
                        at[0].host, at[0].isa, i, at[i].host, at[i].isa);
            return;
        }
}

// CPUs that ranks of the host of rank `first` share, or have alone.
static void say_host_cpus(struct doctor *d, const struct rank_facts *at, int n, int first) {
    cpu_set_t all, both;
    unsigned ranks = 0, sum = 0, least = UINT32_MAX;
    CPU_ZERO(&all);
    for (int i = first; i < n; i++)
        if (strcmp(at[i].host, at[first].host) == 0) {
            ranks++;
            sum += at[i].cpus;
            least = at[i].cpus < least ? at[i].cpus : least;
            CPU_OR(&both, &all, &at[i].mask);
            all = both;
        }
    unsigned cpus = (unsigned)CPU_COUNT(&all), host = at[first].cpus_host;
    static const char fix[] = "mpirun --bind-to none, or --map-by slot:PE=n with n = CPUs / ranks";
    if (cpus < ranks)
        doctor_warn(d, "start fewer ranks on this host", "%s: %u ranks share %u CPU%s", at[first].host, ranks, cpus,
                    cpus == 1 ? "" : "s");
    else if (least == 1 && host > ranks)
        doctor_warn(d, fix, "%s: a rank may use one CPU of %u, where there would be %u each", at[first].host, host,
                    host / ranks);
    else if (cpus < host && sum == cpus)
        doctor_ok(d, "%s: %u rank%s on %u of %u CPUs, none shared", at[first].host, ranks, ranks == 1 ? "" : "s", cpus,
                  host);
    else
        doctor_ok(d, "%s: %u rank%s on %u CPUs%s", at[first].host, ranks, ranks == 1 ? "" : "s", cpus,
                  sum > cpus ? ", shared out among them" : "");
}

static void say_cpus(struct doctor *d, const struct rank_facts *at, int n) {
    for (int i = 0; i < n; i++)
        if (facts_first_of_host(at, i))
            say_host_cpus(d, at, n, i);
}

static void say_clocks(struct doctor *d, const struct rank_facts *at, const struct rank_clock *clocks, int n) {
    int off = 0, slow = 0;
    for (int i = 1; i < n; i++) {
        off = fabs(clocks[i].off) > fabs(clocks[off].off) ? i : off;
        slow = clocks[i].trip > clocks[slow].trip ? i : slow;
    }
    if (n == 1)
        return;
    if (fabs(clocks[off].off) > CLOCK_OFF)
        doctor_warn(d, "synchronise the hosts' clocks (chronyd)", "the clock of %s is %.3f s off that of %s",
                    at[off].host, clocks[off].off, at[0].host);
    else
        doctor_ok(d, "clocks agree within %.6f s", fabs(clocks[off].off));
    if (clocks[slow].trip > TRIP_SLOW)
        doctor_warn(d, "look at the network, or whether ranks share CPUs",
                    "a message from rank 0 to rank %d on %s and back takes %.1f ms at best", slow, at[slow].host,
                    1e3 * clocks[slow].trip);
    else
        doctor_ok(d, "a small message and its answer take at most %.1f µs", 1e6 * clocks[slow].trip);
}

static void say_all(struct doctor *d, const struct rank_facts *at, const struct rank_clock *clocks, int n) {
    say_world(d, at, n);
    say_programs(d, at, n);
    say_kernels(d, at, n);
    say_cpus(d, at, n);
    say_clocks(d, at, clocks, n);
}

void doctor_world(struct doctor *d) {
    struct comm *comm = d->comm;
    if (d->comm_status != STATUS_OK)
        doctor_fail(d, d->comm_status, "start under mpirun or srun --mpi=pmix, or without --mpi", "%s",
                    d->comm_message ? d->comm_message : "MPI does not start");
    if (!comm)
        return;
    struct rank_facts *all = calloc((size_t)comm->world, sizeof *all), mine;
    struct rank_clock *clocks = calloc((size_t)comm->world, sizeof *clocks);
    enum status status = comm_agree(comm, all && clocks ? STATUS_OK : status_set(STATUS_SYSTEM, "doctor: no memory"));
    facts_fill(&mine, comm);
    if (status == STATUS_OK)
        status = comm_all_gather(comm, &mine, all, sizeof mine);
    if (status == STATUS_OK)
        status = clocks_ask(clocks, comm);
    if (status != STATUS_OK)
        doctor_fail(d, status, "see the message", "%s", status_message());
    else if (comm->rank == 0)
        say_all(d, all, clocks, comm->world);
    free(clocks);
    free(all);
}
