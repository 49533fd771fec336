// SPDX-License-Identifier: Apache-2.0
// The backend over MPI. Every wait is a loop of tests (mpi_wait) that spins for a moment, then gives up the processor:
// ranks may share cores, and a peer that computes must not be slowed down by one that waits.
#include "base/pulse.h"

#include "base/clock.h"
#include "comm/parts.h"

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// Open MPI 4.1 counts in int: longer messages go in pieces of this many bytes. (A test builds this file with small
// ones.)
#ifndef COMM_MPI_PIECE
#define COMM_MPI_PIECE (1 << 30)
#endif
#define PIECE ((size_t)COMM_MPI_PIECE)
#define TAG 1

#define SPINS 200    // tests before the processor is offered to others
#define YIELDS 2000  // offers before sleeping
#define NAP_NS 50000 // a sleep between tests

struct mpi_state {
    MPI_Comm world;
    char (*hosts)[256]; // by rank; only for messages
    bool finalize;
};

static struct mpi_state *mpi_of(struct comm *comm) {
    return comm->state;
}

// `peer` -1: all of them.
static enum status mpi_failed(struct comm *comm, int code, const char *operation, int peer) {
    char reason[MPI_MAX_ERROR_STRING] = "unknown error";
    int length = 0;
    MPI_Error_string(code, reason, &length);
    if (peer < 0)
        return status_set(STATUS_REMOTE, "comm: mpi: %s on rank %d (%s): %s", operation, comm->rank, comm->host,
                          reason);
    const char *host = mpi_of(comm)->hosts ? mpi_of(comm)->hosts[peer] : "?";
    return status_set(STATUS_REMOTE, "comm: mpi: %s of rank %d (%s) with rank %d (%s): %s", operation, comm->rank,
                      comm->host, peer, host, reason);
}

static void mpi_pause(unsigned turn) {
    if (turn < SPINS)
        return;
    if (turn == SPINS)
        pulse_wait_begin();
    pulse_beat();
    if (turn < SPINS + YIELDS)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

static bool mpi_over(const struct comm *comm) {
    return comm->deadline > 0 && clock_seconds() >= comm->deadline;
}

// Waits for n <= 2 requests. `got` (NULL: not asked): bytes that the last one received.
static enum status mpi_wait(struct comm *comm, MPI_Request *requests, int n, int *got, const char *operation,
                            int peer) {
    MPI_Status statuses[2];
    int done = 0;
    for (unsigned turn = 0; !done; turn += turn < SPINS + YIELDS) {
        int code = MPI_Testall(n, requests, &done, statuses);
        if (code != MPI_SUCCESS)
            return mpi_failed(comm, code, operation, peer);
        if (!done && mpi_over(comm))
            return status_set(STATUS_TIMEOUT, "comm: mpi: %s on rank %d (%s): another rank has not come", operation,
                              comm->rank, comm->host);
        if (!done)
            mpi_pause(turn);
        else if (turn > SPINS)
            pulse_wait_end();
    }
    if (got)
        MPI_Get_count(&statuses[n - 1], MPI_BYTE, got);
    return STATUS_OK;
}

static size_t piece_size(size_t size, size_t at) {
    size_t left = at < size ? size - at : 0;
    return left < PIECE ? left : PIECE;
}

static enum status mpi_barrier(struct comm *comm) {
    MPI_Request request;
    int code = MPI_Ibarrier(mpi_of(comm)->world, &request);
    if (code != MPI_SUCCESS)
        return mpi_failed(comm, code, "barrier", -1);
    return mpi_wait(comm, &request, 1, NULL, "barrier", -1);
}

static enum status mpi_broadcast(struct comm *comm, void *bytes, size_t size, int root) {
    for (size_t at = 0; at < size; at += PIECE) {
        MPI_Request request;
        int code =
            MPI_Ibcast((char *)bytes + at, (int)piece_size(size, at), MPI_BYTE, root, mpi_of(comm)->world, &request);
        if (code != MPI_SUCCESS)
            return mpi_failed(comm, code, "broadcast", root == comm->rank ? -1 : root);
        TRY(mpi_wait(comm, &request, 1, NULL, "broadcast", root == comm->rank ? -1 : root));
    }
    return STATUS_OK;
}

// One piece each way; either may be empty, and is then not sent. Both sides know both sizes.
static enum status piece_exchange(struct comm *comm, int peer, const char *out, size_t size_out, char *in,
                                  size_t size_in, const char *operation) {
    MPI_Request requests[2];
    int n = 0, got = (int)size_in, code = MPI_SUCCESS;
    if (size_out)
        code = MPI_Isend(out, (int)size_out, MPI_BYTE, peer, TAG, mpi_of(comm)->world, &requests[n++]);
    if (code == MPI_SUCCESS && size_in)
        code = MPI_Irecv(in, (int)size_in, MPI_BYTE, peer, TAG, mpi_of(comm)->world, &requests[n++]);
    if (code != MPI_SUCCESS)
        return mpi_failed(comm, code, operation, peer);
    TRY(mpi_wait(comm, requests, n, size_in ? &got : NULL, operation, peer));
    if ((size_t)got != size_in)
        return status_set(STATUS_REMOTE, "comm: mpi: %s of rank %d with rank %d: %d bytes came, %zu were due",
                          operation, comm->rank, peer, got, size_in);
    return STATUS_OK;
}

static enum status mpi_move(struct comm *comm, int peer, const void *out, size_t size_out, void *in, size_t size_in,
                            const char *operation) {
    for (size_t at = 0; at < size_out || at < size_in; at += PIECE) {
        size_t n_out = piece_size(size_out, at), n_in = piece_size(size_in, at);
        TRY(piece_exchange(comm, peer, n_out ? (const char *)out + at : NULL, n_out, n_in ? (char *)in + at : NULL,
                           n_in, operation));
    }
    return STATUS_OK;
}

static enum status mpi_exchange(struct comm *comm, int peer, const void *out, size_t size_out, void *in,
                                size_t size_in) {
    return mpi_move(comm, peer, out, size_out, in, size_in, "exchange");
}

static enum status mpi_send(struct comm *comm, int peer, const void *bytes, size_t size) {
    return mpi_move(comm, peer, bytes, size, NULL, 0, "send");
}

static enum status mpi_receive(struct comm *comm, int peer, void *bytes, size_t size) {
    return mpi_move(comm, peer, NULL, 0, bytes, size, "receive");
}

// MPI's own all-gather lays the ranks' pieces side by side, so a message in pieces would be out of order: above INT_MAX
// each rank's bytes are broadcast instead.
static enum status mpi_all_gather(struct comm *comm, const void *in, void *out, size_t size) {
    if (size > PIECE) {
        memmove((char *)out + (size_t)comm->rank * size, in, size);
        for (int r = 0; r < comm->world; r++)
            TRY(mpi_broadcast(comm, (char *)out + (size_t)r * size, size, r));
        return STATUS_OK;
    }
    MPI_Request request;
    int code = MPI_Iallgather(in, (int)size, MPI_BYTE, out, (int)size, MPI_BYTE, mpi_of(comm)->world, &request);
    if (code != MPI_SUCCESS)
        return mpi_failed(comm, code, "all_gather", -1);
    return mpi_wait(comm, &request, 1, NULL, "all_gather", -1);
}

static void __attribute__((noreturn)) mpi_abort(struct comm *comm, int exit_code) {
    MPI_Abort(mpi_of(comm)->world, exit_code);
    _exit(exit_code);
}

static void mpi_close(struct comm *comm) {
    struct mpi_state *state = mpi_of(comm);
    if (state->world != MPI_COMM_NULL)
        MPI_Comm_free(&state->world);
    if (state->finalize)
        MPI_Finalize();
    free(state->hosts);
    free(state);
}

static const struct comm_ops mpi_ops = {
    .name = "mpi",
    .barrier = mpi_barrier,
    .broadcast = mpi_broadcast,
    .exchange = mpi_exchange,
    .all_gather = mpi_all_gather,
    .send = mpi_send,
    .receive = mpi_receive,
    .abort = mpi_abort,
    .close = mpi_close,
};

// Sets `mine` if it was us who initialised MPI. Without a launcher Open MPI would fork a daemon of its own: told not
// to.
static enum status mpi_initialise(bool *mine) {
    int before = 0, after = 0, level = MPI_THREAD_SINGLE;
    MPI_Finalized(&after);
    if (after)
        return status_set(STATUS_ARGUMENT, "comm: mpi: MPI was ended in this process already");
    MPI_Initialized(&before);
    if (!before) {
        if (!getenv("OMPI_COMM_WORLD_SIZE") && !getenv("PMIX_RANK"))
            setenv("OMPI_MCA_ess_singleton_isolated", "1", 1);
        if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS)
            return status_set(STATUS_DEVICE, "comm: mpi: MPI_Init failed");
        *mine = true;
    }
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_FUNNELED)
        return status_set(STATUS_SYSTEM, "comm: mpi: this MPI has no thread support (MPI_THREAD_FUNNELED is needed)");
    return STATUS_OK;
}

