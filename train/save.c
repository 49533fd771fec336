// SPDX-License-Identifier: Apache-2.0
#include "train/home.h"
#include "train/stop.h"
#include "train/trainer.h"

#include "base/clock.h"
#include "base/hash.h"

#include <stdlib.h>

#define SAVE_SMALL ((uint64_t)32 << 20) // bytes
#define SAVE_SLICE ((uint64_t)1 << 18)  // floats that are hashed as one

// Nothing non-finite is ever saved.
static enum status save_check(struct trainer *t) {
    const float *const arenas[] = {t->arenas.weights, t->arenas.exp_avg, t->arenas.exp_avg_sq};
    static const char *const names[] = {"weights", "first moments", "second moments"};
    for (int i = 0; i < 3; i++)
        if (!optimizer_finite(t->optimizer, arenas[i])) {
            t->diverged = true;
            return status_set(
                STATUS_DATA, "step %llu: the %s are not finite: the run has diverged; lower train.lr or set train.clip",
                (unsigned long long)t->state.step, names[i]);
        }
    return STATUS_OK;
}

// ---- its parts in a step

// Flags beside those of stops.
#define SAVE_BUSY (1u << 30)
#define SAVE_FAILED (1u << 31)
_Static_assert(((SAVE_BUSY | SAVE_FAILED) & STOP_FLAGS) == 0, "flags of their own");

uint64_t save_aside(const struct trainer *t) {
    uint64_t own = 3 * t->table.count * sizeof(float) / (uint64_t)t->comm->world;
    return own < t->checkpoints.buffer ? own : t->checkpoints.buffer;
}

void save_release(struct trainer *t, unsigned l, const struct row_set *reads) {
    if (!t->saving.checkpoint || !bucket_due(t->optimizer, l))
        return;
    if (reads && l == 0)
        bucket_rows(t->optimizer, &t->changes, reads);
    checkpoint_release(t->saving.checkpoint, l, reads && l == 0 ? &t->changes : NULL);
}

uint32_t save_flags(const struct trainer *t) {
    if (!t->saving.checkpoint)
        return 0;
    switch (checkpoint_progress(t->saving.checkpoint)) {
    case CHECKPOINT_BUSY:
        return SAVE_BUSY;
    case CHECKPOINT_FAILED:
        return SAVE_FAILED;
    default:
        return 0;
    }
}

void save_told(struct trainer *t, uint32_t flags) {
    t->saving.failed = flags & SAVE_FAILED;
    t->saving.ended = t->saving.failed || !(flags & SAVE_BUSY);
}

void save_current(struct trainer *t) {
    for (unsigned l = 0; l < t->table.n_buckets; l++) {
        save_release(t, l, NULL);
        bucket_current(t->optimizer, l, NULL);
    }
}

// ---- at its end

static enum status save_event(struct trainer *t, const struct checkpoint_saved *saved) {
    log_info("checkpoint: %s (%.1f MiB in %.2f s)", saved->path, (double)saved->bytes / 1048576, saved->write_s);
    event_begin(&t->events, "checkpoint");
    event_integer(&t->events, "step", (int64_t)saved->step);
    event_string(&t->events, "path", saved->path);
    event_integer(&t->events, "bytes", (int64_t)saved->bytes);
    event_number(&t->events, "held_s", saved->held_s);
    event_number(&t->events, "write_s", saved->write_s);
    return event_end(&t->events);
}

enum status save_wait(struct trainer *t) {
    struct saving *saving = &t->saving;
    struct checkpoint *checkpoint = saving->checkpoint;
    if (!checkpoint)
        return STATUS_OK;
    enum pulse_operation before = pulse_set(PULSE_SAVE);
    saving->checkpoint = NULL;
    saving->ended = false;
    TRY(checkpoint_commit(&saving->last, checkpoint, saving->failed));
    saving->last.held_s += saving->checks_s;
    t->times.save += saving->last.held_s;
    enum status status = t->comm->rank == 0 ? save_event(t, &saving->last) : STATUS_OK;
    if (status == STATUS_OK && t->comm->rank == 0)
        status = home_write(t->job); // no earlier: a run that ends before leaves no folder
    free(saving->last.path);
    saving->last.path = NULL;
    TRY(comm_agree(t->comm, status));
    pulse_set(before);
    return STATUS_OK;
}

