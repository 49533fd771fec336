// SPDX-License-Identifier: Apache-2.0
// Who notices that a rank is lost or stuck, and ends the job. Beside MPI: each rank has a thread that never calls MPI
// and a TCP connection to rank 0 (a star), over which each says a few times a second that it lives, what it is at and
// its last step (base/pulse.h).
//
// lost   its connection ended without a good-bye: it was killed, or crashed
// stuck  no beat of it for comm.timeout, by its own watching; or it said nothing at all for so long (it was stopped,
//        its host or the network between is gone)
// slow   it beats, and the others wait for it most of the time: logged, and waited for
//
// Rank 0 says it in one line and ends all ranks with exit code 75; where rank 0 is the one, the lowest rank that lives
// says it. Time is counted in ticks of the watching thread, so that a process or a host that was suspended does not
// take its own sleep for another's silence.
#ifndef FINETUNED_COMM_WATCH_H
#define FINETUNED_COMM_WATCH_H

#include "base/pulse.h"
#include "comm/comm.h"

// What ended the job.
struct watch_loss {
    const char *reason; // "peer_lost", "timeout", "error" (a rank ended all by comm_abort)
    int rank;           // the one that is lost or stuck
    const char *host;
    enum pulse_operation operation; // what it was at, and its last step, as far as known
    uint64_t step;
    int exit_code;
};

// Told of a loss, on a thread of the watch, by the rank that says it: writes what must be written, in 2 s at most; the
// process then ends. Returns false if another rank has said it already: then no line is logged.
typedef bool watch_teller(void *context, const struct watch_loss *loss);

// Begins the watch of a world of several ranks (one rank: nothing to do). Collective. `timeout`: seconds. A rank that
// can't connect is said once, with what follows from it; that is no failure. STATUS_TIMEOUT: some rank did not come.
enum status comm_watch(struct comm *comm, double timeout);
// Who is told; NULL: nobody.
void comm_watch_tell(struct comm *comm, watch_teller *teller, void *context);

#endif
