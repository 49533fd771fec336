// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "base/text.h"

#include <locale.h>
#include <math.h>

static void test_build(void **state) {
    (void)state;
    struct text text = {0};
    assert_string_equal(text_string(&text), "");
    text_puts(&text, "step ");
    text_printf(&text, "%d of %s", 3, "10");
    text_add(&text, "\0x", 2);
    assert_int_equal(text.size, 14);
    assert_memory_equal(text.at, "step 3 of 10\0x", 15);
    text_clear(&text);
    assert_string_equal(text_string(&text), "");
    for (unsigned i = 0; i < 5000; i++)
        text_printf(&text, "%04u,", i);
    assert_int_equal(text.size, 25000);
    assert_memory_equal(text.at + 24995, "4999,", 6);
    text_add(&text, NULL, 0);
    assert_int_equal(text.size, 25000);
    text_release(&text);
    assert_null(text.at);
}

static void test_unsigned(void **state) {
    (void)state;
    const uint64_t numbers[] = {0, 7, 10, 99, 100, 4294967295u, UINT64_MAX};
    struct text text = {0};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char wanted[32];
        snprintf(wanted, sizeof wanted, "%llu", (unsigned long long)numbers[i]);
        text_clear(&text);
        text_unsigned(&text, numbers[i]);
        assert_string_equal(text_string(&text), wanted);
    }
    text_release(&text);
}

static void test_ceiling(void **state) {
    (void)state;
    struct text text = {0};
    text_puts(&text, "kept");
    text_add(&text, "never read", TEXT_MAX - 3);
    assert_true(text.failed);
    assert_null(text_string(&text));
    text_puts(&text, "more");
    assert_int_equal(text.size, 4);
    text_clear(&text);
    assert_string_equal(text_string(&text), "");
    text_release(&text);
}

// Every code point there and back; surrogates and what is above are refused.
static void test_utf8_all(void **state) {
    (void)state;
    for (uint32_t code = 0; code <= 0x10ffff; code++) {
        char bytes[4];
        uint32_t back = 0;
        unsigned length = utf8_encode(code, bytes);
        unsigned wanted = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
        assert_int_equal(length, wanted);
        bool surrogate = code >= 0xd800 && code <= 0xdfff;
        assert_int_equal(utf8_decode(bytes, bytes + length, &back), surrogate ? 0 : length);
        assert_int_equal(back, surrogate ? 0 : code);
        for (unsigned cut = 0; cut < length; cut++)
            assert_int_equal(utf8_decode(bytes, bytes + cut, &back), 0);
    }
}

// All two-byte and three-byte strings that decode are the shortest form of what they decode to.
static void test_utf8_invalid(void **state) {
    (void)state;
    for (uint32_t value = 0; value < 1u << 24; value++) {
        char bytes[3] = {(char)(value >> 16), (char)(value >> 8), (char)value};
        uint32_t code;
        unsigned length = utf8_decode(bytes, bytes + 3, &code);
        if (length == 0)
            continue;
        char again[4];
        if (utf8_encode(code, again) != length || memcmp(bytes, again, length) != 0)
            fail_msg("%06x decodes to %x", value, code);
    }
    static const char *const bad[] = {"\xf4\x90\x80\x80",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf5\x80\x80\x80",
                                      "\xf8\x88\x80\x80\x80",
                                      "\xed\xa0\x80",
                                      "\xc0\x80",
                                      "\x80",
                                      "\xff"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint32_t code;
        assert_int_equal(utf8_decode(bad[i], bad[i] + strlen(bad[i]), &code), 0);
    }
}

static void test_utf8_check(void **state) {
    (void)state;
    assert_int_equal(utf8_check("", 0), 0);
    assert_int_equal(utf8_check("a\0b", 3), 3);
    assert_int_equal(utf8_check("caf\xc3\xa9 \xf0\x9f\x98\x80", 10), 10);
    assert_int_equal(utf8_check("caf\xc3\xa9 \xf0\x9f\x98\x80", 9), 6);
    assert_int_equal(utf8_check("ab\xff", 3), 2);
}

static void test_integers(void **state) {
    (void)state;
    static const char *const bad[] = {"", "-", " 1", "1 ", "1.0", "+1", "0x1", "1e3", "--1", "1\n", "abc"};
    int64_t i;
    uint64_t u;
    for (size_t n = 0; n < sizeof bad / sizeof bad[0]; n++) {
        assert_false(text_to_i64(bad[n], &i));
        assert_false(text_to_u64(bad[n], &u));
    }
    assert_true(text_to_u64("18446744073709551615", &u) && u == UINT64_MAX);
    assert_false(text_to_u64("18446744073709551616", &u));
    assert_false(text_to_u64("184467440737095516150", &u));
    assert_false(text_to_u64("-1", &u));
    assert_true(text_to_u64("007", &u) && u == 7);
    assert_true(text_to_i64("-9223372036854775808", &i) && i == INT64_MIN);
    assert_false(text_to_i64("-9223372036854775809", &i));
    assert_true(text_to_i64("9223372036854775807", &i) && i == INT64_MAX);
    assert_false(text_to_i64("9223372036854775808", &i));
    assert_true(text_to_i64("-0", &i) && i == 0);
}

