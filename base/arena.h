// SPDX-License-Identifier: Apache-2.0
// A flat piece of zeroed memory, taken from front to back and released as a whole. Pages are resident once touched.
#ifndef FINETUNED_BASE_ARENA_H
#define FINETUNED_BASE_ARENA_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct arena {
    char *base;
    size_t size; // bytes
    size_t used; // bytes
};

#define ARENA_ALIGN 64 // bytes; every piece starts at a multiple of it

// Maps `size` bytes (0 is allowed). `huge`: ask for huge pages. STATUS_DEVICE if the memory can't be had.
enum status arena_init(struct arena *arena, size_t size, bool huge);

// The next `size` bytes, aligned. Asserts that they are there: plan the size first (arena_piece).
void *arena_take(struct arena *arena, size_t size);

// What arena_take(size) uses up: `size` rounded up to ARENA_ALIGN.
size_t arena_piece(size_t size);

// Small pages for a part of an arena of which only pieces are ever touched: the rest of a huge page would be resident
// with them.
void arena_small_pages(void *at, size_t size);

void arena_release(struct arena *arena);

#endif
