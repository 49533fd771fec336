// SPDX-License-Identifier: Apache-2.0
// How a world ends or does not begin, under mpirun. Argument: what to do.
//   abort   rank 1 aborts with 75 while the others wait for it: all end, with 75
//   self    comm.backend self under a launcher of several: every process is a world of one, without MPI
//   guard   SLURM_NTASKS=2 in a world of one is refused, in a larger one it does not matter
//   fault   FINETUNED_FAULT that names a rank outside the world: refused on every rank
#include "base/job.h"
#include "comm/comm.h"

#include <mpi.h>
#include <string.h>
#include <unistd.h>

static int end_abort(void) {
    struct comm *comm;
    if (comm_open(&comm, JOB_BACKEND_MPI) != STATUS_OK)
        return 1;
    if (comm->rank == 1)
        comm_abort(comm, 75);
    comm_barrier(comm); // never comes back: rank 1 does not come
    sleep(60);
    return 1;
}

static int end_self(void) {
    struct comm *comm;
    int initialised = 1;
    if (comm_open(&comm, JOB_BACKEND_SELF) != STATUS_OK)
        return 1;
    MPI_Initialized(&initialised);
    int good = comm->world == 1 && comm->rank == 0 && !initialised;
    comm_close(comm);
    return good ? 0 : 1;
}

static int end_guard(void) {
    struct comm *comm;
    setenv("SLURM_NTASKS", "2", 1);
    enum status status = comm_open(&comm, JOB_BACKEND_AUTO);
    const char *world = getenv("OMPI_COMM_WORLD_SIZE");
    if (world && strcmp(world, "1") == 0)
        return status == STATUS_USAGE && !comm && strstr(status_message(), "started 2 tasks") ? 0 : 1;
    if (status != STATUS_OK || comm->world < 2)
        return 1;
    comm_close(comm);
    return 0;
}

static int end_fault(void) {
    struct comm *comm;
    setenv("FINETUNED_FAULT", "nan:rank=7,cursor=0", 1);
    enum status status = comm_open(&comm, JOB_BACKEND_AUTO);
    return status == STATUS_USAGE && !comm && strstr(status_message(), "world of 2") ? 0 : 1;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "abort") == 0)
        return end_abort();
    if (strcmp(what, "self") == 0)
        return end_self();
    if (strcmp(what, "guard") == 0)
        return end_guard();
    return strcmp(what, "fault") == 0 ? end_fault() : 1;
}
