// SPDX-License-Identifier: Apache-2.0
// The watch's threads: one that looks (sockets, ticks, decisions), and one that tells, since writing a line or an event
// may itself get stuck on what the process is stuck on.
#include "comm/watch.h"

#include "base/clock.h"
#include "base/log.h"
#include "comm/watch_parts.h"
#include "comm/watch_state.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define GRACE_S 0.25   // a closed connection: a launcher that ends us all is left to do so
#define TURN_S 0.3     // rank 0 is lost: each rank leaves the ranks below it so long to say it
#define TURNS_S 5.0    // at most
#define ANSWER_S 2.0   // rank 0 does not take notice of what it is told
#define ABORT_S 3.0    // after an abort, for the launcher to end us
#define TELL_S 2       // for the line and the event
#define STRANGER_S 5.0 // for a hello

// ---- time

unsigned watch_ticks(const struct watch *w, double seconds) {
    return (unsigned)(seconds / w->tick_s) + 1;
}

// How much later rank r says that rank 0 is lost: those below it come first.
static unsigned ticks_turn(const struct watch *w) {
    double turn = w->rank > 1 ? (w->rank - 1) * TURN_S : 0;
    return (unsigned)((turn < TURNS_S ? turn : TURNS_S) / w->tick_s);
}

static void peer_closed(struct watch *w, struct peer *peer);
static void peer_read(struct watch *w, struct peer *peer);

// ---- the end

void *watch_teller_main(void *context) {
    struct watch *w = context;
    for (;;) {
        while (sem_wait(&w->tell) != 0)
            continue;
        if (w->closing)
            return NULL;
        pthread_mutex_lock(&w->lock);
        bool first = !w->teller || w->teller(w->teller_context, &w->loss);
        pthread_mutex_unlock(&w->lock);
        if (first && w->line[0])
            log_error("%s", w->line);
        sem_post(&w->told);
    }
}

static void tell(struct watch *w) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += TELL_S;
    sem_post(&w->tell);
    while (sem_timedwait(&w->told, &until) != 0 && errno == EINTR)
        continue;
}

static void note_fill(struct watch_note *out, enum watch_kind kind, const struct pulse *pulse) {
    *out = (struct watch_note){.magic = WATCH_MAGIC,
                               .kind = (uint8_t)kind,
                               .operation = (uint8_t)pulse->main.operation,
                               .waits = pulse->waits,
                               .wait = pulse->wait,
                               .step = pulse->step,
                               .waited = pulse->waited};
}

static void note_all(struct watch *w, enum watch_kind kind, int exit_code) {
    struct pulse now;
    struct watch_note note;
    pulse_read(&now);
    note_fill(&note, kind, &now);
    note.exit_code = exit_code;
    for (int i = 0; i < w->n; i++)
        if (w->peers[i].state == PEER_THERE)
            watch_send(&w->peers[i].line, &note);
}

// Says it, tells the others, ends this process. `how` goes behind the rank and host.
static void __attribute__((noreturn)) watch_say(struct watch *w, const struct watch_loss *loss, const char *how) {
    w->loss = *loss;
    snprintf(w->line, sizeof w->line,
             "rank %d (%s) %s in %s after step %llu: all ranks end (exit %d); start the same job again to go on from "
             "the newest checkpoint (checkpoints.resume: auto)",
             loss->rank, loss->host, how, pulse_name(loss->operation), (unsigned long long)loss->step, loss->exit_code);
    note_all(w, WATCH_END, loss->exit_code); // (rank 0, if it is stopped, finds it when it wakes up)
    tell(w);
    _exit(loss->exit_code);
}

// Its last step is at least this rank's own: no rank completes a step before all have taken part in it.
static struct watch_loss loss_of(const struct watch *w, const struct peer *peer, const char *reason) {
    return (struct watch_loss){.reason = reason,
                               .rank = peer->rank,
                               .host = w->hosts[peer->rank].name,
                               .operation = (enum pulse_operation)peer->last.operation,
                               .step = peer->last.step > w->own.step ? peer->last.step : w->own.step,
                               .exit_code = status_exit_code(STATUS_TIMEOUT)};
}

// ---- this rank

