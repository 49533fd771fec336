// SPDX-License-Identifier: Apache-2.0
// What ranks decide together: one status, one set of flags, whether they hold the same bytes.
#include "comm/comm.h"

#include "base/hash.h"

#include <stdlib.h>

// Everyone's `size` bytes in rank order, malloc'ed.
static enum status everyone(void **out, struct comm *comm, const void *mine, size_t size) {
    *out = calloc((size_t)comm->world, size);
    if (!*out)
        return status_set(STATUS_SYSTEM, "comm: no memory for %d ranks", comm->world);
    enum status status = comm_all_gather(comm, mine, *out, size);
    if (status != STATUS_OK) {
        free(*out);
        *out = NULL;
    }
    return status;
}

// Sent from the rank whose status is taken; fixed size, so that no length has to be agreed upon.
struct agree_note {
    char host[256];
    char message[1024];
};

static enum status agree_take(struct comm *comm, int rank, enum status status) {
    struct agree_note note = {0};
    if (rank == comm->rank) {
        snprintf(note.host, sizeof note.host, "%s", comm->host);
        snprintf(note.message, sizeof note.message, "%s", status_message());
    }
    TRY(comm_broadcast(comm, &note, sizeof note, rank));
    note.host[sizeof note.host - 1] = note.message[sizeof note.message - 1] = 0;
    if (rank == comm->rank)
        return status_set(status, "%s", note.message);
    return status_set(status, "rank %d (%s): %s", rank, note.host, note.message);
}

enum status comm_agree(struct comm *comm, enum status mine) {
    if (comm->world == 1 || mine == STATUS_REMOTE || mine == STATUS_TIMEOUT)
        return mine;
    int32_t own = mine, *all = NULL;
    char message[1024]; // the gathering itself may set another
    snprintf(message, sizeof message, "%s", status_message());
    TRY(everyone((void **)&all, comm, &own, sizeof own));
    int failed = 0;
    while (failed < comm->world && all[failed] == STATUS_OK)
        failed++;
    enum status theirs = failed < comm->world ? (enum status)all[failed] : STATUS_OK;
    free(all);
    if (failed == comm->world)
        return STATUS_OK;
    if (failed == comm->rank)
        status_set(mine, "%s", message);
    return agree_take(comm, failed, theirs);
}

enum status comm_flags(struct comm *comm, uint32_t *flags) {
    if (comm->world == 1)
        return STATUS_OK;
    uint32_t *all = NULL;
    TRY(everyone((void **)&all, comm, flags, sizeof *flags));
    for (int r = 0; r < comm->world; r++)
        *flags |= all[r];
    free(all);
    return STATUS_OK;
}

enum status comm_flags_check(struct comm *comm, uint32_t *flags, uint64_t check, int *other) {
    *other = -1;
    if (comm->world == 1)
        return STATUS_OK;
    struct {
        uint64_t check, flags;
    } own = {check, *flags}, *all = NULL;
    TRY(everyone((void **)&all, comm, &own, sizeof own));
    for (int r = comm->world - 1; r >= 0; r--) {
        *flags |= (uint32_t)all[r].flags;
        *other = all[r].check == all[0].check ? *other : r;
    }
    free(all);
    return STATUS_OK;
}

enum status comm_same(struct comm *comm, const void *bytes, size_t size, const char *what) {
    if (comm->world == 1)
        return STATUS_OK;
    uint64_t own[2] = {size, hash64(bytes, size)}, *all = NULL;
    TRY(everyone((void **)&all, comm, own, sizeof own));
    int other = 1;
    while (other < comm->world && all[2 * other] == all[0] && all[2 * other + 1] == all[1])
        other++;
    free(all);
    if (other == comm->world)
        return STATUS_OK;
    return status_set(STATUS_DATA,
                      "%s: rank %d holds other bytes than rank 0: every rank must see the same files and options", what,
                      other);
}
