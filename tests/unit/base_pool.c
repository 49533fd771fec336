// SPDX-License-Identifier: Apache-2.0
// This program has its own sched_getaffinity, which the library's code then calls: it can pretend to have more CPUs, so
// that many threads are tried on small hosts too.
#include "support.h"

#include "base/log.h"
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define TASKS_MAX 1000

static int pretended; // CPUs; 0: the truth

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *mask) {
    CPU_ZERO_S(size, mask);
    for (int cpu = 0; cpu < pretended; cpu++)
        CPU_SET_S((size_t)cpu, size, mask);
    return pretended || syscall(SYS_sched_getaffinity, pid, size, mask) >= 0 ? 0 : -1;
}

struct tally {
    unsigned threads;
    atomic_uint done[TASKS_MAX];
    atomic_uint stray; // tasks or threads out of range
};

static void tally_task(void *context, size_t task, unsigned thread) {
    struct tally *tally = context;
    if (task >= TASKS_MAX || thread >= tally->threads)
        atomic_fetch_add(&tally->stray, 1);
    else
        atomic_fetch_add_explicit(&tally->done[task], 1, memory_order_relaxed);
}

static void run_counts(struct pool *pool, unsigned runs) {
    static struct tally tally;
    memset(&tally, 0, sizeof tally);
    tally.threads = pool_threads(pool);
    unsigned wanted[TASKS_MAX] = {0};
    for (unsigned run = 0; run < runs; run++) {
        size_t tasks = run < 5 ? run : run % 100 == 0 ? TASKS_MAX : 1 + run % 13;
        pool_run(pool, tally_task, &tally, tasks);
        for (size_t task = 0; task < tasks; task++) {
            wanted[task]++;
            if (atomic_load_explicit(&tally.done[task], memory_order_relaxed) != wanted[task])
                fail_msg("run %u: task %zu was not done when pool_run returned", run, task);
        }
    }
    for (size_t task = 0; task < TASKS_MAX; task++)
        assert_int_equal(tally.done[task], wanted[task]);
    assert_int_equal(tally.stray, 0);
}

// Each task once, and all done on return, over many short runs: spinning, and (as a launcher's variable asks) parking.
static void test_each_once(void **state) {
    (void)state;
    struct pool *pool;
    assert_ok(pool_open(&pool, 0));
    assert_int_equal(pool_threads(pool), pool_cpus());
    run_counts(pool, 20000);
    pool_close(pool);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "1000", 1);
    assert_ok(pool_open(&pool, 0));
    run_counts(pool, 5000);
    pool_close(pool);
    unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE");
}

// Eight threads, more than many hosts have CPUs: late wakers meet the next runs.
static void test_many_threads(void **state) {
    (void)state;
    struct pool *pool;
    pretended = 8;
    for (unsigned park = 0; park < 2; park++) {
        if (park)
            setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "1000", 1);
        assert_ok(pool_open(&pool, 0));
        assert_int_equal(pool_threads(pool), 8);
        run_counts(pool, 3000);
        pool_close(pool);
    }
    unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    pretended = 0;
}

// Plain memory written by tasks is seen by the caller, and the caller's by the tasks (ThreadSanitizer watches).
static void square_task(void *context, size_t task, unsigned thread) {
    (void)thread;
    uint64_t *values = context;
    values[task] = values[task] * values[task];
}

static void test_memory(void **state) {
    (void)state;
    struct pool *pool;
    assert_ok(pool_open(&pool, 0));
    uint64_t values[257];
    for (unsigned run = 0; run < 200; run++) {
        for (uint64_t i = 0; i < 257; i++)
            values[i] = i + run;
        pool_run(pool, square_task, values, 257);
        for (uint64_t i = 0; i < 257; i++)
            assert_int_equal(values[i], (i + run) * (i + run));
    }
    pool_close(pool);
}

static void wait_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void slow_task(void *context, size_t task, unsigned thread) {
    (void)thread;
    wait_ms(3);
    tally_task(context, task, 0);
}

static double cpu_seconds(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6;
}

// Idle workers sleep, and wake again; the caller sleeps as well while a worker is at a long task.
static void test_parking(void **state) {
    (void)state;
    static struct tally tally = {.threads = 1};
    struct pool *pool;
    assert_ok(pool_open(&pool, 0));
    for (unsigned run = 1; run <= 3; run++) {
        wait_ms(20);
        pool_run(pool, slow_task, &tally, 9);
        for (size_t task = 0; task < 9; task++)
            assert_int_equal(tally.done[task], run);
    }
    double before = cpu_seconds();
    wait_ms(400);
    assert_true(cpu_seconds() - before < 0.2); // one that never parks uses 0.4 s
    pool_close(pool);
}

// Holds each task until every thread has one, so that each thread does exactly one.
struct meeting {
    unsigned threads;
    atomic_uint arrived;
    atomic_uint late;
    cpu_set_t masks[CPU_SETSIZE];
    float flushed[CPU_SETSIZE];
    float operands[CPU_SETSIZE];
};

static void meeting_task(void *context, size_t task, unsigned thread) {
    (void)task;
    struct meeting *meeting = context;
    volatile float tiny = 1e-30f, denormal = 1e-40f;
    meeting->flushed[thread] = tiny * 1e-10f;     // a denormal result (FTZ)
    meeting->operands[thread] = denormal * 1e30f; // a denormal operand (DAZ)
    sched_getaffinity(0, sizeof meeting->masks[thread], &meeting->masks[thread]);
    atomic_fetch_add(&meeting->arrived, 1);
    for (unsigned ms = 0; atomic_load(&meeting->arrived) < meeting->threads; ms++) {
        if (ms == 20000) {
            atomic_fetch_add(&meeting->late, 1);
            return;
        }
        wait_ms(1);
    }
}