static void test_sizes(void **state) {
    (void)state;
    int64_t value;
    assert_true(text_to_size("0", &value) && value == 0);
    assert_true(text_to_size("4096", &value) && value == 4096);
    assert_true(text_to_size("3KiB", &value) && value == 3072);
    assert_true(text_to_size("512MiB", &value) && value == 536870912);
    assert_true(text_to_size("1TiB", &value) && value == INT64_C(1) << 40);
    assert_true(text_to_size("9223372036854775807", &value) && value == INT64_MAX);
    static const char *const bad[] = {
        "", "KiB", "-1", "1kib", "1 KiB", "1KiB ", "1.5GiB", "8388608TiB", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(text_to_size(bad[i], &value));
}

static void test_doubles(void **state) {
    (void)state;
    setlocale(LC_ALL, "de_DE.UTF-8"); // may be missing here; where it is not, the comma must not matter
    static const char *const bad[] = {"",    "-",    ".",     "e5",  " 1", "1 ",  "+1",    "0x10", "inf",     "-inf",
                                      "nan", "1e5x", "1e999", "1,5", "1e", "--1", "1.2.3", "-nan", "infinity"};
    double value;
    for (size_t n = 0; n < sizeof bad / sizeof bad[0]; n++)
        if (text_to_double(bad[n], &value))
            fail_msg("%s was taken as %g", bad[n], value);
    assert_true(text_to_double("5.0e-5", &value) && value == 5.0e-5);
    assert_true(text_to_double("-0.25", &value) && value == -0.25);
    assert_true(text_to_double("3", &value) && value == 3.0);
    assert_true(text_to_double(".5", &value) && value == 0.5);
    assert_true(text_to_double("1e-400", &value) && value == 0.0);
    setlocale(LC_ALL, "C");
}

static void test_nearest(void **state) {
    (void)state;
    static const char *const names[] = {"job", "train.lr", "train.epochs", "train.max_steps", "log.level", "out"};
    size_t n = sizeof names / sizeof names[0];
    assert_string_equal(text_nearest("train.epoch", names, n), "train.epochs");
    assert_string_equal(text_nearest("train.rl", names, n), "train.lr"); // neighbours swapped: one edit
    assert_string_equal(text_nearest("train.max-steps", names, n), "train.max_steps");
    assert_string_equal(text_nearest("log.levle", names, n), "log.level");
    assert_string_equal(text_nearest("lr", names, n), "train.lr"); // without its section
    assert_string_equal(text_nearest("jbo", names, n), "job");
    assert_null(text_nearest("optimizer", names, n));
    assert_null(text_nearest("", names, n));
    assert_null(text_nearest("x", names, n));
    assert_null(text_nearest("job", names, 0));
    char longer[300];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    assert_null(text_nearest(longer, names, n));
    longer[64] = '\0'; // the longest that is compared
    const char *const long_names[] = {longer};
    assert_ptr_equal(text_nearest(longer, long_names, 1), longer);
}

static void test_word(void **state) {
    (void)state;
    static const char *const rows[][2] = {{"a/b-1.c_d:e=f,g@h+i%", "a/b-1.c_d:e=f,g@h+i%"},
                                          {"", "''"},
                                          {"two words", "'two words'"},
                                          {"it's", "'it'\\''s'"},
                                          {"$HOME;`x`\"", "'$HOME;`x`\"'"},
                                          {"~", "'~'"},
                                          {"\xc3\xbc", "'\xc3\xbc'"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct text text = {0};
        text_word(&text, rows[i][0]);
        assert_string_equal(text_string(&text), rows[i][1]);
        text_release(&text);
    }
}

static void test_format(void **state) {
    (void)state;
    char *made = text_format("%s-%08d", "step", 200);
    assert_string_equal(made, "step-00000200");
    free(made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build),    cmocka_unit_test(test_unsigned),     cmocka_unit_test(test_ceiling),
        cmocka_unit_test(test_utf8_all), cmocka_unit_test(test_utf8_invalid), cmocka_unit_test(test_utf8_check),
        cmocka_unit_test(test_integers), cmocka_unit_test(test_sizes),        cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_nearest),  cmocka_unit_test(test_format),       cmocka_unit_test(test_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
