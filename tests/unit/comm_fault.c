// SPDX-License-Identifier: Apache-2.0
// FINETUNED_FAULT: what is accepted, what is refused, and where it strikes.
#include "support.h"

#include "base/job.h"
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>

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

static void test_places(void **state) {
    (void)state;
    struct comm_fault f[COMM_FAULTS];
    unsigned n;
    assert_ok(comm_faults_parse(f, &n,
                                "kill:rank=2,call=7,of=exchange;hang:rank=0,at=checkpoint write,step=12;"
                                "delay:count=9,ms=250,at=sum of gradients,call=3,rank=1;corrupt:rank=1,call=4,bit=29;"
                                "fail:rank=3,of=any,call=1;stop:rank=1,at=export"));
    assert_int_equal(n, 6);
    assert_true(f[0].kind == FAULT_KILL && f[0].rank == 2 && f[0].call == 7 && f[0].of == CALL_EXCHANGE &&
                !f[0].staged);
    assert_true(f[1].kind == FAULT_HANG && f[1].staged && f[1].at == PULSE_WRITE && f[1].step == 12 && f[1].call == 1);
    assert_true(f[2].kind == FAULT_DELAY && f[2].at == PULSE_REDUCE && f[2].call == 3 && f[2].count == 9 &&
                f[2].ms == 250 && f[2].step == UINT64_MAX);
    assert_true(f[3].kind == FAULT_CORRUPT && f[3].call == 4 && f[3].bit == 29 && f[3].of == CALL_ANY);
    assert_true(f[4].kind == FAULT_FAIL && f[4].of == CALL_ANY);
    assert_true(f[5].kind == FAULT_STOP && f[5].at == PULSE_EXPORT);
}

// Around the backend of one rank: the calls are counted, and go by its name.
static void test_decorator(void **state) {
    (void)state;
    struct comm *comm;
    unsigned char in[2] = {1, 2}, out[2] = {0};
    setenv("FINETUNED_FAULT", "corrupt:rank=0,call=2,of=all_gather,bit=9;fail:rank=0,call=2,of=barrier,count=1", 1);
    assert_ok(comm_open(&comm, JOB_BACKEND_SELF));
    unsetenv("FINETUNED_FAULT");
    assert_string_equal(comm->ops->name, "self");
    assert_non_null(comm->inner);
    assert_ok(comm_all_gather(comm, in, out, sizeof in));
    assert_true(out[0] == 1 && out[1] == 2);
    assert_ok(comm_all_gather(comm, in, out, sizeof in));
    assert_true(out[0] == 1 && out[1] == 0);
    assert_ok(comm_all_gather(comm, in, out, sizeof in));
    assert_true(out[0] == 1 && out[1] == 2);
    assert_ok(comm_barrier(comm));
    assert_false(comm->alone);
    assert_status(comm_barrier(comm), STATUS_REMOTE);
    assert_true(comm->alone && comm_speaks(comm));
    assert_ok(comm_barrier(comm));
    comm_close(comm);
}

// At an operation, the third time after step 5: here a delay, which beats all the while.
static void test_staged(void **state) {
    (void)state;
    struct comm *comm;
    struct pulse before, after;
    setenv("FINETUNED_FAULT", "delay:rank=0,at=forward,step=5,call=3,ms=50", 1);
    assert_ok(comm_open(&comm, JOB_BACKEND_SELF));
    unsetenv("FINETUNED_FAULT");
    assert_null(comm->inner);
    for (uint64_t step = 4; step <= 6; step++) {
        pulse_step(step);
        for (unsigned call = 1; call <= 4; call++) {
            pulse_read(&before);
            pulse_set(PULSE_FORWARD);
            pulse_read(&after);
            assert_int_equal(after.main.beats - before.main.beats, step == 5 && call == 3 ? 6 : 1);
        }
        pulse_set(PULSE_BACKWARD);
    }
    comm_close(comm);
    pulse_step(5);
    for (unsigned call = 1; call <= 4; call++) // it is lifted with its world
        pulse_set(PULSE_FORWARD);
    pulse_read(&before);
    assert_int_equal(before.main.beats - after.main.beats, 7);
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
        "nan:rank=1,cursor=5,call=1",
        "kill",
        "kill:rank=1",
        "kill:call=1",
        "kill:rank=1,call=0",
        "kill:rank=1,call=x",
        "kill:rank=1,step=3",
        "kill:rank=1,call=1,step=3",
        "kill:rank=1,at=forward,of=exchange",
        "kill:rank=1,at=forwards",
        "kill:rank=1,at=",
        "kill:rank=1,call=1,of=gather",
        "kill:rank=1,call=1,ms=5",
        "kills:rank=1,call=1",
        "stop:rank=1,call=1,bit=1",
        "delay:rank=1,call=1",
        "delay:rank=1,call=1,ms=4294967296",
        "fail:rank=1,at=forward",
        "corrupt:rank=1,at=forward",
        "corrupt:rank=1",
        "hang:rank=1,at=forward,at=loss",
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
        cmocka_unit_test(test_accepted), cmocka_unit_test(test_places),  cmocka_unit_test(test_decorator),
        cmocka_unit_test(test_staged),   cmocka_unit_test(test_refused), cmocka_unit_test(test_where),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
