// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "train/history.h"

#include <math.h>

static void parse(struct history *h, size_t *whole, const char *lines) {
    assert_ok(history_parse(h, whole, lines, strlen(lines)));
}

#define START                                                                                                          \
    "{\"event\": \"start\", \"time\": 100.0, \"steps_total\": 30, \"data\": {\"hash\": \"da7a\"}, \"base_hash\": "     \
    "\"ba5e\"}\n"
#define STEP(n, time)                                                                                                  \
    "{\"event\": \"step\", \"time\": " #time ", \"step\": " #n ", \"epoch\": 2, \"loss\": 0.5, \"tweets_per_s\": "     \
    "90}\n"
#define EVAL(split, n)                                                                                                 \
    "{\"event\": \"eval\", \"time\": 103, \"split\": \"" split "\", \"epoch\": 1, \"step\": " #n                       \
    ", \"loss\": 0.7, \"official\": {\"name\": \"macro_f1\", \"value\": 0.25}}\n"

static void test_course(void **state) {
    (void)state;
    struct history h;
    size_t whole;
    parse(&h, &whole, START STEP(5, 101) EVAL("val", 10) STEP(11, 104) EVAL("test", 7) "{\"event\": \"en");
    assert_int_equal(whole, strlen(START STEP(5, 101) EVAL("val", 10) STEP(11, 104) EVAL("test", 7)));
    assert_true(h.any);
    assert_int_equal(h.starts, 1);
    assert_string_equal(h.data_hash, "da7a");
    assert_string_equal(h.base_hash, "ba5e");
    assert_int_equal(h.step, 11); // not 7: that is the best model's
    assert_int_equal(h.epoch, 2);
    assert_int_equal(h.steps_total, 30);
    assert_string_equal(h.ended, "no stop event");
    assert_int_equal(h.end_step, 0);
    assert_int_equal(h.n, 2);
    assert_string_equal(h.evaluations[0].split, "val");
    assert_string_equal(h.evaluations[0].official, "macro_f1");
    assert_true(h.evaluations[0].value == 0.25 && h.evaluations[0].loss == 0.7 && h.loss == 0.5);
    assert_true(h.began == 100 && h.at == 103 && h.active == 3);
    history_release(&h);
    // a checkpoint is told after its commit, when training has gone on
    parse(&h, &whole, START STEP(5, 101) "{\"event\": \"checkpoint\", \"time\": 102, \"step\": 4}\n");
    assert_int_equal(h.step, 5);
    history_release(&h);
    parse(&h, &whole, START "{\"event\": \"checkpoint\", \"time\": 102, \"step\": 4}\n");
    assert_int_equal(h.step, 4);
    history_release(&h);
}

// What a resume supersedes is gone, and idle time between two starts is not counted.
static void test_resume(void **state) {
    (void)state;
    struct history h;
    size_t whole;
    parse(&h, &whole,
          START EVAL("val", 10) EVAL("val", 20) "{\"event\": \"end\", \"time\": 110, \"step\": 20}\n"
                                                "{\"event\": \"resume\", \"time\": 500, \"step\": 12}\n"
                                                "{\"event\": \"start\", \"time\": 501, \"steps_total\": 40}\n" STEP(
                                                    13, 503) "{\"event\": \"stop\", \"time\": 504, \"step\": 13, "
                                                             "\"reason\": \"signal\"}\n");
    assert_int_equal(h.starts, 2);
    assert_string_equal(h.base_hash, ""); // of the last start, which has none
    assert_int_equal(h.n, 1);
    assert_int_equal(h.evaluations[0].step, 10);
    assert_int_equal(h.step, 13);
    assert_int_equal(h.steps_total, 40);
    assert_int_equal(h.end_step, 0);
    assert_string_equal(h.ended, "stop: signal");
    assert_true(h.active == 10 + 3);
    history_release(&h);
}

// Ended behind an evaluation, and made again: once.
static void test_evaluated_again(void **state) {
    (void)state;
    struct history h;
    size_t whole;
    parse(&h, &whole, START EVAL("val", 10) EVAL("test", 10) EVAL("val", 20) EVAL("val", 10) EVAL("val", 20));
    assert_int_equal(h.n, 3);
    assert_string_equal(h.evaluations[0].split, "test");
    assert_int_equal(h.evaluations[1].step, 10);
    assert_int_equal(h.evaluations[2].step, 20);
    history_release(&h);
}

// A start without a resume begins at step 0: nothing of what was there before is this run's.
static void test_afresh(void **state) {
    (void)state;
    struct history h;
    size_t whole;
    parse(&h, &whole, START STEP(5, 101) EVAL("val", 10) "{\"event\": \"end\", \"time\": 110, \"step\": 20}\n" START);
    assert_int_equal(h.starts, 2);
    assert_int_equal(h.n, 0);
    assert_int_equal(h.step, 0);
    assert_int_equal(h.end_step, 0);
    assert_true(isnan(h.loss));
    history_release(&h);
}

static void test_end(void **state) {
    (void)state;
    struct history h;
    size_t whole;
    parse(&h, &whole, START STEP(1, 102) "{\"event\": \"end\", \"time\": 105, \"step\": 1}\n");
    assert_string_equal(h.ended, "end");
    assert_int_equal(h.end_step, 1);
    history_release(&h);
}

// Lines that are no events, and values of the wrong type.
static void test_odd(void **state) {
    (void)state;
    struct history h;
    size_t whole;
    parse(&h, &whole,
          "\n[]\n{}\n{\"event\": 3}\n{\"event\": \"eval\"}\n{\"event\": \"step\", \"step\": -4, \"loss\": "
          "\"x\"}\n\xff\n");
    assert_true(h.any);
    assert_int_equal(h.n, 1);
    assert_int_equal(h.step, 0);
    assert_true(isnan(h.evaluations[0].loss) && isnan(h.loss));
    history_release(&h);
    parse(&h, &whole, "");
    assert_false(h.any);
    assert_int_equal(whole, 0);
    history_release(&h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_course), cmocka_unit_test(test_resume),          cmocka_unit_test(test_end),
        cmocka_unit_test(test_afresh), cmocka_unit_test(test_evaluated_again), cmocka_unit_test(test_odd)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