static uint32_t bits_of(float value) {
    uint32_t bits; // compared as bits, since this thread takes denormals for zeros too
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

// After a rest, when all are parked, each of the workers needed is woken.
static void test_wake(void **state) {
    (void)state;
    static struct meeting meeting;
    struct pool *pool;
    pretended = 8;
    assert_ok(pool_open(&pool, 0));
    for (unsigned tasks = 2; tasks <= 8; tasks += 3) {
        wait_ms(30);
        meeting.threads = tasks;
        atomic_store(&meeting.arrived, 0);
        pool_run(pool, meeting_task, &meeting, tasks);
        assert_int_equal(meeting.late, 0);
    }
    pool_close(pool);
    pretended = 0;
}

static void test_threads(void **state) {
    (void)state;
    static struct meeting meeting;
    struct pool *pool;
    cpu_set_t before, after, all;
    sched_getaffinity(0, sizeof before, &before);
    assert_ok(pool_open(&pool, 0));
    unsigned n = pool_threads(pool);
    if (n > CPU_SETSIZE)
        skip();
    meeting.threads = n;
    memset(meeting.flushed, 0xff, sizeof meeting.flushed);
    memset(meeting.operands, 0xff, sizeof meeting.operands);
    pool_run(pool, meeting_task, &meeting, n);
    CPU_ZERO(&all);
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(bits_of(meeting.flushed[i]), 0); // in every thread, the caller's too
        assert_int_equal(bits_of(meeting.operands[i]), 0);
        if (i == 0)
            continue;
        assert_int_equal(CPU_COUNT(&meeting.masks[i]), 1); // a CPU each, of the mask
        CPU_OR(&all, &all, &meeting.masks[i]);
    }
    assert_int_equal(CPU_COUNT(&all), n - 1);
    CPU_AND(&all, &all, &before);
    assert_int_equal(CPU_COUNT(&all), n - 1);
    sched_getaffinity(0, sizeof after, &after);
    assert_true(CPU_EQUAL(&before, &after)); // what the caller starts later is not confined
    assert_int_equal(pool_cpus(), n);
    pool_close(pool);
    if (n < 3)
        return;
    assert_ok(pool_open(&pool, n - 1)); // fewer threads than CPUs: not pinned
    meeting.threads = n - 1;
    atomic_store(&meeting.arrived, 0);
    pool_run(pool, meeting_task, &meeting, n - 1);
    for (unsigned i = 0; i < n - 1; i++)
        assert_true(CPU_EQUAL(&meeting.masks[i], &before));
    pool_close(pool);
}

static void test_lowered(void **state) {
    (void)state;
    struct pool *pool;
    log_setup(LOG_ERROR, 0, 1);
    assert_ok(pool_open(&pool, pool_cpus() + 5));
    assert_int_equal(pool_threads(pool), pool_cpus());
    run_counts(pool, 50);
    pool_close(pool);
    assert_ok(pool_open(&pool, 1));
    assert_int_equal(pool_threads(pool), 1);
    run_counts(pool, 50);
    pool_close(pool);
    pool_close(NULL);
    log_setup(LOG_INFO, 0, 1);
    assert_true(pool_cpus() >= 1 && pool_cpus() <= pool_cpus_host());
}

// In a child that may use one CPU, whatever is asked for.
static void test_mask(void **state) {
    (void)state;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        cpu_set_t mask, one;
        struct pool *pool;
        log_setup(LOG_ERROR, 0, 1);
        sched_getaffinity(0, sizeof mask, &mask);
        int cpu = CPU_SETSIZE - 1;
        while (!CPU_ISSET(cpu, &mask))
            cpu--;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        bool good = pool_cpus() == 1 && pool_open(&pool, 8) == STATUS_OK && pool_threads(pool) == 1;
        _exit(good ? 0 : 1);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

static pthread_t signal_thread;
static volatile sig_atomic_t signals, strays;

static void on_signal(int number) {
    (void)number;
    if (!pthread_equal(pthread_self(), signal_thread))
        strays++;
    signals++;
}

static void signal_task(void *context, size_t task, unsigned thread) {
    (void)context, (void)task, (void)thread;
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    if (thread != 0 && !sigismember(&mask, SIGTERM))
        strays++;
    wait_ms(1);
}

// Workers take no signals: the main thread's handlers see them all.
static void test_signals(void **state) {
    (void)state;
    struct pool *pool;
    signal_thread = pthread_self();
    signal(SIGUSR1, on_signal);
    assert_ok(pool_open(&pool, 0));
    for (unsigned i = 0; i < 20; i++) {
        kill(getpid(), SIGUSR1);
        pool_run(pool, signal_task, NULL, 4);
    }
    pool_close(pool);
    signal(SIGUSR1, SIG_DFL);
    assert_true(signals > 0);
    assert_int_equal(strays, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mask),    cmocka_unit_test(test_each_once), cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_memory),  cmocka_unit_test(test_parking),   cmocka_unit_test(test_wake),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_lowered),   cmocka_unit_test(test_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
