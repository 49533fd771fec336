// SPDX-License-Identifier: Apache-2.0
// Each thread counts in a line of its own (of PULSE_SLOTS, shared by threads above that number), so that beats of many
// threads don't meet in one cache line. Everything is relaxed: a watcher looks again a moment later.
#include "base/pulse.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#define PULSE_SLOTS 32u // of threads in the foreground
#define PULSE_LINE 64u  // bytes

static const struct {
    const char *name;
    bool shared;
} operations[PULSE_OPERATIONS] = {
    [PULSE_START] = {"start", false},
    [PULSE_TOKENISE] = {"tokenising", false},
    [PULSE_DATA] = {"data", true},
    [PULSE_UPDATE] = {"update", true},
    [PULSE_FORWARD] = {"forward", true},
    [PULSE_LOSS] = {"loss", true},
    [PULSE_BACKWARD] = {"backward", true},
    [PULSE_REDUCE] = {"sum of gradients", true},
    [PULSE_NORM] = {"norm", true},
    [PULSE_AGREE] = {"agreement", true},
    [PULSE_BOUNDARY] = {"step boundary", true},
    [PULSE_EVALUATE] = {"evaluation", true},
    [PULSE_SAVE] = {"checkpoint", false},
    [PULSE_WRITE] = {"checkpoint write", false},
    [PULSE_FINISH] = {"best model", false},
    [PULSE_EXPORT] = {"export", false},
    [PULSE_REPORT] = {"report", false},
    [PULSE_END] = {"end", false},
};

struct slot {
    alignas(PULSE_LINE) _Atomic uint64_t beats;
    atomic_bool patient;
    atomic_bool active;   // of the background
    atomic_int operation; // of the background
};

static struct slot foreground[PULSE_SLOTS], background[PULSE_BACKGROUND];
static atomic_uint threads;
static _Thread_local struct slot *own;

static atomic_int operation_now;
static _Atomic uint64_t step_now;
static _Atomic int64_t wait_since; // ns of the monotonic clock; 0: the main thread does not wait
static _Atomic int64_t waited_ns;
static atomic_uint waits;
static pulse_hook *hook_now;

static struct slot *slot_own(void) {
    if (!own)
        own = &foreground[atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % PULSE_SLOTS];
    return own;
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void pulse_beat(void) {
    struct slot *slot = slot_own();
    atomic_fetch_add_explicit(&slot->beats, 1, memory_order_relaxed);
    if (atomic_load_explicit(&slot->patient, memory_order_relaxed))
        atomic_store_explicit(&slot->patient, false, memory_order_relaxed);
}

void pulse_long(void) {
    pulse_beat();
    atomic_store_explicit(&slot_own()->patient, true, memory_order_relaxed);
}

enum pulse_operation pulse_set(enum pulse_operation operation) {
    int before = atomic_exchange_explicit(&operation_now, (int)operation, memory_order_relaxed);
    pulse_beat();
    if (hook_now)
        hook_now(operation, atomic_load_explicit(&step_now, memory_order_relaxed));
    return (enum pulse_operation)before;
}

void pulse_step(uint64_t step) {
    atomic_store_explicit(&step_now, step, memory_order_relaxed);
}

void pulse_wait_begin(void) {
    atomic_store_explicit(&wait_since, now_ns(), memory_order_relaxed);
    atomic_fetch_add_explicit(&waits, 1, memory_order_relaxed);
}

void pulse_wait_end(void) {
    int64_t since = atomic_exchange_explicit(&wait_since, 0, memory_order_relaxed);
    if (since && pulse_shared((enum pulse_operation)atomic_load_explicit(&operation_now, memory_order_relaxed)))
        atomic_fetch_add_explicit(&waited_ns, now_ns() - since, memory_order_relaxed);
}

// All lines taken: the thread counts with the others.
void pulse_enter(enum pulse_operation operation) {
    for (unsigned i = 0; i < PULSE_BACKGROUND; i++) {
        bool free = false;
        if (!atomic_compare_exchange_strong(&background[i].active, &free, true))
            continue;
        atomic_store_explicit(&background[i].operation, (int)operation, memory_order_relaxed);
        own = &background[i];
        break;
    }
    pulse_beat();
    if (hook_now)
        hook_now(operation, atomic_load_explicit(&step_now, memory_order_relaxed));
}

void pulse_leave(void) {
    pulse_beat();
    if (own >= background && own < background + PULSE_BACKGROUND) {
        atomic_store(&own->active, false);
        own = NULL;
    }
}

const char *pulse_name(enum pulse_operation operation) {
    return (unsigned)operation < PULSE_OPERATIONS ? operations[operation].name : "?";
}

bool pulse_shared(enum pulse_operation operation) {
    return (unsigned)operation < PULSE_OPERATIONS && operations[operation].shared;
}

bool pulse_named(enum pulse_operation *out, const char *name) {
    for (int i = 0; i < PULSE_OPERATIONS; i++) {
        if (strcmp(operations[i].name, name) == 0) {
            *out = (enum pulse_operation)i;
            return true;
        }
    }
    return false;
}

static void line_add(struct pulse_line *line, struct slot *slot) {
    line->beats += atomic_load_explicit(&slot->beats, memory_order_relaxed);
    line->patient |= atomic_load_explicit(&slot->patient, memory_order_relaxed);
}

void pulse_read(struct pulse *out) {
    *out = (struct pulse){.step = atomic_load_explicit(&step_now, memory_order_relaxed)};
    out->main.active = true;
    out->main.operation = (enum pulse_operation)atomic_load_explicit(&operation_now, memory_order_relaxed);
    for (unsigned i = 0; i < PULSE_SLOTS; i++)
        line_add(&out->main, &foreground[i]);
    for (unsigned i = 0; i < PULSE_BACKGROUND; i++) {
        out->background[i].active = atomic_load(&background[i].active);
        out->background[i].operation =
            (enum pulse_operation)atomic_load_explicit(&background[i].operation, memory_order_relaxed);
        line_add(&out->background[i], &background[i]);
    }
    int64_t since = atomic_load_explicit(&wait_since, memory_order_relaxed), now = now_ns();
    int64_t open = since && now > since && pulse_shared(out->main.operation) ? now - since : 0;
    out->waits = since != 0;
    out->wait = atomic_load_explicit(&waits, memory_order_relaxed);
    out->waited = 1e-9 * (double)(atomic_load_explicit(&waited_ns, memory_order_relaxed) + open);
}

void pulse_hook_set(pulse_hook *hook) {
    hook_now = hook;
}
