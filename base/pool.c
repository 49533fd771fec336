// SPDX-License-Identifier: Apache-2.0
// Work is handed out by one 64-bit word, the ticket: the run's number in its upper half, the tasks not yet claimed in
// its lower half. A thread claims one by compare-and-swap. Since the word carries the run's number, a claim only
// succeeds while that run is unfinished, so its job (fn, context, …) stands still for whoever has claimed a task, and
// a thread that wakes up late, or never, holds up nobody: pool_run waits for tasks, not for threads.
#include "base/pool.h"

#include "base/log.h"
#include "base/pulse.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define POOL_SPIN 4000u // pauses, of about 10 to 40 ns: longer than the gaps between the operations of a step
#define POOL_LINE 64    // bytes; words that many threads write to lie apart
#define TICKET_TASKS UINT32_MAX

struct pool_worker {
    struct pool *pool;
    pthread_t thread;
    unsigned index; // 1..threads-1; the caller is thread 0
    int cpu;        // to be pinned to; -1: not pinned
};

struct pool {
    alignas(POOL_LINE) _Atomic uint64_t ticket;
    alignas(POOL_LINE) _Atomic uint64_t unfinished; // tasks of this run not yet done
    // The job of the run; written while no task is left to claim. Atomic, since a late thread may read them then (and
    // fail to claim).
    alignas(POOL_LINE) _Atomic(pool_task *) fn;
    _Atomic(void *) context;
    _Atomic uint64_t first; // number of the run's first task
    _Atomic uint32_t tasks;

    alignas(POOL_LINE) atomic_uint parked; // workers in wait for `wake`
    atomic_bool caller_parked;
    atomic_bool stop;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_cond_t done;

    unsigned spin;
    unsigned threads;
    unsigned started; // workers that run; below threads - 1 only while opening
    struct pool_worker *workers;
};

void pool_flush_denormals(void) {
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040u); // FTZ (bit 15) and DAZ (bit 6)
#elif defined(__aarch64__)
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    __asm__ volatile("msr fpcr, %0" : : "r"(fpcr | UINT64_C(1) << 24)); // FZ
#endif
}

// Whatever left the upper halves of vector registers in use, from then on code without AVX (the plain kernels) would
// wait for them at each instruction (Intel's optimisation manual, "mixing AVX and SSE code").
static inline void pool_clear_vectors(void) {
#if defined(__x86_64__) && !defined(__AVX__)
    if (__builtin_cpu_supports("avx"))
        __asm__ volatile("vzeroupper");
#endif
}

double pool_thread_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline void pool_pause(void) {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");                                            // longer than `yield`, which is a no-op on most cores
#endif
}

// ---- CPUs

// The process's mask (its main thread's), malloc'ed by CPU_ALLOC; NULL if it can't be had. The kernel refuses sets
// smaller than its own, so larger ones are tried.
static cpu_set_t *pool_mask(size_t *bytes) {
    for (int cpus = CPU_SETSIZE; cpus <= 1 << 20; cpus *= 2) {
        cpu_set_t *mask = CPU_ALLOC(cpus);
        if (!mask)
            return NULL;
        *bytes = CPU_ALLOC_SIZE(cpus);
        CPU_ZERO_S(*bytes, mask);
        if (sched_getaffinity(getpid(), *bytes, mask) == 0)
            return mask;
        CPU_FREE(mask);
        if (errno != EINVAL)
            return NULL;
    }
    return NULL;
}

unsigned pool_cpus(void) {
    size_t bytes;
    cpu_set_t *mask = pool_mask(&bytes);
    if (!mask)
        return 1;
    int n = CPU_COUNT_S(bytes, mask);
    CPU_FREE(mask);
    return n > 0 ? (unsigned)n : 1;
}

unsigned pool_cpus_host(void) {
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (unsigned)n : 1;
}

