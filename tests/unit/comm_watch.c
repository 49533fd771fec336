// SPDX-License-Identifier: Apache-2.0
// The watch's sockets: who may connect, and notes that come in part, are garbage, or find no room.
#include "support.h"

#include "comm/watch_parts.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct caller {
    struct watch_invitation invitation;
    int rank, fd;
    double patience;
};

static void *call(void *context) {
    struct caller *caller = context;
    caller->fd = watch_connect(&caller->invitation, caller->rank, true, caller->patience);
    return NULL;
}

static int taken(int listener) {
    struct pollfd polled = {listener, POLLIN, 0};
    assert_int_equal(poll(&polled, 1, 5000), 1);
    int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    return fd;
}

static struct watch_hello hello_of(int fd) {
    struct watch_hello hello;
    assert_int_equal(recv(fd, &hello, sizeof hello, MSG_WAITALL), sizeof hello);
    return hello;
}

static void test_meeting(void **state) {
    (void)state;
    struct caller caller = {.rank = 3, .patience = 10};
    pthread_t thread;
    int rank, listener = watch_listen(&caller.invitation, true);
    assert_true(listener >= 0);
    assert_true(caller.invitation.listens == 1 && caller.invitation.n == 0 && caller.invitation.port != 0);
    assert_int_equal(pthread_create(&thread, NULL, call, &caller), 0);
    int fd = taken(listener);
    struct watch_hello hello = hello_of(fd);
    assert_true(watch_hello_valid(&rank, &hello, &caller.invitation, 4));
    assert_int_equal(rank, 3);
    assert_false(watch_hello_valid(&rank, &hello, &caller.invitation, 3)); // not in that world
    hello.rank = 0;
    assert_false(watch_hello_valid(&rank, &hello, &caller.invitation, 4)); // rank 0 does not call itself
    hello.rank = 3;
    hello.token[7] ^= 1;
    assert_false(watch_hello_valid(&rank, &hello, &caller.invitation, 4));
    assert_int_equal(send(fd, caller.invitation.answer, WATCH_TOKEN, 0), WATCH_TOKEN);
    pthread_join(thread, NULL);
    assert_true(caller.fd >= 0);
    close(caller.fd);
    close(fd);
    close(listener);
}

// A stranger that listens on that port, nobody who does, rank 0 that could not listen.
static void test_strangers(void **state) {
    (void)state;
    struct caller caller = {.rank = 1, .patience = 10};
    pthread_t thread;
    int listener = watch_listen(&caller.invitation, true);
    assert_int_equal(pthread_create(&thread, NULL, call, &caller), 0);
    int fd = taken(listener);
    hello_of(fd);
    assert_int_equal(send(fd, "0123456789abcdef", WATCH_TOKEN, 0), WATCH_TOKEN);
    pthread_join(thread, NULL);
    assert_int_equal(caller.fd, -1);
    close(fd);
    caller.patience = 0.05; // says nothing
    call(&caller);
    assert_int_equal(caller.fd, -1);
    close(listener);
    call(&caller);
    assert_int_equal(caller.fd, -1);
    caller.invitation.listens = 0;
    call(&caller);
    assert_int_equal(caller.fd, -1);
}

static struct watch_note note_of(enum watch_kind kind, uint64_t step) {
    return (struct watch_note){.magic = WATCH_MAGIC, .kind = (uint8_t)kind, .operation = PULSE_FORWARD, .step = step};
}

static void lines_open(struct watch_line lines[2]) {
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    for (int i = 0; i < 2; i++)
        lines[i] = (struct watch_line){.fd = fds[i]};
}

static void test_notes(void **state) {
    (void)state;
    struct watch_line lines[2];
    struct watch_note note = note_of(WATCH_BEAT, 7), got;
    lines_open(lines);
    assert_int_equal(watch_receive(&lines[1], &got), 0);
    assert_true(watch_send(&lines[0], &note));
    assert_int_equal(watch_receive(&lines[1], &got), 1);
    assert_memory_equal(&got, &note, sizeof note);
    assert_int_equal(send(lines[0].fd, &note, 11, 0), 11); // in part
    assert_int_equal(watch_receive(&lines[1], &got), 0);
    assert_int_equal(send(lines[0].fd, (char *)&note + 11, sizeof note - 11, 0), sizeof note - 11);
    assert_int_equal(watch_receive(&lines[1], &got), 1);
    assert_int_equal(got.step, 7);
    watch_line_close(&lines[0]);
    assert_int_equal(watch_receive(&lines[1], &got), -1);
    assert_false(watch_send(&lines[1], &note));
    watch_line_close(&lines[1]);
    assert_int_equal(lines[1].fd, -1);
    assert_false(watch_send(&lines[1], &note));
}

static void test_garbage(void **state) {
    (void)state;
    struct watch_note bad[] = {note_of(WATCH_BEAT, 0), note_of(0, 0), note_of(WATCH_BYE + 1, 0),
                               note_of(WATCH_BEAT, 0)};
    bad[0].magic ^= 1;
    bad[3].operation = PULSE_OPERATIONS;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct watch_line lines[2];
        struct watch_note got;
        lines_open(lines);
        assert_true(watch_send(&lines[0], &bad[i]));
        assert_int_equal(watch_receive(&lines[1], &got), -1);
        watch_line_close(&lines[0]);
        watch_line_close(&lines[1]);
    }
}

// Nobody reads: nothing waits, notes are dropped as a whole, and what is read later is in order.
static void test_no_room(void **state) {
    (void)state;
    struct watch_line lines[2];
    struct watch_note got;
    uint64_t last = 0;
    unsigned n = 0;
    lines_open(lines);
    int small = 4096;
    setsockopt(lines[0].fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    for (uint64_t step = 1; step <= 10000; step++) {
        struct watch_note note = note_of(WATCH_BEAT, step);
        assert_true(watch_send(&lines[0], &note));
    }
    while (watch_receive(&lines[1], &got) == 1) {
        assert_true(got.step > last);
        last = got.step;
        n++;
    }
    assert_true(n > 0 && n < 10000);
    struct watch_note end = note_of(WATCH_END, 0);
    assert_true(watch_send(&lines[0], &end));
    while (watch_receive(&lines[1], &got) == 1)
        last = got.kind;
    assert_int_equal(last, WATCH_END);
    watch_line_close(&lines[0]);
    watch_line_close(&lines[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meeting), cmocka_unit_test(test_strangers), cmocka_unit_test(test_notes),
        cmocka_unit_test(test_garbage), cmocka_unit_test(test_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