// Ticks since a line's last beat; one that is not active does not age.
static bool line_old(const struct watch *w, struct age *age, const struct pulse_line *now) {
    bool moved = !now->active || now->beats != age->beats;
    age->ticks = moved ? 0 : age->ticks + 1;
    age->beats = now->beats;
    return age->ticks > w->limit * (now->patient ? PULSE_PATIENCE : 1);
}

static bool line_stuck(struct watch *w, struct age *age, const struct pulse_line *now) {
    if (!line_old(w, age, now))
        return false;
    w->stuck_in = now->operation;
    w->stuck_s = w->timeout * (now->patient ? PULSE_PATIENCE : 1);
    return true;
}

// Whether this process is stuck. The main thread may wait for one in the background that goes on, which is watched for
// itself.
static bool own_stuck(struct watch *w, const struct pulse *now) {
    bool stuck = false, moved = false;
    for (unsigned i = 0; i < PULSE_BACKGROUND; i++) {
        moved = moved || now->background[i].beats != w->background[i].beats;
        stuck = line_stuck(w, &w->background[i], &now->background[i]) || stuck;
    }
    if (moved)
        w->main.ticks = 0;
    return stuck || line_stuck(w, &w->main, &now->main);
}

static struct watch_loss loss_own(const struct watch *w, enum pulse_operation operation, uint64_t step) {
    return (struct watch_loss){.reason = "timeout",
                               .rank = w->rank,
                               .host = w->hosts[w->rank].name,
                               .operation = operation,
                               .step = step,
                               .exit_code = status_exit_code(STATUS_TIMEOUT)};
}

static void __attribute__((noreturn)) say_stuck(struct watch *w, const struct watch_loss *loss, double seconds) {
    char how[64];
    snprintf(how, sizeof how, "has made no progress for %g s,", seconds);
    watch_say(w, loss, how);
}

// A good-bye may have come before the line broke.
static void peer_broken(struct watch *w, struct peer *peer) {
    peer_read(w, peer);
    if (peer->line.fd >= 0)
        peer_closed(w, peer);
}

// Rank 0 is to say it; where it does not, this rank does.
static void own_look(struct watch *w) {
    struct pulse now;
    struct watch_note note;
    pulse_read(&now);
    bool last = w->stuck == 1;
    w->stuck = w->stuck ? w->stuck - 1 : own_stuck(w, &now) ? watch_ticks(w, ANSWER_S) : 0;
    if (last || (w->stuck && (w->rank == 0 || w->peers[0].state != PEER_THERE))) {
        struct watch_loss loss = loss_own(w, w->stuck_in, now.step);
        say_stuck(w, &loss, w->stuck_s);
    }
    note_fill(&note, w->stuck ? WATCH_STUCK : WATCH_BEAT, &now);
    w->own = note;
    if (w->stuck) {
        note.operation = (uint8_t)w->stuck_in;
        note.waited = w->stuck_s;
    }
    for (int i = 0; i < w->n; i++)
        if (w->peers[i].state == PEER_THERE && !watch_send(&w->peers[i].line, &note))
            peer_broken(w, &w->peers[i]);
}

// ---- the others

// A connection that ended. After a good-bye that is as it should be.
static void peer_closed(struct watch *w, struct peer *peer) {
    watch_line_close(&peer->line);
    if (peer->state != PEER_THERE)
        return;
    peer->state = PEER_CLOSED;
    peer->wait = watch_ticks(w, GRACE_S) + ticks_turn(w);
}

static void peer_aborts(struct watch *w, struct peer *peer, int exit_code) {
    peer->state = PEER_LEFT;
    if (w->rank != 0 || w->ending)
        return;
    note_all(w, WATCH_ABORT, exit_code);
    w->loss = loss_of(w, peer, "error");
    w->loss.exit_code = exit_code;
    tell(w); // its line is the aborting rank's own
}

static void peer_note(struct watch *w, struct peer *peer, const struct watch_note *note) {
    peer->wait = 0;
    peer->last = *note;
    if (note->kind == WATCH_STUCK && w->rank == 0) {
        struct watch_loss loss = loss_of(w, peer, "timeout");
        say_stuck(w, &loss, note->waited);
    }
    if (note->kind == WATCH_END) {
        if (w->rank == 0)
            note_all(w, WATCH_END, note->exit_code);
        _exit(note->exit_code);
    }
    if (note->kind == WATCH_BYE)
        peer->state = PEER_LEFT;
    if (note->kind == WATCH_ABORT) {
        peer_aborts(w, peer, note->exit_code);
        w->ending = w->ending ? w->ending : watch_ticks(w, ABORT_S);
        w->exit_code = note->exit_code;
    }
}