// Gives worker i the i-th CPU of the mask. The caller stays free within the mask: what it starts later inherits that.
static void pool_place(struct pool *pool) {
    size_t bytes;
    cpu_set_t *mask = pool_mask(&bytes);
    if (!mask)
        return;
    unsigned seen = 0;
    if ((unsigned)CPU_COUNT_S(bytes, mask) == pool->threads)
        for (int cpu = 0; (size_t)cpu < bytes * 8 && seen < pool->threads; cpu++)
            if (CPU_ISSET_S((size_t)cpu, bytes, mask) && seen++ > 0)
                pool->workers[seen - 2].cpu = cpu;
    CPU_FREE(mask);
}

static void pool_pin(int cpu) {
    cpu_set_t *mask = CPU_ALLOC(cpu + 1);
    if (!mask)
        return;
    size_t bytes = CPU_ALLOC_SIZE(cpu + 1);
    CPU_ZERO_S(bytes, mask);
    CPU_SET_S((size_t)cpu, bytes, mask);
    sched_setaffinity(0, bytes, mask); // a CPU that has gone since: stay unpinned
    CPU_FREE(mask);
}

// Spinning only pays when the CPU is ours. Launchers tell how many ranks share the host.
static unsigned pool_spin(unsigned threads) {
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"};
    if (pool_cpus() < threads)
        return 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value && strtoull(value, NULL, 10) * threads > pool_cpus_host())
            return 0;
    }
    return POOL_SPIN;
}

// ---- claiming and running tasks

// Runs tasks until none is left to claim; false if there was none.
static bool pool_work(struct pool *pool, unsigned thread) {
    uint64_t done = 0;
    pool_clear_vectors();
    uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    while ((ticket & TICKET_TASKS) != 0) {
        pool_task *fn = atomic_load_explicit(&pool->fn, memory_order_relaxed);
        void *context = atomic_load_explicit(&pool->context, memory_order_relaxed);
        uint64_t first = atomic_load_explicit(&pool->first, memory_order_relaxed);
        uint32_t tasks = atomic_load_explicit(&pool->tasks, memory_order_relaxed);
        uint32_t left = (uint32_t)(ticket & TICKET_TASKS);
        if (!atomic_compare_exchange_weak_explicit(&pool->ticket, &ticket, ticket - 1, memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        fn(context, (size_t)(first + (tasks - left)), thread);
        pulse_beat();
        done++;
        ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
        // (a run can't end while tasks of ours are not counted, so `done` is of one run)
    }
    if (done == 0)
        return false;
    if (atomic_fetch_sub(&pool->unfinished, done) == done && atomic_load(&pool->caller_parked)) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_signal(&pool->done);
        pthread_mutex_unlock(&pool->lock);
    }
    return true;
}

static bool pool_has_work(struct pool *pool) {
    return (atomic_load(&pool->ticket) & TICKET_TASKS) != 0 || atomic_load(&pool->stop);
}

// Waits for work or the end: a while spinning, then parked. Parking and waking can't miss one another: the worker
// counts itself and then looks at the ticket, pool_run sets the ticket and then looks at the count (all seq_cst).
static void pool_idle(struct pool *pool) {
    for (unsigned i = 0; i < pool->spin; i++) {
        if (pool_has_work(pool))
            return;
        pool_pause();
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->parked, 1);
    while (!pool_has_work(pool))
        pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->parked, 1);
    pthread_mutex_unlock(&pool->lock);
}

static void *pool_worker_main(void *argument) {
    struct pool_worker *worker = argument;
    struct pool *pool = worker->pool;
    if (worker->cpu >= 0)
        pool_pin(worker->cpu);
    pool_flush_denormals();
    while (!atomic_load(&pool->stop))
        if (!pool_work(pool, worker->index))
            pool_idle(pool);
    return NULL;
}

