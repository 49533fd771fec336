// SPDX-License-Identifier: Apache-2.0
// FINETUNED_FAULT: what is accepted, what is refused, and where it strikes.
#include "support.h"

#include "comm/comm.h"

static void test_accepted(void **state) {
    (void)state;
    struct comm_fault faults[COMM_FAULTS];
    unsigned n = 9;
    assert_ok(comm_faults_parse(faults, &n, NULL));
    assert_int_equal(n, 0);
    assert_ok(comm_faults_parse(faults, &n, ""));
    assert_int_equal(n, 0);
    assert_ok(comm_faults_parse(faults, &n, "nan:rank=1,cursor=5;nan:count=3,cursor=18446744073709551615,rank=0"));
    assert_int_equal(n, 2);
    assert_true(faults[0].rank == 1 && faults[0].cursor == 5 && faults[0].count == 1);
    assert_true(faults[1].rank == 0 && faults[1].cursor == UINT64_MAX && faults[1].count == 3);
}

static void test_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "nan",
        "nan:",
        "NaN:rank=1,cursor=5",
        "inf:rank=1,cursor=5",
        "nan:rank=1",
        "nan:cursor=5",
        "nan:rank=1,cursor=5,",
        "nan:rank=1,,cursor=5",
        "nan:rank=1,cursor=5;",
        ";nan:rank=1,cursor=5",
        "nan:rank=1,cursor=5,cursor=6",
        "nan:rank=-1,cursor=5",
        "nan:rank=2147483648,cursor=5",
        "nan:rank=1,cursor=18446744073709551616",
        "nan:rank=1,cursor=5x",
        "nan:rank=1,cursor=5,ranks=3",
        "nan:rank=,cursor=5",
        "nan:rank=1 cursor=5",
        "nan:rank=0,cursor=0;nan:rank=0,cursor=1;nan:rank=0,cursor=2;nan:rank=0,cursor=3;nan:rank=0,cursor=4;"
        "nan:rank=0,cursor=5;nan:rank=0,cursor=6;nan:rank=0,cursor=7;nan:rank=0,cursor=8",
    };
    struct comm_fault faults[COMM_FAULTS];
    unsigned n;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (comm_faults_parse(faults, &n, bad[i]) != STATUS_USAGE)
            fail_msg("accepted: %s", bad[i]);
    char long_one[400];
    memset(long_one, '1', sizeof long_one - 1);
    long_one[sizeof long_one - 1] = 0;
    memcpy(long_one, "nan:rank=", 9);
    assert_status(comm_faults_parse(faults, &n, long_one), STATUS_USAGE);
}

static void test_where(void **state) {
    (void)state;
    struct comm comm = {.rank = 1, .world = 2};
    assert_ok(comm_faults_parse(comm.faults, &comm.n_faults, "nan:rank=0,cursor=1;nan:rank=1,cursor=5,count=2"));
    for (uint64_t cursor = 0; cursor < 10; cursor++)
        assert_int_equal(comm_fault_nan(&comm, cursor), cursor == 5 || cursor == 6);
    assert_ok(comm_faults_parse(comm.faults, &comm.n_faults, "nan:rank=1,cursor=18446744073709551614,count=9"));
    assert_true(comm_fault_nan(&comm, UINT64_MAX) && !comm_fault_nan(&comm, 0)); // no wrap-around
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_where),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
