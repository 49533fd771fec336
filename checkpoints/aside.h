// SPDX-License-Identifier: Apache-2.0
// Room for what was copied aside: a ring of bytes, given back in the order in which it was taken. Mapped when it is
// first needed; pages are resident once used.
#ifndef FINETUNED_CHECKPOINTS_ASIDE_H
#define FINETUNED_CHECKPOINTS_ASIDE_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

//   0      to         from        end      size           0     from          to       size
//   |xxxxxx|          |xxxxxxxxxxx|        |              |     |xxxxxxxxxxxxx|        |
//      turned: the newest went to the front                 not turned
struct aside {
    struct arena arena;
    uint64_t size; // bytes; 0: there is never room
    uint64_t from; // of the oldest
    uint64_t to;   // behind the newest
    uint64_t end;  // turned: behind the last of the upper part
    bool turned;
    bool refused; // the memory could not be had: no room
};

// At most `size` bytes.
void aside_init(struct aside *aside, uint64_t size);
// NULL: no room now. Aligned as ARENA_ALIGN.
void *aside_take(struct aside *aside, uint64_t bytes);
// The oldest, as many bytes as it was taken with.
void aside_give(struct aside *aside, uint64_t bytes);
void aside_release(struct aside *aside);

#endif
