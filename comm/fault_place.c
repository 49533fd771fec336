// SPDX-License-Identifier: Apache-2.0
// Faults in their places: a decorator around a backend for those that count calls (neither knows of the other), and
// pulse's hook for those that wait for an operation.
#include "comm/fault.h"

#include "comm/comm.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NAP_MS 10u

bool comm_fault_nan(const struct comm *comm, uint64_t cursor) {
    for (unsigned i = 0; i < comm->n_faults; i++) {
        const struct comm_fault *fault = &comm->faults[i];
        if (fault->kind == FAULT_NAN && fault->rank == comm->rank && cursor >= fault->cursor &&
            cursor - fault->cursor < fault->count)
            return true;
    }
    return false;
}

// Slow, not stuck.
static void fault_delay(uint64_t ms) {
    for (uint64_t done = 0; done < ms; done += NAP_MS) {
        nanosleep(&(struct timespec){.tv_nsec = NAP_MS * 1000000}, NULL);
        pulse_beat();
    }
}

static void fault_strike(const struct comm_fault *fault) {
    if (fault->kind == FAULT_DELAY)
        fault_delay(fault->ms);
    if (fault->kind == FAULT_KILL)
        raise(SIGKILL);
    if (fault->kind == FAULT_STOP)
        kill(getpid(), SIGSTOP); // all threads, whoever's this is
    while (fault->kind == FAULT_HANG)
        pause();
}

static bool fault_due(const struct comm_fault *fault, uint64_t number) {
    return number >= fault->call && number - fault->call < fault->count;
}

// ---- at an operation

static struct comm_fault staged[COMM_FAULTS];
static _Atomic uint64_t staged_seen[COMM_FAULTS];
static unsigned n_staged;

static void fault_hook(enum pulse_operation operation, uint64_t step) {
    for (unsigned i = 0; i < n_staged; i++)
        if (staged[i].at == operation && (staged[i].step == UINT64_MAX || staged[i].step == step) &&
            fault_due(&staged[i], atomic_fetch_add(&staged_seen[i], 1) + 1))
            fault_strike(&staged[i]);
}

// ---- in a call

struct fault_state {
    uint64_t seen[COMM_FAULTS];
};

// What of a call is due: counts it for each fault, strikes with those that do not need its bytes.
static enum status fault_before(struct comm *comm, enum comm_call call, const struct comm_fault **corrupt) {
    struct fault_state *state = comm->state;
    *corrupt = NULL;
    for (unsigned i = 0; i < comm->n_faults; i++) {
        const struct comm_fault *fault = &comm->faults[i];
        bool counts = fault->rank == comm->rank && fault->kind != FAULT_NAN && !fault->staged &&
                      (fault->of == CALL_ANY || fault->of == call);
        if (!counts || !fault_due(fault, ++state->seen[i]))
            continue;
        if (fault->kind == FAULT_FAIL)
            return status_set(STATUS_REMOTE, "comm: call %llu on rank %d (%s) fails, as FINETUNED_FAULT says",
                              (unsigned long long)state->seen[i], comm->rank, comm->host);
        if (fault->kind == FAULT_CORRUPT)
            *corrupt = fault;
        fault_strike(fault);
    }
    return STATUS_OK;
}

static void fault_corrupt(const struct comm_fault *fault, void *bytes, size_t size) {
    if (fault && size > 0)
        ((unsigned char *)bytes)[fault->bit / 8 % size] ^= (unsigned char)(1u << fault->bit % 8);
}

static enum status fault_barrier(struct comm *comm) {
    const struct comm_fault *corrupt;
    TRY(fault_before(comm, CALL_BARRIER, &corrupt));
    return comm->inner->ops->barrier(comm->inner);
}

