// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "base/rng.h"

#include <math.h>

// The known answers published with Random123 (kat_vectors, philox4x32 with 10 rounds).
static void test_known_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4];
        uint32_t key[2];
        uint32_t wanted[4];
    } rows[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t got[4];
        rng_philox(got, rows[i].counter, (uint64_t)rows[i].key[1] << 32 | rows[i].key[0]);
        assert_memory_equal(got, rows[i].wanted, sizeof got);
    }
    uint32_t same[4] = {0, 0, 0, 0}; // in place
    rng_philox(same, same, 0);
    assert_memory_equal(same, rows[0].wanted, sizeof same);
}

static void test_stream(void **state) {
    (void)state;
    struct rng a = rng_stream(7, 1), b = rng_stream(7, 1), c = rng_stream(7, 2), d = rng_stream(8, 1);
    uint32_t block[4];
    rng_philox(block, (uint32_t[4]){0, 0, 0, 0}, a.key);
    uint64_t first = rng_u64(&a), second = rng_u64(&a);
    assert_int_equal(first, (uint64_t)block[1] << 32 | block[0]);
    assert_int_equal(second, (uint64_t)block[3] << 32 | block[2]);
    assert_int_equal(rng_u64(&b), first);
    assert_int_not_equal(rng_u64(&c), first);
    assert_int_not_equal(rng_u64(&d), first);
    b.next = (UINT64_C(1) << 33) + 2; // the counter's second word counts too
    rng_philox(block, (uint32_t[4]){1, 1, 0, 0}, b.key);
    assert_int_equal(rng_u64(&b), (uint64_t)block[1] << 32 | block[0]);
}

static void test_mix(void **state) {
    (void)state;
    assert_int_not_equal(rng_mix(0, 1), rng_mix(1, 0));
    assert_int_not_equal(rng_mix(0, 0), 0);
    uint64_t seen[4096];
    for (uint64_t a = 0; a < 64; a++)
        for (uint64_t b = 0; b < 64; b++)
            seen[a * 64 + b] = rng_mix(a, b);
    for (size_t i = 0; i < 4096; i++)
        for (size_t j = i + 1; j < 4096; j++)
            assert_int_not_equal(seen[i], seen[j]);
    double flips = 0; // a changed bit changes half of the bits
    for (unsigned bit = 0; bit < 64; bit++)
        flips += __builtin_popcountll(rng_mix(5, 9) ^ rng_mix(5 ^ UINT64_C(1) << bit, 9)) +
                 __builtin_popcountll(rng_mix(5, 9) ^ rng_mix(5, 9 ^ UINT64_C(1) << bit));
    assert_near(flips / 128, 32.0, 2.0, 0);
}

static void test_below(void **state) {
    (void)state;
    struct rng rng = rng_stream(1, 1);
    unsigned counts[7] = {0};
    for (unsigned i = 0; i < 70000; i++) {
        uint64_t value = rng_below(&rng, 7);
        assert_true(value < 7);
        counts[value]++;
    }
    for (unsigned i = 0; i < 7; i++)
        assert_near(counts[i], 10000, 500, 0); // 5 standard deviations are 463
    assert_int_equal(rng_below(&rng, 1), 0);
    // With n = 3/4 of 2^64 a plain product would give a third of the values twice as often as the others: it maps the
    // 2^64 words to n values, so that each third one gets two. Rejection takes words away, so more than one is drawn.
    uint64_t n = UINT64_C(3) << 62, before = rng.next;
    for (unsigned i = 0; i < 4000; i++)
        assert_true(rng_below(&rng, n) < n);
    assert_near((double)(rng.next - before) / 4000, 4.0 / 3, 0.06, 0);
}

static void test_reals(void **state) {
    (void)state;
    struct rng rng = rng_stream(3, 4);
    enum { N = 200000 };
    double mean = 0, square = 0, fourth = 0, lag = 0, last = 0, uniform = 0;
    for (unsigned i = 0; i < N; i++) {
        double u = rng_uniform(&rng);
        assert_true(u >= 0.0 && u < 1.0);
        uniform += u / N;
        double x = rng_normal(&rng);
        assert_true(isfinite(x));
        mean += x / N;
        square += x * x / N;
        fourth += x * x * x * x / N;
        lag += x * last / N;
        last = x;
    }
    assert_near(uniform, 0.5, 0.004, 0); // six standard errors each
    assert_near(mean, 0.0, 0.014, 0);
    assert_near(square, 1.0, 0.02, 0);
    assert_near(fourth, 3.0, 0.14, 0);
    assert_near(lag, 0.0, 0.014, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers), cmocka_unit_test(test_stream), cmocka_unit_test(test_mix),
        cmocka_unit_test(test_below),         cmocka_unit_test(test_reals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
