// SPDX-License-Identifier: Apache-2.0
// Faults that tests inject through FINETUNED_FAULT (syntax: comm/README.md): into a gradient, into a call of a backend
// (a decorator around it), or where a process comes to an operation (base/pulse.h).
#ifndef FINETUNED_COMM_FAULT_H
#define FINETUNED_COMM_FAULT_H

#include "base/pulse.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct comm;

enum comm_fault_kind {
    FAULT_NAN,     // this rank's gradients of cursors [cursor, cursor + count) get a NaN
    FAULT_DELAY,   // ms, in which the process lives
    FAULT_CORRUPT, // one bit of what the call receives
    FAULT_FAIL,    // the call says that the peer can't be reached
    FAULT_KILL,    // SIGKILL
    FAULT_STOP,    // SIGSTOP
    FAULT_HANG,    // never comes back
};

// The calls of a backend that a fault may count.
enum comm_call { CALL_ANY, CALL_BARRIER, CALL_BROADCAST, CALL_EXCHANGE, CALL_ALL_GATHER, CALL_SEND, CALL_RECEIVE };

struct comm_fault {
    enum comm_fault_kind kind;
    int rank;
    uint64_t cursor; // FAULT_NAN
    uint64_t call;   // the others: strikes the call-th time, from 1, and the count - 1 times after it
    uint64_t count;
    enum comm_call of;       // of which calls, if `staged` is not set
    bool staged;             // at an operation, not in a call
    enum pulse_operation at; // staged: which,
    uint64_t step;           // after how many steps; UINT64_MAX: any
    uint64_t ms;             // FAULT_DELAY
    uint64_t bit;            // FAULT_CORRUPT: modulo those of the message
};
#define COMM_FAULTS 8

// Faults for tests, from FINETUNED_FAULT in the environment; comm_open reads it and refuses what it does not know. A
// pure function of the string (NULL: no faults): STATUS_USAGE if it is not of the form "kind:key=value,…;kind:…".
enum status comm_faults_parse(struct comm_fault out[COMM_FAULTS], unsigned *n, const char *string);
bool comm_fault_nan(const struct comm *comm, uint64_t cursor); // whether this rank is to poison this cursor's gradient

// Puts this rank's faults into their places: *comm may become a decorator around what it was.
enum status comm_faults_place(struct comm **comm);
void comm_faults_lift(void); // at the end of a world

#endif