static enum status fault_broadcast(struct comm *comm, void *bytes, size_t size, int root) {
    const struct comm_fault *corrupt;
    TRY(fault_before(comm, CALL_BROADCAST, &corrupt));
    TRY(comm->inner->ops->broadcast(comm->inner, bytes, size, root));
    if (root != comm->rank)
        fault_corrupt(corrupt, bytes, size);
    return STATUS_OK;
}

static enum status fault_exchange(struct comm *comm, int peer, const void *out, size_t size_out, void *in,
                                  size_t size_in) {
    const struct comm_fault *corrupt;
    TRY(fault_before(comm, CALL_EXCHANGE, &corrupt));
    TRY(comm->inner->ops->exchange(comm->inner, peer, out, size_out, in, size_in));
    fault_corrupt(corrupt, in, size_in);
    return STATUS_OK;
}

static enum status fault_all_gather(struct comm *comm, const void *in, void *out, size_t size) {
    const struct comm_fault *corrupt;
    TRY(fault_before(comm, CALL_ALL_GATHER, &corrupt));
    TRY(comm->inner->ops->all_gather(comm->inner, in, out, size));
    fault_corrupt(corrupt, out, size * (size_t)comm->world);
    return STATUS_OK;
}

static enum status fault_send(struct comm *comm, int peer, const void *bytes, size_t size) {
    const struct comm_fault *corrupt;
    TRY(fault_before(comm, CALL_SEND, &corrupt));
    return comm->inner->ops->send(comm->inner, peer, bytes, size);
}

static enum status fault_receive(struct comm *comm, int peer, void *bytes, size_t size) {
    const struct comm_fault *corrupt;
    TRY(fault_before(comm, CALL_RECEIVE, &corrupt));
    TRY(comm->inner->ops->receive(comm->inner, peer, bytes, size));
    fault_corrupt(corrupt, bytes, size);
    return STATUS_OK;
}

static void __attribute__((noreturn)) fault_abort(struct comm *comm, int exit_code) {
    comm->inner->ops->abort(comm->inner, exit_code);
    _exit(exit_code);
}

static void fault_close(struct comm *comm) {
    comm->inner->ops->close(comm->inner);
    free(comm->inner);
    free(comm->state);
    free((void *)(uintptr_t)comm->ops);
}

// It goes by the name of what it stands before.
static enum status fault_wrap(struct comm **comm) {
    struct comm *outer = malloc(sizeof *outer);
    struct comm_ops *ops = malloc(sizeof *ops);
    struct fault_state *state = calloc(1, sizeof *state);
    if (!outer || !ops || !state) {
        free(outer);
        free(ops);
        free(state);
        return status_set(STATUS_SYSTEM, "comm: no memory");
    }
    *outer = **comm;
    *ops = (struct comm_ops){.name = (*comm)->ops->name,
                             .barrier = fault_barrier,
                             .broadcast = fault_broadcast,
                             .exchange = fault_exchange,
                             .all_gather = fault_all_gather,
                             .send = fault_send,
                             .receive = fault_receive,
                             .abort = fault_abort,
                             .close = fault_close};
    outer->ops = ops;
    outer->state = state;
    outer->inner = *comm;
    *comm = outer;
    return STATUS_OK;
}

enum status comm_faults_place(struct comm **comm) {
    const struct comm *c = *comm;
    bool wraps = false;
    comm_faults_lift();
    for (unsigned i = 0; i < c->n_faults; i++) {
        const struct comm_fault *fault = &c->faults[i];
        if (fault->rank != c->rank || fault->kind == FAULT_NAN)
            continue;
        if (fault->staged)
            staged[n_staged++] = *fault;
        else
            wraps = true;
    }
    if (n_staged)
        pulse_hook_set(fault_hook);
    return wraps ? fault_wrap(comm) : STATUS_OK;
}

void comm_faults_lift(void) {
    pulse_hook_set(NULL);
    n_staged = 0;
    for (unsigned i = 0; i < COMM_FAULTS; i++)
        atomic_store(&staged_seen[i], 0);
}
