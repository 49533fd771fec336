// SPDX-License-Identifier: Apache-2.0
// Signs of life: beats of all threads, of one in the background for itself, what is being done, waits.
#include "base/pulse.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/pool.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include <cmocka.h>

static uint64_t beats(void) {
    struct pulse pulse;
    pulse_read(&pulse);
    return pulse.main.beats;
}

static void operations(void **state) {
    (void)state;
    struct pulse pulse;
    uint64_t before = beats();
    assert_int_equal(pulse_set(PULSE_FORWARD), PULSE_START);
    assert_int_equal(pulse_set(PULSE_EXPORT), PULSE_FORWARD);
    pulse_step(12);
    pulse_read(&pulse);
    assert_true(pulse.main.active);
    assert_int_equal(pulse.main.operation, PULSE_EXPORT);
    assert_int_equal(pulse.step, 12);
    assert_int_equal(pulse.main.beats, before + 2);
}

static void names(void **state) {
    (void)state;
    enum pulse_operation operation;
    for (int i = 0; i < PULSE_OPERATIONS; i++) {
        assert_non_null(pulse_name((enum pulse_operation)i));
        assert_true(pulse_named(&operation, pulse_name((enum pulse_operation)i)));
        assert_int_equal(operation, i);
    }
    assert_false(pulse_named(&operation, "backwards"));
    assert_string_equal(pulse_name(PULSE_OPERATIONS), "?");
    assert_true(pulse_shared(PULSE_BACKWARD));
    assert_false(pulse_shared(PULSE_EXPORT));
    assert_false(pulse_shared(PULSE_OPERATIONS));
}

static void patience(void **state) {
    (void)state;
    struct pulse pulse;
    pulse_long();
    pulse_read(&pulse);
    assert_true(pulse.main.patient);
    pulse_beat();
    pulse_read(&pulse);
    assert_false(pulse.main.patient);
}

static void *writer(void *context) {
    pthread_barrier_t *barrier = context;
    pulse_enter(PULSE_WRITE);
    pulse_beat();
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    pulse_leave();
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    pulse_beat();
    return NULL;
}

// Its beats are its own while it is in the background, and everybody's before and after.
static void background(void **state) {
    (void)state;
    struct pulse pulse;
    pthread_barrier_t barrier;
    pthread_t thread;
    uint64_t before = beats();
    assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
    assert_int_equal(pthread_create(&thread, NULL, writer, &barrier), 0);
    pthread_barrier_wait(&barrier);
    pulse_read(&pulse);
    assert_true(pulse.background[0].active);
    assert_false(pulse.background[1].active);
    assert_int_equal(pulse.background[0].operation, PULSE_WRITE);
    assert_int_equal(pulse.background[0].beats, 2);
    assert_int_equal(pulse.main.beats, before);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    pulse_read(&pulse);
    assert_false(pulse.background[0].active);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    assert_int_equal(beats(), before + 1);
    pthread_barrier_destroy(&barrier);
}

// More writers than there are lines: the rest counts with the others.
static void crowd(void **state) {
    (void)state;
    pthread_barrier_t barrier;
    pthread_t threads[PULSE_BACKGROUND + 2];
    const unsigned n = PULSE_BACKGROUND + 2;
    assert_int_equal(pthread_barrier_init(&barrier, NULL, n + 1), 0);
    uint64_t before = beats();
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, writer, &barrier), 0);
    pthread_barrier_wait(&barrier);
    assert_int_equal(beats(), before + 4);
    for (int i = 0; i < 3; i++)
        pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
}

static void waits(void **state) {
    (void)state;
    struct pulse pulse;
    pulse_set(PULSE_REDUCE);
    pulse_wait_begin();
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    pulse_read(&pulse);
    assert_true(pulse.waits);
    assert_true(pulse.waited >= 0.02);
    pulse_wait_end();
    pulse_read(&pulse);
    double waited = pulse.waited;
    assert_false(pulse.waits);
    assert_true(waited >= 0.02);
    pulse_set(PULSE_EXPORT); // where one works and the others wait, it is not counted
    pulse_wait_begin();
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    pulse_wait_end();
    pulse_read(&pulse);
    assert_true(pulse.waited >= waited && pulse.waited <= waited);
}

static enum pulse_operation seen;
static uint64_t seen_step;

static void hook(enum pulse_operation operation, uint64_t step) {
    seen = operation;
    seen_step = step;
}

static void hooks(void **state) {
    (void)state;
    pulse_step(7);
    pulse_hook_set(hook);
    pulse_set(PULSE_LOSS);
    assert_int_equal(seen, PULSE_LOSS);
    assert_int_equal(seen_step, 7);
    pulse_hook_set(NULL);
    pulse_set(PULSE_NORM);
    assert_int_equal(seen, PULSE_LOSS);
}

static void task(void *context, size_t number, unsigned thread) {
    (void)context, (void)number, (void)thread;
}

// What takes long beats on its way: tasks, hashes, writes.
static void work(void **state) {
    (void)state;
    struct pool *pool;
    const unsigned threads[] = {1, 2};
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pool_open(&pool, threads[i]), STATUS_OK);
        uint64_t before = beats();
        pool_run(pool, task, NULL, 100);
        assert_true(beats() >= before + 100);
        pool_close(pool);
    }
    const size_t size = (size_t)40 << 20;
    char *bytes = calloc(size, 1), *digits = calloc(33, 1);
    assert_non_null(bytes);
    bytes[size - 1] = 1;
    uint64_t before = beats();
    uint64_t whole = hash64(bytes, size);
    assert_true(beats() >= before + 5);
    assert_true(whole == XXH3_64bits(bytes, size)); // as in one piece
    before = beats();
    struct hash_stream *stream;
    assert_int_equal(hash_begin(&stream), STATUS_OK);
    hash_add(stream, bytes, size);
    hash_end(stream, digits);
    assert_true(beats() >= before + 5);
    char path[] = "/tmp/finetuned-pulse-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    before = beats();
    assert_int_equal(file_write_all(fd, bytes, size, path), STATUS_OK);
    assert_true(beats() >= before + 3);
    before = beats();
    assert_int_equal(file_sync(fd), 0);
    assert_true(beats() >= before + 4);
    close(fd);
    unlink(path);
    free(bytes);
    free(digits);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations), cmocka_unit_test(names), cmocka_unit_test(patience), cmocka_unit_test(background),
        cmocka_unit_test(crowd),      cmocka_unit_test(waits), cmocka_unit_test(hooks),    cmocka_unit_test(work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
