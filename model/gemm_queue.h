// SPDX-License-Identifier: Apache-2.0
// The items of a product, handed to the threads: each has a run of neighbours of its own, so that what an item needs
// next is known beforehand and what neighbours share stays in one core's cache; who has done with its own takes from
// the far end of another's. Private to model/.
#ifndef FINETUNED_MODEL_GEMM_QUEUE_H
#define FINETUNED_MODEL_GEMM_QUEUE_H

#include "base/pool.h"

#include <stdbool.h>

struct queue;

enum status queue_open(struct queue **out, struct pool *pool);
void queue_close(struct queue *queue);

// Runs fn(context, item, next, thread) for item = 0..items-1, each once, on at most `threads` threads of the pool.
// `next`: the item that this thread will most likely do afterwards; `item` itself if there is none.
typedef void queue_item(void *context, size_t item, size_t next, unsigned thread);
void queue_run(struct queue *queue, queue_item *fn, void *context, size_t items, unsigned threads);

#endif
