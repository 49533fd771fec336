// SPDX-License-Identifier: Apache-2.0
// Signs of life of this process, for whoever watches it (comm/watch.h): beats, counted; what it does now; its last
// step. Cheap (a few ns), lock-free, from any thread. Without a watcher nobody reads them.
//
// What must beat: whatever may take longer than comm.timeout in all (30 s by default), at least each few seconds.
// pool_run's tasks, the functions of base/file.h and base/hash.h and every wait over MPI do so themselves.
#ifndef FINETUNED_BASE_PULSE_H
#define FINETUNED_BASE_PULSE_H

#include <stdbool.h>
#include <stdint.h>

// What a process is at. Names and kinds: pulse.c.
enum pulse_operation {
    PULSE_START,
    PULSE_TOKENISE,
    PULSE_DATA,
    PULSE_UPDATE,
    PULSE_FORWARD,
    PULSE_LOSS,
    PULSE_BACKWARD,
    PULSE_REDUCE,
    PULSE_NORM,
    PULSE_AGREE,
    PULSE_BOUNDARY,
    PULSE_EVALUATE,
    PULSE_SAVE,
    PULSE_WRITE, // by a thread in the background
    PULSE_FINISH,
    PULSE_EXPORT,
    PULSE_REPORT,
    PULSE_END,
    PULSE_OPERATIONS
};

// Something moved on: a task is done, a block is written, a wait goes on.
void pulse_beat(void);
// Before a single call that can't beat and may take long (fsync, a library): up to this thread's next beat the process
// is given PULSE_PATIENCE times as long before it is held to be stuck.
#define PULSE_PATIENCE 10u
void pulse_long(void);

// What the main thread is at from now on; returns what it was at. A beat.
enum pulse_operation pulse_set(enum pulse_operation operation);
void pulse_step(uint64_t step); // completed steps
// The main thread waits for other ranks from here to there (beats stay its own affair). Not nested.
void pulse_wait_begin(void);
void pulse_wait_end(void);

// A thread that works in the background (a checkpoint's writer): between the two its beats are counted for themselves,
// and that it goes on is asked for itself, whatever other threads do.
void pulse_enter(enum pulse_operation operation);
void pulse_leave(void);

const char *pulse_name(enum pulse_operation operation);
// Whether all ranks are at it at the same pace: who is then waited for is slow. (Elsewhere, as in an export, one rank
// works and the others wait.)
bool pulse_shared(enum pulse_operation operation);
bool pulse_named(enum pulse_operation *out, const char *name);

// ---- for a watcher

#define PULSE_BACKGROUND 4u

struct pulse_line {
    bool active;    // of the background: between enter and leave
    bool patient;   // pulse_long, and no beat since
    uint64_t beats; // any change is progress
    enum pulse_operation operation;
};

struct pulse {
    struct pulse_line main; // always active; its beats are those of all threads that are not in the background
    struct pulse_line background[PULSE_BACKGROUND];
    uint64_t step;
    uint32_t wait; // number of its waits for other ranks
    bool waits;    // for other ranks, now
    double waited; // s for other ranks in shared operations, since the process began
};

void pulse_read(struct pulse *out);

// Called by pulse_set and pulse_enter on their thread, for faults that tests inject. NULL: none. Before threads start.
typedef void pulse_hook(enum pulse_operation operation, uint64_t step);
void pulse_hook_set(pulse_hook *hook);

#endif