static void pool_wake(struct pool *pool, uint32_t tasks) {
    unsigned parked = atomic_load(&pool->parked);
    if (parked == 0)
        return;
    pthread_mutex_lock(&pool->lock);
    if (tasks - 1 >= parked)
        pthread_cond_broadcast(&pool->wake);
    else
        for (uint32_t i = 1; i < tasks; i++) // the caller takes one itself
            pthread_cond_signal(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

static void pool_await(struct pool *pool) {
    for (unsigned i = 0; i < pool->spin; i++) {
        if (atomic_load(&pool->unfinished) == 0)
            return;
        pool_pause();
    }
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->caller_parked, true);
    while (atomic_load(&pool->unfinished) != 0)
        pthread_cond_wait(&pool->done, &pool->lock);
    atomic_store(&pool->caller_parked, false);
    pthread_mutex_unlock(&pool->lock);
}

static void pool_run_piece(struct pool *pool, pool_task *fn, void *context, uint64_t first, uint32_t tasks) {
    atomic_store_explicit(&pool->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&pool->context, context, memory_order_relaxed);
    atomic_store_explicit(&pool->first, first, memory_order_relaxed);
    atomic_store_explicit(&pool->tasks, tasks, memory_order_relaxed);
    atomic_store(&pool->unfinished, tasks);
    uint64_t run = (atomic_load(&pool->ticket) >> 32) + 1;
    atomic_store(&pool->ticket, run << 32 | tasks);
    pool_wake(pool, tasks);
    pool_work(pool, 0);
    pool_await(pool);
}

void pool_run(struct pool *pool, pool_task *fn, void *context, size_t tasks) {
    assert(!pool || atomic_load(&pool->unfinished) == 0); // nested
    if (!pool || pool->threads == 1 || tasks == 1) {
        pool_clear_vectors();
        for (size_t task = 0; task < tasks; task++) {
            fn(context, task, 0);
            pulse_beat();
        }
        return;
    }
    for (size_t first = 0; first < tasks;) {
        size_t left = tasks - first;
        uint32_t piece = left < TICKET_TASKS ? (uint32_t)left : TICKET_TASKS;
        pool_run_piece(pool, fn, context, first, piece);
        first += piece;
    }
}

unsigned pool_threads(const struct pool *pool) {
    return pool ? pool->threads : 1;
}

// ---- open and close

static enum status pool_start(struct pool *pool) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); // signals go to the threads that handle them
    int error = 0;
    for (; pool->started + 1 < pool->threads; pool->started++) {
        struct pool_worker *worker = &pool->workers[pool->started];
        error = pthread_create(&worker->thread, NULL, pool_worker_main, worker);
        if (error)
            break;
        char name[16];
        snprintf(name, sizeof name, "pool-%u", worker->index);
        pthread_setname_np(worker->thread, name);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error)
        return STATUS_OK;
    return status_set(STATUS_SYSTEM, "threads: can't start thread %u of %u: %s (set threads lower)", pool->started + 2,
                      pool->threads, strerror(error));
}

static struct pool *pool_new(unsigned threads) {
    struct pool *pool = aligned_alloc(POOL_LINE, sizeof *pool);
    struct pool_worker *workers = calloc(threads, sizeof *workers);
    if (!pool || !workers) {
        free(pool);
        free(workers);
        return NULL;
    }
    memset(pool, 0, sizeof *pool);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);
    pool->threads = threads;
    pool->workers = workers;
    pool->spin = pool_spin(threads);
    for (unsigned i = 0; i + 1 < threads; i++)
        workers[i] = (struct pool_worker){.pool = pool, .index = i + 1, .cpu = -1};
    return pool;
}

enum status pool_open(struct pool **out, unsigned threads) {
    *out = NULL;
    unsigned cpus = pool_cpus() < POOL_THREADS_MAX ? pool_cpus() : POOL_THREADS_MAX;
    if (threads > cpus)
        log_warn("threads: %u asked for, %u used: this process may use %u CPUs of %u", threads, cpus, cpus,
                 pool_cpus_host());
    if (threads == 0 || threads > cpus)
        threads = cpus;
    struct pool *pool = pool_new(threads);
    if (!pool)
        return status_set(STATUS_SYSTEM, "threads: no memory for %u", threads);
    pool_place(pool);
    enum status status = pool_start(pool);
    if (status != STATUS_OK) {
        pool_close(pool);
        return status;
    }
    pool_flush_denormals();
    *out = pool;
    return STATUS_OK;
}

void pool_close(struct pool *pool) {
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->stop, true);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->wake);
    pthread_cond_destroy(&pool->done);
    free(pool->workers);
    free(pool);
}
