// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/aside.h"

#include "base/log.h"

#include <inttypes.h>

void aside_init(struct aside *aside, uint64_t size) {
    *aside = (struct aside){.size = size / ARENA_ALIGN * ARENA_ALIGN};
}

// Without the memory a save waits, as with no buffer at all.
static bool aside_mapped(struct aside *aside) {
    if (aside->arena.base || aside->refused)
        return !aside->refused;
    aside->refused = aside->size == 0 || arena_init(&aside->arena, aside->size, true) != STATUS_OK;
    if (aside->refused && aside->size)
        log_warn("checkpoints.buffer: no memory for %" PRIu64 " bytes: saves hold training instead (%s)", aside->size,
                 status_message());
    return !aside->refused;
}

// Where the next `bytes` would begin; false if they don't fit.
static bool aside_place(uint64_t *at, const struct aside *aside, uint64_t bytes) {
    bool front = !aside->turned && aside->size - aside->to < bytes;
    uint64_t limit = aside->turned || front ? aside->from : aside->size;
    *at = front ? 0 : aside->to;
    return bytes <= limit - *at;
}

void *aside_take(struct aside *aside, uint64_t bytes) {
    uint64_t at, size = arena_piece(bytes);
    if (!aside_place(&at, aside, size) || !aside_mapped(aside))
        return NULL;
    if (at < aside->to) {
        aside->end = aside->to;
        aside->turned = true;
    }
    aside->to = at + size;
    return aside->arena.base + at;
}

void aside_give(struct aside *aside, uint64_t bytes) {
    aside->from += arena_piece(bytes);
    if (aside->turned && aside->from == aside->end) {
        aside->from = 0;
        aside->turned = false;
    }
    if (!aside->turned && aside->from == aside->to)
        aside->from = aside->to = 0;
}

void aside_release(struct aside *aside) {
    arena_release(&aside->arena);
    *aside = (struct aside){0};
}