static void peer_read(struct watch *w, struct peer *peer) {
    struct watch_note note;
    int got;
    while (peer->line.fd >= 0 && (got = watch_receive(&peer->line, &note)) != 0) {
        if (got > 0)
            peer_note(w, peer, &note);
        else
            peer_closed(w, peer);
    }
}

// A tick without a note is silence; after a closed connection it is the grace that runs.
static void peer_look(struct watch *w, struct peer *peer) {
    if (peer->state == PEER_CLOSED && --peer->wait == 0) {
        struct watch_loss loss = loss_of(w, peer, "peer_lost");
        watch_say(w, &loss, "is lost (its connection ended without a good-bye), it was last heard of");
    }
    if (peer->state == PEER_THERE && ++peer->wait > w->limit + ticks_turn(w)) {
        struct watch_loss loss = loss_of(w, peer, "timeout");
        char how[64];
        snprintf(how, sizeof how, "has not answered for %g s, it was last heard of", w->timeout);
        watch_say(w, &loss, how);
    }
}

// ---- who is slow (rank 0)

// How long ranks have waited for others in a span of comm.timeout seconds: if half of them did so most of the time,
// those that hardly did are the ones waited for.
static void slow_look(struct watch *w) {
    unsigned waiting = 0;
    double most = 0;
    if (++w->span < w->limit)
        return;
    w->span = 0;
    for (int r = 0; r < w->n; r++) {
        struct peer *peer = &w->peers[r];
        double now = r == 0 ? w->own.waited : peer->last.waited;
        peer->waited = now - peer->waited_before;
        peer->waited_before = now;
        waiting += peer->waited > 0.5 * w->timeout;
        most = peer->waited > most ? peer->waited : most;
    }
    if (2 * waiting < (unsigned)w->n)
        return;
    for (int r = 0; r < w->n; r++) {
        struct peer *peer = &w->peers[r];
        const struct watch_note *last = r == 0 ? &w->own : &peer->last;
        bool here = r == 0 || (peer->state == PEER_THERE && 4 * peer->wait < w->limit);
        if (peer->waited >= 0.25 * w->timeout || !here)
            continue;
        peer->slow++;
        if (peer->slow & (peer->slow - 1)) // the 1st, 2nd, 4th, 8th … time
            continue;
        log_warn("rank %d (%s) is slow: others have waited %.1f of %g s for it (now in %s after step %llu)", r,
                 w->hosts[r].name, most, w->timeout, pulse_name((enum pulse_operation)last->operation),
                 (unsigned long long)last->step);
    }
}

// ---- all wait for one another (rank 0)

static bool still_waits(struct peer *peer, const struct watch_note *last) {
    bool same = last->waits && last->wait == peer->wait_before;
    peer->wait_before = last->wait;
    return same;
}

// Every rank lives, and is in the same wait all the time: messages got lost, or ranks went different ways. A wait may
// be for very large messages: PULSE_PATIENCE.
static void deadlock_look(struct watch *w) {
    bool all = true;
    for (int r = 0; r < w->n; r++) {
        struct peer *peer = &w->peers[r];
        all = still_waits(peer, r == 0 ? &w->own : &peer->last) && all && (r == 0 || peer->state == PEER_THERE);
    }
    w->deadlock = all ? w->deadlock + 1 : 0;
    if (w->deadlock <= w->limit * PULSE_PATIENCE)
        return;
    struct watch_loss loss = loss_own(w, (enum pulse_operation)w->own.operation, w->own.step);
    char how[96];
    snprintf(how, sizeof how, "and all others have waited for one another for %g s,", w->timeout * PULSE_PATIENCE);
    watch_say(w, &loss, how);
}

// ---- who comes (rank 0)

static void stranger_drop(struct watch *w, unsigned i) {
    close(w->strangers[i].fd);
    w->strangers[i] = w->strangers[--w->n_strangers];
}

