// SPDX-License-Identifier: Apache-2.0
// The backend of a world of one: nothing to move but one's own bytes. There are no peers, so the functions that name
// one can't be reached through the checked wrappers.
#include "comm/parts.h"

#include <string.h>
#include <unistd.h>

static enum status self_barrier(struct comm *comm) {
    (void)comm;
    return STATUS_OK;
}

static enum status self_broadcast(struct comm *comm, void *bytes, size_t size, int root) {
    (void)comm, (void)bytes, (void)size, (void)root;
    return STATUS_OK;
}

static enum status self_exchange(struct comm *comm, int peer, const void *out, size_t size_out, void *in,
                                 size_t size_in) {
    (void)comm, (void)out, (void)size_out, (void)in, (void)size_in;
    return status_set(STATUS_ARGUMENT, "comm: self: exchange with rank %d: unsupported, the world is one rank", peer);
}

static enum status self_all_gather(struct comm *comm, const void *in, void *out, size_t size) {
    (void)comm;
    memmove(out, in, size);
    return STATUS_OK;
}

static enum status self_send(struct comm *comm, int peer, const void *bytes, size_t size) {
    (void)comm, (void)bytes, (void)size;
    return status_set(STATUS_ARGUMENT, "comm: self: send to rank %d: unsupported, the world is one rank", peer);
}

static enum status self_receive(struct comm *comm, int peer, void *bytes, size_t size) {
    (void)comm, (void)bytes, (void)size;
    return status_set(STATUS_ARGUMENT, "comm: self: receive from rank %d: unsupported, the world is one rank", peer);
}

static void __attribute__((noreturn)) self_abort(struct comm *comm, int exit_code) {
    (void)comm;
    _exit(exit_code);
}

static void self_close(struct comm *comm) {
    (void)comm;
}

static const struct comm_ops self_ops = {
    .name = "self",
    .barrier = self_barrier,
    .broadcast = self_broadcast,
    .exchange = self_exchange,
    .all_gather = self_all_gather,
    .send = self_send,
    .receive = self_receive,
    .abort = self_abort,
    .close = self_close,
};

enum status self_open(struct comm *comm) {
    comm->ops = &self_ops;
    comm->rank = comm->local_rank = 0;
    comm->world = comm->local_world = 1;
    if (gethostname(comm->host, sizeof comm->host - 1) != 0)
        memcpy(comm->host, "localhost", sizeof "localhost");
    return STATUS_OK;
}
