// SPDX-License-Identifier: Apache-2.0
// Anonymous pages: zeroed by the kernel, resident once touched. For huge pages the start is put on a 2 MiB boundary.
#include "base/arena.h"

#include <assert.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20) // bytes; x86-64's and aarch64's (4 KiB granule) size of a transparent huge page

static size_t arena_pages(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (size + page - 1) / page * page;
}

// Maps `size` bytes (whole pages) at a multiple of HUGE_PAGE, by mapping more and giving the ends back.
static void *arena_map_aligned(size_t size) {
    char *at = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return MAP_FAILED;
    size_t head = (HUGE_PAGE - (uintptr_t)at % HUGE_PAGE) % HUGE_PAGE;
    if (head)
        munmap(at, head);
    munmap(at + head + size, HUGE_PAGE - head);
    return at + head;
}

enum status arena_init(struct arena *arena, size_t size, bool huge) {
    *arena = (struct arena){0};
    if (size == 0)
        return STATUS_OK;
    if (size > SIZE_MAX / 4)
        return status_set(STATUS_SYSTEM, "arena: %zu bytes are more than there can be", size);
    size_t pages = arena_pages(size);
    bool aligned = huge && pages >= HUGE_PAGE;
    void *at = aligned ? arena_map_aligned(pages)
                       : mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return status_errno(STATUS_DEVICE, "memory: %.1f MiB for the model's arrays", (double)size / (1 << 20));
    if (aligned)
        madvise(at, pages, MADV_HUGEPAGE); // advice: a kernel without huge pages serves small ones
    *arena = (struct arena){.base = at, .size = size};
    return STATUS_OK;
}

void *arena_take(struct arena *arena, size_t size) {
    assert(arena->used <= arena->size && size <= arena->size - arena->used);
    if (!arena->base)
        return NULL;
    char *at = arena->base + arena->used;
    size_t piece = arena_piece(size);
    size_t rest = arena->size - arena->used;
    arena->used += piece < rest ? piece : rest;
    return at;
}

size_t arena_piece(size_t size) {
    if (size > SIZE_MAX - (ARENA_ALIGN - 1))
        return SIZE_MAX; // no arena is that large: arena_init refuses it
    return (size + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
}

void arena_small_pages(void *at, size_t size) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)at + page - 1) / page * page;
    const uintptr_t end = ((uintptr_t)at + size) / page * page;
    if (at && begin < end)
        madvise((void *)begin, end - begin, MADV_NOHUGEPAGE); // advice: fails where there are no huge pages
}

void arena_release(struct arena *arena) {
    if (arena->base)
        munmap(arena->base, arena_pages(arena->size));
    *arena = (struct arena){0};
}
