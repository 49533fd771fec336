// SPDX-License-Identifier: Apache-2.0
// Signals and time as flags of one word: what ranks see is joined and told apart again.
#include "support.h"

#include "train/stop.h"

#include <signal.h>

static void test_time(void **state) {
    (void)state;
    assert_int_equal(stop_flags(false), 0);
    assert_int_equal(stop_flags_signal(0), 0);
    assert_false(stop_flags_time(0));
    uint32_t time = stop_flags(true);
    assert_true(stop_flags_time(time));
    assert_int_equal(stop_flags_signal(time), 0);
}

// One rank's signal and another's time; of several signals the lowest.
static void test_signals(void **state) {
    (void)state;
    uint32_t time = stop_flags(true);
    assert_ok(stop_install());
    assert_int_equal(raise(SIGTERM), 0);
    uint32_t term = stop_flags(false);
    assert_false(stop_flags_time(term));
    assert_int_equal(stop_flags_signal(term), SIGTERM);
    assert_true(stop_flags_time(term | time));
    assert_int_equal(stop_flags_signal(term | time), SIGTERM);
    assert_int_equal(stop_flags_signal(term | 1u << SIGUSR1 | time), SIGUSR1);
    assert_string_equal(stop_name(stop_flags_signal(term)), "SIGTERM");
    assert_int_equal(raise(SIGUSR1), 0); // the first one counts
    assert_int_equal(stop_flags(false), term);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_time), cmocka_unit_test(test_signals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
