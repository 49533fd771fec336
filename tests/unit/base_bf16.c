// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "base/bf16.h"
#include "base/pool.h"

#include <math.h>

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void test_bf16_round_trip(void **state) {
    (void)state;
    for (uint32_t half = 0; half <= 0xffff; half++) {
        float value = bf16_to_float((uint16_t)half);
        assert_int_equal(bits_of(value), half << 16);
        uint16_t back = bf16_from_float(value);
        if (isnan(value))
            assert_true(isnan(bf16_to_float(back)));
        else
            assert_int_equal(back, half);
    }
}

static void test_bf16_rounding(void **state) {
    (void)state;
    assert_int_equal(bf16_from_float(float_of(0x3f808000)), 0x3f80); // a tie goes to even, down
    assert_int_equal(bf16_from_float(float_of(0x3f818000)), 0x3f82); // and up
    assert_int_equal(bf16_from_float(float_of(0x3f808001)), 0x3f81);
    assert_int_equal(bf16_from_float(float_of(0x3f80ffff)), 0x3f81);
    assert_int_equal(bf16_from_float(float_of(0x3f807fff)), 0x3f80);
    assert_int_equal(bf16_from_float(float_of(0xbf818000)), 0xbf82);
    assert_int_equal(bf16_from_float(float_of(0x7f7fffff)), 0x7f80); // the largest float rounds to infinity
    assert_int_equal(bf16_from_float(float_of(0x7f800000)), 0x7f80);
    assert_true(isnan(bf16_to_float(bf16_from_float(float_of(0x7f800001))))); // a NaN whose payload is cut off
    assert_true(isnan(bf16_to_float(bf16_from_float(float_of(0xffffffff)))));
}

// Every half against its definition, also while the thread flushes denormals.
static void test_f16(void **state) {
    (void)state;
    pool_flush_denormals();
    for (uint32_t half = 0; half <= 0xffff; half++) {
        int exponent = half >> 10 & 31;
        double fraction = half & 0x3ff;
        double sign = half & 0x8000 ? -1.0 : 1.0;
        float value = f16_to_float((uint16_t)half);
        if (exponent == 31 && fraction != 0) {
            assert_true(isnan(value));
            continue;
        }
        double wanted = exponent == 31  ? (double)INFINITY
                        : exponent == 0 ? ldexp(fraction, -24)
                                        : ldexp(1024 + fraction, exponent - 25);
        assert_int_equal(bits_of(value), bits_of((float)(sign * wanted)));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bf16_round_trip),
        cmocka_unit_test(test_bf16_rounding),
        cmocka_unit_test(test_f16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
