// SPDX-License-Identifier: Apache-2.0
// Mean, spread and paired differences against values made by hand.
#include "support.h"

#include "daemon/sweep/spread.h"

#include <math.h>

static void near(double got, double want) {
    if (isnan(want) ? !isnan(got) : !(fabs(got - want) <= 1e-15 * fmax(1, fabs(want))))
        fail_msg("%.17g, wanted %.17g", got, want);
}

static void spread_is(struct spread s, size_t n, double mean, double sd, double least, double most) {
    assert_int_equal(s.n, n);
    near(s.mean, mean);
    near(s.sd, sd);
    near(s.least, least);
    near(s.most, most);
}

static void test_spread(void **state) {
    (void)state;
    // 2 4 4 4 5 5 7 9: mean 5, squares 9+1+1+1+0+0+4+16 = 32, over 7
    spread_is(spread_of((const double[]){2, 4, 4, 4, 5, 5, 7, 9}, 8), 8, 5, sqrt(32.0 / 7), 2, 9);
    spread_is(spread_of((const double[]){0.5, 0.25, 0.75}, 3), 3, 0.5, 0.25, 0.25, 0.75);
    spread_is(spread_of((const double[]){-1, 3}, 2), 2, 1, sqrt(8.0), -1, 3);
    spread_is(spread_of((const double[]){7, 7, 7}, 3), 3, 7, 0, 7, 7);
    spread_is(spread_of((const double[]){0.8}, 1), 1, 0.8, NAN, 0.8, 0.8);
    spread_is(spread_of(NULL, 0), 0, NAN, NAN, NAN, NAN);
    spread_is(spread_of((const double[]){NAN, 1, NAN, 2}, 4), 2, 1.5, sqrt(0.5), 1, 2);
    spread_is(spread_of((const double[]){NAN}, 1), 0, NAN, NAN, NAN, NAN);
    // close values far from 0: 1, 2, 3 above 2^30
    spread_is(spread_of((const double[]){1073741825, 1073741826, 1073741827}, 3), 3, 1073741826, 1, 1073741825,
              1073741827);
}

static void test_paired(void **state) {
    (void)state;
    // differences 1, -2, 0, 5: mean 1, squares 0+9+1+16 = 26, over 3
    struct paired p = paired_of((const double[]){3, 1, 4, 9}, (const double[]){2, 3, 4, 4}, 4);
    spread_is(p.difference, 4, 1, sqrt(26.0 / 3), -2, 5);
    near(p.error, sqrt(26.0 / 3) / 2);
    assert_true(p.wins == 2 && p.losses == 1 && p.ties == 1);
    // a pair counts where both are there
    p = paired_of((const double[]){3, NAN, 4, 9}, (const double[]){2, 3, NAN, 4}, 4);
    spread_is(p.difference, 2, 3, sqrt(8.0), 1, 5);
    near(p.error, 2);
    assert_true(p.wins == 2 && p.losses == 0 && p.ties == 0);
    p = paired_of((const double[]){1, NAN}, (const double[]){2, 1}, 2);
    spread_is(p.difference, 1, -1, NAN, -1, -1);
    near(p.error, NAN);
    assert_true(p.wins == 0 && p.losses == 1 && p.ties == 0);
    p = paired_of(NULL, NULL, 0);
    spread_is(p.difference, 0, NAN, NAN, NAN, NAN);
    near(p.error, NAN);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_spread), cmocka_unit_test(test_paired)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
