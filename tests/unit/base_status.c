// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <errno.h>
#include <pthread.h>

// Design, section 8.
static void test_exit_codes(void **state) {
    (void)state;
    assert_int_equal(status_exit_code(STATUS_OK), 0);
    assert_int_equal(status_exit_code(STATUS_ARGUMENT), 70);
    assert_int_equal(status_exit_code(STATUS_USAGE), 64);
    assert_int_equal(status_exit_code(STATUS_DATA), 65);
    assert_int_equal(status_exit_code(STATUS_SYSTEM), 70);
    assert_int_equal(status_exit_code(STATUS_IO), 74);
    assert_int_equal(status_exit_code(STATUS_DEVICE), 69);
    assert_int_equal(status_exit_code(STATUS_REMOTE), 75);
    assert_int_equal(status_exit_code(STATUS_TIMEOUT), 75);
    assert_int_equal(status_exit_code(STATUS_AGAIN), 75);
    assert_int_equal(status_exit_code((enum status)99), 70);
}

static void test_messages(void **state) {
    (void)state;
    assert_int_equal(status_set(STATUS_DATA, "%s:%d: label %s", "train_labels.txt", 7, "-1"), STATUS_DATA);
    assert_string_equal(status_message(), "train_labels.txt:7: label -1");
    assert_int_equal(status_add(STATUS_DATA, "task %s", "emotion"), STATUS_DATA);
    assert_string_equal(status_message(), "task emotion: train_labels.txt:7: label -1");
    errno = ENOSPC;
    assert_int_equal(status_errno(STATUS_IO, "write %s", "a"), STATUS_IO);
    assert_string_equal(status_message(), "write a: No space left on device");
    assert_int_equal(errno, ENOSPC);
    status_set(STATUS_IO, "again: %s", status_message()); // its own message among the arguments
    assert_string_equal(status_message(), "again: write a: No space left on device");
}

// What a user's file put into the message can't break the line or move the terminal's cursor.
static void test_one_line(void **state) {
    (void)state;
    status_set(STATUS_DATA, "a\nb\rc\x1b[2Jd\x7f");
    assert_string_equal(status_message(), "a b c [2Jd ");
}

static void test_cut(void **state) {
    (void)state;
    char longer[3000];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    status_set(STATUS_DATA, "%s", longer);
    assert_int_equal(strlen(status_message()), 1023);
    status_add(STATUS_DATA, "context");
    assert_int_equal(strlen(status_message()), 1023);
    assert_memory_equal(status_message(), "context: xxx", 12);
    status_add(STATUS_DATA, "%s", longer);
    assert_int_equal(strlen(status_message()), 1023);
    // 3 bytes a character: 1023 = 341 whole ones; after one or two other bytes the last one does not fit
    for (size_t i = 0; i + 3 < sizeof longer; i += 3)
        memcpy(longer + i, "\xe2\x82\xac", 4);
    status_set(STATUS_DATA, "%s", longer);
    assert_int_equal(strlen(status_message()), 1023);
    status_set(STATUS_DATA, "a%s", longer);
    assert_int_equal(strlen(status_message()), 1021);
    status_set(STATUS_DATA, "ab%s", longer);
    assert_int_equal(strlen(status_message()), 1022);
}

static void *other_thread(void *argument) {
    (void)argument;
    bool was_empty = status_message()[0] == '\0';
    status_set(STATUS_IO, "other");
    return was_empty ? (void *)1 : NULL;
}

static void test_threads(void **state) {
    (void)state;
    status_set(STATUS_DATA, "mine");
    pthread_t thread;
    void *was_empty;
    assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
    pthread_join(thread, &was_empty);
    assert_non_null(was_empty);
    assert_string_equal(status_message(), "mine");
}

static enum status give(enum status status) {
    return status;
}

static enum status tried(enum status first, int *reached) {
    TRY(give(first));
    *reached = 1;
    return STATUS_OK;
}

static enum status tried_goto(enum status first, int *reached) {
    enum status status;
    TRY_GOTO(give(first), out);
    *reached = 1;
out:
    return status;
}

static void test_try(void **state) {
    (void)state;
    int reached = 0;
    assert_int_equal(tried(STATUS_IO, &reached), STATUS_IO);
    assert_int_equal(tried_goto(STATUS_IO, &reached), STATUS_IO);
    assert_int_equal(reached, 0);
    assert_int_equal(tried(STATUS_OK, &reached), STATUS_OK);
    assert_int_equal(reached, 1);
    reached = 0;
    assert_int_equal(tried_goto(STATUS_OK, &reached), STATUS_OK);
    assert_int_equal(reached, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_codes), cmocka_unit_test(test_messages), cmocka_unit_test(test_one_line),
        cmocka_unit_test(test_cut),        cmocka_unit_test(test_threads),  cmocka_unit_test(test_try),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