static void strangers_accept(struct watch *w) {
    int fd;
    while ((fd = accept4(w->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        if (w->n_strangers == WATCH_STRANGERS)
            stranger_drop(w, 0);
        w->strangers[w->n_strangers++] = (struct stranger){.fd = fd, .wait = watch_ticks(w, STRANGER_S)};
    }
}

// A whole hello makes it a peer, anything else is dropped.
static void stranger_read(struct watch *w, unsigned i) {
    struct stranger *s = &w->strangers[i];
    int rank;
    ssize_t n = recv(s->fd, (char *)&s->hello + s->got, sizeof s->hello - s->got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    s->got += n > 0 ? (size_t)n : 0;
    if (n > 0 && s->got < sizeof s->hello)
        return;
    if (n > 0 && watch_hello_valid(&rank, &s->hello, &w->invitation, w->n) && w->peers[rank].state == PEER_NONE &&
        send(s->fd, w->invitation.answer, WATCH_TOKEN, MSG_NOSIGNAL | MSG_DONTWAIT) == WATCH_TOKEN) {
        w->peers[rank].line.fd = s->fd;
        w->peers[rank].state = PEER_THERE;
        *s = w->strangers[--w->n_strangers];
        return;
    }
    stranger_drop(w, i);
}

void watch_listener_close(struct watch *w) {
    while (w->n_strangers > 0)
        stranger_drop(w, 0);
    if (w->listener >= 0)
        close(w->listener);
    w->listener = -1;
}

// ---- the thread

static void watch_tick(struct watch *w) {
    if (w->ending && --w->ending == 0)
        _exit(w->exit_code);
    for (unsigned i = w->n_strangers; i-- > 0;)
        if (--w->strangers[i].wait == 0)
            stranger_drop(w, i);
    own_look(w);
    for (int i = 0; i < w->n && !w->ending; i++)
        peer_look(w, &w->peers[i]);
    if (w->rank != 0)
        return;
    slow_look(w);
    if (!w->ending)
        deadlock_look(w);
}

static void watch_poll(struct watch *w, double left) {
    struct pollfd *polled = w->polled;
    nfds_t n = 0;
    polled[n++] = (struct pollfd){w->event, POLLIN, 0};
    polled[n++] = (struct pollfd){w->listener, POLLIN, 0};
    for (int i = 0; i < w->n; i++)
        polled[n++] = (struct pollfd){w->peers[i].line.fd, POLLIN, 0};
    unsigned strangers = w->n_strangers;
    for (unsigned i = 0; i < strangers; i++)
        polled[n++] = (struct pollfd){w->strangers[i].fd, POLLIN, 0};
    poll(polled, n, (int)(left * 1000) + 1);
    for (unsigned i = strangers; i-- > 0;)
        if (polled[2 + w->n + (int)i].revents)
            stranger_read(w, i);
    if (polled[1].revents && w->listener >= 0)
        strangers_accept(w);
    for (int i = 0; i < w->n; i++)
        if (w->peers[i].line.fd >= 0 && polled[2 + i].revents)
            peer_read(w, &w->peers[i]);
}

// What the main thread wants (watch_order); the event's bytes are only there to wake.
static bool watch_obey(struct watch *w) {
    uint64_t woken;
    if (read(w->event, &woken, sizeof woken) != sizeof woken)
        return true;
    int order = atomic_load(&w->order);
    if (order == ORDER_CLOSE_LISTENER)
        watch_listener_close(w);
    if (order == ORDER_ABORT)
        note_all(w, WATCH_ABORT, w->abort_code);
    if (order == ORDER_ABORT && w->rank == 0) {
        w->loss = loss_own(w, (enum pulse_operation)w->own.operation, w->own.step);
        w->loss.reason = "error";
        w->loss.exit_code = w->abort_code;
        tell(w);
    }
    if (order == ORDER_END)
        note_all(w, WATCH_BYE, 0);
    sem_post(&w->done);
    return order != ORDER_END;
}

void *watch_main(void *context) {
    struct watch *w = context;
    double next = clock_seconds() + w->tick_s;
    while (watch_obey(w)) {
        double now = clock_seconds();
        watch_poll(w, next > now ? next - now : 0);
        now = clock_seconds();
        if (now < next)
            continue;
        watch_tick(w);
        next = now + w->tick_s; // one tick, however long we slept
    }
    return NULL;
}
