// SPDX-License-Identifier: Apache-2.0
// The watch's beginning, where all ranks meet, its end, and what the main thread orders of it in between.
#include "comm/watch.h"

#include "base/clock.h"
#include "base/log.h"
#include "comm/parts.h"
#include "comm/watch_state.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define TICK_MIN_S 0.05
#define TICK_MAX_S 0.5
#define TICKS 20      // of a timeout, at least
#define CONNECT_S 5.0 // for a connection to rank 0
#define ORDER_S 2     // for an order

// Has the thread do something; waits for it, `patience` seconds at most.
static void watch_order(struct watch *w, enum watch_orders order, int patience) {
    uint64_t one = 1;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += patience;
    atomic_store(&w->order, (int)order);
    if (write(w->event, &one, sizeof one) != sizeof one)
        return;
    while (sem_timedwait(&w->done, &until) != 0 && errno == EINTR)
        continue;
}

static enum status watch_threads(struct watch *w) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); // signals are for the main thread
    int error = pthread_create(&w->looks, NULL, watch_main, w);
    w->looking = error == 0;
    if (!error) {
        error = pthread_create(&w->tells, NULL, watch_teller_main, w);
        w->telling = error == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return error ? status_errno(STATUS_SYSTEM, "comm: the watch's threads") : STATUS_OK;
}

static enum status watch_new(struct watch **out, const struct comm *comm, double timeout) {
    struct watch *w = calloc(1, sizeof *w);
    *out = w;
    if (!w)
        return status_set(STATUS_SYSTEM, "comm: no memory for a watch");
    w->rank = comm->rank;
    w->n = comm->rank == 0 ? comm->world : 1;
    w->timeout = timeout;
    w->tick_s = timeout / TICKS < TICK_MIN_S ? TICK_MIN_S : timeout / TICKS > TICK_MAX_S ? TICK_MAX_S : timeout / TICKS;
    w->limit = watch_ticks(w, timeout);
    w->listener = -1;
    w->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    w->hosts = calloc((size_t)comm->world, sizeof *w->hosts);
    w->peers = calloc((size_t)w->n, sizeof *w->peers);
    w->polled = calloc((size_t)w->n + 2 + WATCH_STRANGERS, sizeof *w->polled);
    pthread_mutex_init(&w->lock, NULL);
    sem_init(&w->tell, 0, 0);
    sem_init(&w->told, 0, 0);
    sem_init(&w->done, 0, 0);
    if (w->event < 0 || !w->hosts || !w->peers || !w->polled)
        return status_set(STATUS_SYSTEM, "comm: no memory or no files left for a watch");
    for (int i = 0; i < w->n; i++) {
        w->peers[i].rank = i;
        w->peers[i].line.fd = -1;
    }
    return STATUS_OK;
}

static void watch_free(struct watch *w) {
    if (!w)
        return;
    if (w->looking) {
        watch_order(w, ORDER_END, ORDER_S);
        pthread_join(w->looks, NULL);
    }
    if (w->telling) {
        w->closing = true;
        sem_post(&w->tell);
        pthread_join(w->tells, NULL);
    }
    watch_listener_close(w);
    for (int i = 0; w->peers && i < w->n; i++)
        watch_line_close(&w->peers[i].line);
    if (w->event >= 0)
        close(w->event);
    pthread_mutex_destroy(&w->lock);
    sem_destroy(&w->tell);
    sem_destroy(&w->told);
    sem_destroy(&w->done);
    free(w->hosts);
    free(w->peers);
    free(w->polled);
    free(w);
}

// Which network this process is in: the kernel since its boot, and the namespace. "" if that can't be known.
static void host_network(char *out, size_t size) {
    char boot[64] = "", space[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, boot, sizeof boot - 1) : 0;
    if (fd >= 0)
        close(fd);
    ssize_t m = readlink("/proc/self/ns/net", space, sizeof space - 1);
    snprintf(out, size, "%.40s %.40s", n > 0 && m > 0 ? boot : "", n > 0 && m > 0 ? space : "");
}

static bool hosts_local(const struct watch *w, int world) {
    for (int r = 1; r < world; r++)
        if (memcmp(w->hosts[r].network, w->hosts[0].network, sizeof w->hosts[r].network) != 0)
            return false;
    return w->hosts[0].network[0] != ' ';
}

// Who is not connected to rank 0.
static void watch_missing(const struct comm *comm, const struct watch *w, const int32_t *connected) {
    int missing = 0, first = 0;
    for (int r = comm->world - 1; r > 0; r--) {
        missing += !connected[r];
        first = connected[r] ? first : r;
    }
    if (missing && comm->rank == 0)
        log_warn(
            "comm: %d rank%s can't be watched: no connection over TCP from rank %d (%s) to rank 0 (%s), port %u. "
            "If it is stopped or its host is lost, the others wait for the launcher to notice, not for comm.timeout",
            missing, missing == 1 ? "" : "s", first, w->hosts[first].name, w->hosts[0].name, w->invitation.port);
}

// What needs all ranks: where rank 0 is, who has come.
static enum status watch_meet(struct watch *w, struct comm *comm) {
    struct watch_host own = {0};
    snprintf(own.name, sizeof own.name, "%s", comm->host);
    host_network(own.network, sizeof own.network);
    TRY(comm_all_gather(comm, &own, w->hosts, sizeof own));
    bool local = hosts_local(w, comm->world);
    if (comm->rank == 0)
        w->listener = watch_listen(&w->invitation, local);
    TRY(comm_broadcast(comm, &w->invitation, sizeof w->invitation, 0));
    if (comm->rank != 0 && (w->peers[0].line.fd = watch_connect(&w->invitation, comm->rank, local, CONNECT_S)) >= 0)
        w->peers[0].state = PEER_THERE;
    enum status status = comm_agree(comm, watch_threads(w));
    int32_t connected = comm->rank == 0 || w->peers[0].line.fd >= 0;
    int32_t *all = calloc((size_t)comm->world, sizeof *all);
    if (status == STATUS_OK)
        status = comm_agree(comm, all ? STATUS_OK : status_set(STATUS_SYSTEM, "comm: no memory"));
    if (status == STATUS_OK)
        status = comm_all_gather(comm, &connected, all, sizeof connected);
    if (status == STATUS_OK)
        watch_missing(comm, w, all);
    if (w->looking)
        watch_order(w, ORDER_CLOSE_LISTENER, ORDER_S);
    free(all);
    return status;
}

static void deadline_set(struct comm *comm, double deadline) {
    for (; comm; comm = comm->inner)
        comm->deadline = deadline;
}

enum status comm_watch(struct comm *comm, double timeout) {
    if (comm->world == 1)
        return STATUS_OK;
    deadline_set(comm, clock_seconds() + CONNECT_S + timeout);
    enum status status = comm_agree(comm, watch_new(&comm->watch, comm, timeout));
    if (status == STATUS_OK)
        status = watch_meet(comm->watch, comm);
    deadline_set(comm, 0);
    if (status != STATUS_OK) {
        watch_free(comm->watch);
        comm->watch = NULL;
    }
    return status;
}

void comm_watch_tell(struct comm *comm, watch_teller *teller, void *context) {
    struct watch *w = comm->watch;
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->teller = teller;
    w->teller_context = context;
    pthread_mutex_unlock(&w->lock);
}

void watch_abort(struct comm *comm, int exit_code) {
    if (!comm->watch)
        return;
    comm->watch->abort_code = exit_code;
    watch_order(comm->watch, ORDER_ABORT, 1);
}

void watch_close(struct comm *comm) {
    watch_free(comm->watch);
    comm->watch = NULL;
}
