// SPDX-License-Identifier: Apache-2.0
// A run of items is one 64-bit word, its first item in the upper half and its end in the lower; owner and thieves take
// by compare-and-swap, at either end.
#include "model/gemm_queue.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#define QUEUE_LINE 64 // bytes; runs lie apart

struct run {
    alignas(QUEUE_LINE) _Atomic uint64_t left;
};

struct queue {
    struct pool *pool;
    queue_item *fn;
    void *context;
    unsigned n;
    struct run runs[];
};

enum status queue_open(struct queue **out, struct pool *pool) {
    const size_t size = sizeof(struct queue) + pool_threads(pool) * sizeof(struct run);
    struct queue *queue = aligned_alloc(QUEUE_LINE, (size + QUEUE_LINE - 1) / QUEUE_LINE * QUEUE_LINE);
    if (!queue)
        return status_set(STATUS_SYSTEM, "gemm: no memory for %u threads", pool_threads(pool));
    *queue = (struct queue){.pool = pool};
    for (unsigned i = 0; i < pool_threads(pool); i++)
        atomic_init(&queue->runs[i].left, 0);
    *out = queue;
    return STATUS_OK;
}

void queue_close(struct queue *queue) {
    free(queue);
}

static uint64_t run_pack(uint64_t first, uint64_t end) {
    return first << 32 | end;
}

// Takes an item off the front (or the back); false if there is none.
static bool run_take(struct run *run, bool front, size_t *item, size_t *next) {
    uint64_t left = atomic_load_explicit(&run->left, memory_order_relaxed), first, end;
    do {
        first = left >> 32, end = (uint32_t)left;
        if (first >= end)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&run->left, &left,
                                                    front ? run_pack(first + 1, end) : run_pack(first, end - 1),
                                                    memory_order_relaxed, memory_order_relaxed));
    *item = front ? first : end - 1;
    *next = front && first + 1 < end ? first + 1 : *item;
    return true;
}

// (What an item reads was written before pool_run, what it writes is read after it: the pool orders both.)
static void queue_task(void *context, size_t task, unsigned thread) {
    struct queue *queue = context;
    size_t item, next;
    while (run_take(&queue->runs[task], true, &item, &next))
        queue->fn(queue->context, item, next, thread);
    for (unsigned i = 1; i < queue->n; i++)
        while (run_take(&queue->runs[(task + i) % queue->n], false, &item, &next))
            queue->fn(queue->context, item, next, thread);
}

void queue_run(struct queue *queue, queue_item *fn, void *context, size_t items, unsigned threads) {
    queue->fn = fn;
    queue->context = context;
    queue->n = threads < pool_threads(queue->pool) ? threads : pool_threads(queue->pool);
    if (queue->n > items)
        queue->n = (unsigned)items;
    for (unsigned i = 0; i < queue->n; i++)
        atomic_store_explicit(&queue->runs[i].left, run_pack(items * i / queue->n, items * (i + 1) / queue->n),
                              memory_order_relaxed);
    pool_run(queue->pool, queue_task, queue, queue->n);
}
