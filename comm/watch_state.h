// SPDX-License-Identifier: Apache-2.0
// The state of a watch: the looking thread's, but for what is said to be shared.
#ifndef FINETUNED_COMM_WATCH_STATE_H
#define FINETUNED_COMM_WATCH_STATE_H

#include "comm/watch_parts.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#define WATCH_STRANGERS 64u // connections that have not said hello, at most

enum peer_state { PEER_NONE, PEER_THERE, PEER_CLOSED, PEER_LEFT };

// Of rank 0: one a rank (its own is empty); of the others: rank 0 alone.
struct peer {
    int rank;
    enum peer_state state;
    struct watch_line line;
    struct watch_note last;
    unsigned wait;                // ticks: of silence (there), until it is said (closed)
    double waited, waited_before; // s: in the last span, up to it
    unsigned slow;                // spans in which it was
    uint32_t wait_before;         // number of the wait it was in
};

struct stranger {
    int fd;
    unsigned wait; // ticks left
    size_t got;
    struct watch_hello hello;
};

struct watch_host {
    char name[256];
    char network[96];
};

struct age {
    uint64_t beats;
    unsigned ticks; // since they changed
};

enum watch_orders { ORDER_NONE, ORDER_CLOSE_LISTENER, ORDER_ABORT, ORDER_END };

struct watch {
    int rank, n; // n: peers
    double timeout, tick_s;
    unsigned limit; // ticks of a timeout
    struct peer *peers;
    struct pollfd *polled;    // (2 + n + WATCH_STRANGERS)
    struct watch_host *hosts; // (world)
    struct watch_note own;
    struct age main, background[PULSE_BACKGROUND];
    unsigned stuck; // ticks left for rank 0 to say that this rank is; 0: it is not
    enum pulse_operation stuck_in;
    double stuck_s;  // without a beat
    unsigned ending; // ticks left, after an abort
    int exit_code;
    unsigned span;     // ticks, for who is slow
    unsigned deadlock; // ticks in which all waited for one another

    int listener;
    struct watch_invitation invitation;
    struct stranger strangers[WATCH_STRANGERS];
    unsigned n_strangers;

    // the main thread's orders
    int event;
    atomic_int order;
    int abort_code; // before the order
    sem_t done;

    // to the telling thread
    sem_t tell, told;
    bool closing;
    struct watch_loss loss;
    char line[1024];
    pthread_mutex_t lock; // of the two below
    watch_teller *teller;
    void *teller_context;

    pthread_t looks, tells;
    bool looking, telling;
};

// ---- watch.c

unsigned watch_ticks(const struct watch *w, double seconds);
void *watch_main(void *watch);        // the thread that looks
void *watch_teller_main(void *watch); // the thread that tells
void watch_listener_close(struct watch *w);

#endif