enum status save_written(struct trainer *t) {
    return t->saving.ended ? save_wait(t) : STATUS_OK;
}

void save_drop(struct trainer *t) {
    checkpoint_rollback(t->saving.checkpoint);
    checkpoint_saved_settle(&t->saving.last);
    t->saving = (struct saving){0};
}

// ---- at its beginning

static bool save_is_made(const struct trainer *t) {
    return t->saved_step == t->state.step && t->saved_cursor == t->state.cursor;
}

struct save_hash {
    const float *arenas[3]; // weights and both moments
    uint64_t floats, each;  // of an arena; slices of it
    uint64_t *slices;       // (3 * each)
};

static void hash_slice(void *context, size_t task, unsigned thread) {
    const struct save_hash *h = context;
    uint64_t begin = task % h->each * SAVE_SLICE, left = h->floats - begin;
    (void)thread;
    h->slices[task] =
        hash64(h->arenas[task / h->each] + begin, (left < SAVE_SLICE ? left : SAVE_SLICE) * sizeof(float));
}

// What each rank has computed for itself must have come out alike, since each writes a part of it: a gradient that
// differs by so little that the norm does not show it shows here.
static enum status save_same(struct trainer *t) {
    struct save_hash h = {{t->arenas.weights, t->arenas.exp_avg, t->arenas.exp_avg_sq}, t->table.floats, 0, NULL};
    int other;
    if (t->comm->world == 1)
        return STATUS_OK;
    h.each = (h.floats + SAVE_SLICE - 1) / SAVE_SLICE;
    h.slices = calloc(3 * h.each, sizeof *h.slices);
    uint32_t failed = !h.slices;
    if (!failed)
        pool_run(t->pool, hash_slice, &h, 3 * h.each);
    enum status status =
        comm_flags_check(t->comm, &failed, failed ? 0 : hash64(h.slices, 3 * h.each * sizeof *h.slices), &other);
    free(h.slices);
    TRY(status);
    if (failed)
        return status_set(STATUS_SYSTEM, "checkpoint: no memory");
    return other < 0 ? STATUS_OK : boundary_differs(t, other, "model or moments");
}

static enum status save_begin(struct trainer *t) {
    enum pulse_operation before = pulse_set(PULSE_SAVE);
    save_current(t);
    double begun = clock_seconds();
    checkpoint_saved_settle(&t->saving.last); // its space is needed
    TRY(save_check(t));
    TRY(save_same(t));
    t->saving.checks_s = clock_seconds() - begun;
    TRY(checkpoint_begin(&t->saving.checkpoint, t->comm, &t->checkpoints, &t->table, &t->arenas, &t->state));
    t->saved_step = t->state.step;
    t->saved_cursor = t->state.cursor;
    pulse_set(before);
    return STATUS_OK;
}

enum status save_now(struct trainer *t) {
    t->saving.waits = false;
    if (save_is_made(t))
        return STATUS_OK;
    TRY(save_wait(t));
    return save_begin(t);
}

// A file that is on the disk in a moment is waited for, so that small models are saved at the very steps they ask for.
static bool save_is_small(const struct trainer *t) {
    return 3 * t->table.count * sizeof(float) < SAVE_SMALL;
}

enum status save_periodic(struct trainer *t, bool due) {
    t->saving.waits |= due;
    bool free = !t->saving.checkpoint || save_is_small(t);
    return t->saving.waits && free ? save_now(t) : STATUS_OK;
}
