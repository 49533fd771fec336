// SPDX-License-Identifier: Apache-2.0
// The thread pool: pinned inside the process's mask, spins briefly, then parks. Work is cut into tasks by shape, never
// by the number of threads, so that results do not depend on it. Every thread flushes denormals (FTZ and DAZ), the
// caller's thread included (pool_flush_denormals is called for it in pool_open).
#ifndef FINETUNED_BASE_POOL_H
#define FINETUNED_BASE_POOL_H

#include "base/status.h"

#include <stddef.h>

// No pool has more.
#define POOL_THREADS_MAX 1024

struct pool;

// `threads` 0: as many as the process's CPU mask has. More than the mask has are not made: the number is lowered (said
// in the log). The calling thread is one of them.
enum status pool_open(struct pool **out, unsigned threads);
void pool_close(struct pool *pool);
unsigned pool_threads(const struct pool *pool);

// CPUs in the process's affinity mask; at least 1. pool_cpus_host: CPUs online.
unsigned pool_cpus(void);
unsigned pool_cpus_host(void);

// Runs fn(context, task, thread) for task = 0..tasks-1, each once, in any order; returns when all are done.
// `thread` is 0..threads-1, for scratch memory. Not to be nested, and only by the thread that opened the pool. A pool
// that is NULL is the calling thread alone.
typedef void pool_task(void *context, size_t task, unsigned thread);
void pool_run(struct pool *pool, pool_task *fn, void *context, size_t tasks);

void pool_flush_denormals(void);

// Seconds that the calling thread was on a core: what it waited for its turn does not count.
double pool_thread_seconds(void);

#endif
