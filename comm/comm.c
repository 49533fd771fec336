// SPDX-License-Identifier: Apache-2.0
// Opening a world: what the environment says about a launcher, the guard against ranks that don't see one another, and
// the checked wrappers around a backend's functions.
#include "comm/comm.h"

#include "base/job.h"
#include "base/pulse.h"
#include "base/text.h"
#include "comm/parts.h"

#include <assert.h>
#include <stdlib.h>

// In order of preference: the first whose variable is set to more than 1 is named in the guard's message.
static const char *const task_variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"};

// How many tasks a launcher says it started; 1 if none says so.
static int64_t launcher_tasks(const char **variable) {
    for (size_t i = 0; i < sizeof task_variables / sizeof *task_variables; i++) {
        const char *value = getenv(task_variables[i]);
        int64_t tasks;
        if (value && text_to_i64(value, &tasks) && tasks > 1) {
            *variable = task_variables[i];
            return tasks;
        }
    }
    return 1;
}

// Whether we were started by something that Open MPI's MPI_Init can join: mpirun, or srun --mpi=pmix. A launcher that
// speaks only PMI-1 or PMI-2 (PMI_RANK) can't be joined; the guard then has its say.
static bool launcher_joinable(void) {
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK");
}

// A world of 1 where a launcher started several would be as many runs writing into the same folder.
static enum status launcher_guard(const struct comm *comm) {
    const char *variable = "";
    int64_t tasks = launcher_tasks(&variable);
    if (comm->world > 1 || tasks == 1)
        return STATUS_OK;
    return status_set(
        STATUS_USAGE,
        "comm: the launcher started %lld tasks (%s) but MPI sees one: start with mpirun or srun --mpi=pmix, "
        "or set comm.backend: self",
        (long long)tasks, variable);
}

static enum status backend_open(struct comm *comm, int backend) {
    if (backend == JOB_BACKEND_SELF)
        return self_open(comm);
    if (backend == JOB_BACKEND_OFI || backend == JOB_BACKEND_NCCL)
        return status_set(STATUS_USAGE, "comm.backend: %s: not in this version yet (use auto, mpi or self)",
                          backend == JOB_BACKEND_OFI ? "ofi" : "nccl");
    bool mpi = backend == JOB_BACKEND_MPI || launcher_joinable();
    TRY(mpi ? mpi_open(comm) : self_open(comm));
    return launcher_guard(comm);
}

static enum status faults_read(struct comm *comm) {
    TRY(comm_faults_parse(comm->faults, &comm->n_faults, getenv("FINETUNED_FAULT")));
    for (unsigned i = 0; i < comm->n_faults; i++)
        if (comm->faults[i].rank >= comm->world)
            return status_set(STATUS_USAGE, "FINETUNED_FAULT: rank=%d is not in this world of %d", comm->faults[i].rank,
                              comm->world);
    return STATUS_OK;
}

enum status comm_open(struct comm **out, int backend) {
    *out = NULL;
    struct comm *comm = calloc(1, sizeof *comm);
    if (!comm)
        return status_set(STATUS_SYSTEM, "comm: no memory");
    enum status status;
    TRY_GOTO(backend_open(comm, backend), fail);
    TRY_GOTO(faults_read(comm), fail);
    TRY_GOTO(comm_faults_place(&comm), fail);
    *out = comm;
    return STATUS_OK;
fail:
    comm_close(comm);
    return status;
}

void comm_close(struct comm *comm) {
    if (!comm)
        return;
    if (comm->alone && comm->world > 1)
        comm_abort(comm, status_exit_code(STATUS_REMOTE));
    pulse_set(PULSE_END);
    pulse_long();
    if (comm->ops)
        comm->ops->close(comm);
    comm_faults_lift();
    watch_close(comm); // others may be lost while MPI ends, which waits for them
    free(comm);
}

static void peer_check(const struct comm *comm, int peer) {
    assert(peer >= 0 && peer < comm->world && peer != comm->rank);
    (void)comm, (void)peer;
}

static enum status note(struct comm *comm, enum status status) {
    comm->alone = comm->alone || status == STATUS_REMOTE || status == STATUS_TIMEOUT;
    return status;
}

bool comm_speaks(const struct comm *comm) {
    return comm->rank == 0 || comm->alone;
}

enum status comm_barrier(struct comm *comm) {
    return note(comm, comm->ops->barrier(comm));
}

enum status comm_broadcast(struct comm *comm, void *bytes, size_t size, int root) {
    assert(root >= 0 && root < comm->world && (bytes || size == 0));
    return size ? note(comm, comm->ops->broadcast(comm, bytes, size, root)) : STATUS_OK;
}

enum status comm_exchange(struct comm *comm, int peer, const void *out, size_t size_out, void *in, size_t size_in) {
    peer_check(comm, peer);
    assert((out || size_out == 0) && (in || size_in == 0));
    return size_out || size_in ? note(comm, comm->ops->exchange(comm, peer, out, size_out, in, size_in)) : STATUS_OK;
}

enum status comm_all_gather(struct comm *comm, const void *in, void *out, size_t size) {
    assert((in && out) || size == 0);
    return size ? note(comm, comm->ops->all_gather(comm, in, out, size)) : STATUS_OK;
}

enum status comm_send(struct comm *comm, int peer, const void *bytes, size_t size) {
    peer_check(comm, peer);
    assert(bytes || size == 0);
    return size ? note(comm, comm->ops->send(comm, peer, bytes, size)) : STATUS_OK;
}

enum status comm_receive(struct comm *comm, int peer, void *bytes, size_t size) {
    peer_check(comm, peer);
    assert(bytes || size == 0);
    return size ? note(comm, comm->ops->receive(comm, peer, bytes, size)) : STATUS_OK;
}

void comm_abort(struct comm *comm, int exit_code) {
    watch_abort(comm, exit_code);
    comm->ops->abort(comm, exit_code);
}
