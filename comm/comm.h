// SPDX-License-Identifier: Apache-2.0
// Ranks and how they talk. A backend is one struct of functions (comm_ops); it moves bytes and knows nothing of models.
// The order of sums is ours (comm/reduce.c), the same over every backend.
#ifndef FINETUNED_COMM_COMM_H
#define FINETUNED_COMM_COMM_H

#include "base/status.h"
#include "comm/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct comm;

struct comm_ops {
    const char *name; // "self", "mpi"
    enum status (*barrier)(struct comm *comm);
    enum status (*broadcast)(struct comm *comm, void *bytes, size_t size, int root);
    // Sends `size_out` bytes to `peer` and receives `size_in` from it, at once.
    enum status (*exchange)(struct comm *comm, int peer, const void *out, size_t size_out, void *in, size_t size_in);
    // Everyone's `size` bytes, in rank order, into out [world * size].
    enum status (*all_gather)(struct comm *comm, const void *in, void *out, size_t size);
    enum status (*send)(struct comm *comm, int peer, const void *bytes, size_t size);
    enum status (*receive)(struct comm *comm, int peer, void *bytes, size_t size);
    // Ends every rank at once with this exit code; does not return.
    void (*abort)(struct comm *comm, int exit_code) __attribute__((noreturn));
    void (*close)(struct comm *comm);
};

struct comm {
    const struct comm_ops *ops;
    int rank, world;
    int local_rank, local_world; // among the ranks of this host
    char host[256];
    void *state;         // the backend's
    double deadline;     // of every wait, s of the monotonic clock; 0: none
    bool alone;          // it has lost the others
    struct watch *watch; // NULL: none (comm/watch.h)
    struct comm *inner;  // of a decorator
    struct comm_fault faults[COMM_FAULTS];
    unsigned n_faults;
};

// The world that a launcher started, or one rank. `backend`: enum job_backend (auto, self, mpi; others STATUS_USAGE
// "not in this version yet"). MPI is initialised only under a launcher (OMPI_COMM_WORLD_SIZE, PMIX_RANK, PMI_RANK …) or
// with backend mpi, MPI_THREAD_FUNNELED or above. The launcher guard (design, section 6): SLURM_NTASKS, PMI_SIZE or
// OMPI_COMM_WORLD_SIZE above 1 and a world of 1 is STATUS_USAGE with a hint unless `backend` is self.
enum status comm_open(struct comm **out, int backend);
// MPI_Finalize where we initialised it; NULL is fine. A rank that has lost the others (a wrapper gave STATUS_REMOTE or
// STATUS_TIMEOUT) can't: it ends them all, exit code 75.
void comm_close(struct comm *comm);

// Name and version of the MPI library: "Open MPI v4.1.4".
void comm_library(char *out, size_t size);

// Checked wrappers. A peer that can't be reached is STATUS_REMOTE, naming rank, host and operation.
enum status comm_barrier(struct comm *comm);
enum status comm_broadcast(struct comm *comm, void *bytes, size_t size, int root);
enum status comm_exchange(struct comm *comm, int peer, const void *out, size_t size_out, void *in, size_t size_in);
enum status comm_all_gather(struct comm *comm, const void *in, void *out, size_t size);
enum status comm_send(struct comm *comm, int peer, const void *bytes, size_t size);
enum status comm_receive(struct comm *comm, int peer, void *bytes, size_t size);
// Whether this rank logs why a run ends: rank 0, and one that has lost the others.
bool comm_speaks(const struct comm *comm);
// Ends every rank at once with this exit code.
void comm_abort(struct comm *comm, int exit_code) __attribute__((noreturn));

// All ranks leave with the same status: the lowest rank's that failed, with its message (prefixed by its rank and host
// on the others). Collective, but for a rank that has lost another one (STATUS_REMOTE, STATUS_TIMEOUT): it returns at
// once, since the others can't be reached.
enum status comm_agree(struct comm *comm, enum status mine);
// OR over ranks of a set of flags. Collective.
enum status comm_flags(struct comm *comm, uint32_t *flags);
// The same, and *other: the lowest rank whose `check` (a hash of what all ranks must have alike) is not rank 0's; -1:
// all are the same.
enum status comm_flags_check(struct comm *comm, uint32_t *flags, uint64_t check, int *other);
// Whether every rank holds the same bytes (hash compared). Collective. STATUS_DATA naming `what` if not.
enum status comm_same(struct comm *comm, const void *bytes, size_t size, const char *what);

// Sums over ranks in tree order, rank r holding leaf r: ((0+1)+(2+3))+…, in place, the result on every rank, bits equal
// on all. In a world that is no power of two the ranks are added in their order, ((0+1)+2)+…. scratch: at least n
// floats (or doubles).
enum status comm_tree_sum(struct comm *comm, float *values, size_t n, float *scratch);
enum status comm_tree_sum_double(struct comm *comm, double *values, size_t n, double *scratch);
// a[i] += b[i]: the one function that adds, for ranks and micro-batches alike.
void comm_add(float *a, const float *b, size_t n);

#endif