static enum status mpi_local(struct comm *comm) {
    MPI_Comm local;
    int code = MPI_Comm_split_type(mpi_of(comm)->world, MPI_COMM_TYPE_SHARED, comm->rank, MPI_INFO_NULL, &local);
    if (code != MPI_SUCCESS)
        return mpi_failed(comm, code, "split by host", -1);
    MPI_Comm_rank(local, &comm->local_rank);
    MPI_Comm_size(local, &comm->local_world);
    MPI_Comm_free(&local);
    return STATUS_OK;
}

// Our own communicator, so that nobody else's messages are mistaken for ours; its errors come back as codes.
static enum status mpi_join(struct comm *comm) {
    struct mpi_state *state = mpi_of(comm);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int code = MPI_Comm_dup(MPI_COMM_WORLD, &state->world);
    if (code != MPI_SUCCESS)
        return mpi_failed(comm, code, "start", -1);
    MPI_Comm_set_errhandler(state->world, MPI_ERRORS_RETURN);
    MPI_Comm_rank(state->world, &comm->rank);
    MPI_Comm_size(state->world, &comm->world);
    state->hosts = calloc((size_t)comm->world, sizeof *state->hosts);
    if (!state->hosts)
        return status_set(STATUS_SYSTEM, "comm: no memory for %d ranks", comm->world);
    return mpi_all_gather(comm, comm->host, state->hosts, sizeof comm->host);
}

enum status mpi_open(struct comm *comm) {
    struct mpi_state *state = calloc(1, sizeof *state);
    if (!state)
        return status_set(STATUS_SYSTEM, "comm: no memory");
    state->world = MPI_COMM_NULL;
    comm->ops = &mpi_ops;
    comm->state = state;
    if (gethostname(comm->host, sizeof comm->host - 1) != 0)
        memcpy(comm->host, "?", sizeof "?");
    TRY(mpi_initialise(&state->finalize));
    TRY(mpi_join(comm));
    return mpi_local(comm);
}

void comm_library(char *out, size_t size) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length); // may be asked before MPI_Init
    snprintf(out, size, "%.*s", (int)strcspn(text, ",\n"), text);
}
