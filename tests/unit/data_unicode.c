// SPDX-License-Identifier: Apache-2.0
// The committed tables say of every code point what the golden files say.
#include "support.h"

#include "data/unicode.h"

#include <jansson.h>

#define CODES 0x110000u

static unsigned char wanted[CODES];

static void range_mark(json_t *root, const char *key, unsigned flag) {
    json_t *ranges = json_object_get(root, key), *range;
    size_t i;
    assert_true(json_array_size(ranges) > 0);
    json_array_foreach(ranges, i, range) {
        json_int_t first = json_integer_value(json_array_get(range, 0)),
                   last = json_integer_value(json_array_get(range, 1));
        for (json_int_t code = first; code <= last; code++)
            wanted[code] |= flag;
    }
}

static void flags_check(unsigned mask) {
    for (uint32_t code = 0; code < CODES; code++) {
        unsigned got = unicode_flags(code) & (mask | UNICODE_MARK);
        if (mask & UNICODE_CONTROL && got & UNICODE_MARK)
            got |= UNICODE_CONTROL; // the golden files say "removed" of both
        got &= mask;
        if (got != wanted[code])
            fail_msg("U+%04X: flags 0x%x, wanted 0x%x", code, got, wanted[code]);
    }
}

static json_t *golden_open(const char *name) {
    const char *path = support_path("FINETUNED_GOLDEN", name);
    SUPPORT_NEED(path, name);
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    assert_non_null(root);
    memset(wanted, 0, sizeof wanted);
    return root;
}

static void byte_level_test(void **state) {
    (void)state;
    json_t *root = golden_open("unicode_roberta.json");
    range_mark(root, "letter", UNICODE_LETTER);
    range_mark(root, "number", UNICODE_NUMBER);
    range_mark(root, "space", UNICODE_SPACE);
    flags_check(UNICODE_LETTER | UNICODE_NUMBER | UNICODE_SPACE);
    json_decref(root);
}

static void bert_flags_test(void **state) {
    (void)state;
    json_t *root = golden_open("unicode_bert.json");
    range_mark(root, "removed", UNICODE_CONTROL);
    range_mark(root, "space", UNICODE_BLANK);
    range_mark(root, "cjk", UNICODE_CJK);
    range_mark(root, "punct", UNICODE_PUNCTUATION);
    flags_check(UNICODE_CONTROL | UNICODE_BLANK | UNICODE_CJK | UNICODE_PUNCTUATION);
    json_decref(root);
}

static void bert_map_test(void **state) {
    (void)state;
    json_t *root = golden_open("unicode_bert.json"), *map = json_object_get(root, "map"), *entry;
    size_t i;
    json_array_foreach(map, i, entry) {
        uint32_t code = (uint32_t)json_integer_value(json_array_get(entry, 0)), out[3];
        json_t *result = json_array_get(entry, 1);
        wanted[code] = 1;
        unsigned n = unicode_lower(code, out);
        assert_int_equal(n, json_array_size(result));
        for (unsigned k = 0; k < n; k++)
            assert_int_equal(out[k], json_integer_value(json_array_get(result, k)));
    }
    for (uint32_t code = 0; code < CODES; code++) {
        uint32_t out[3];
        if (!wanted[code] && (code < 0xac00 || code > 0xd7a3))
            assert_true(unicode_lower(code, out) == 1 && out[0] == code);
    }
    json_decref(root);
}

// Cased BERT keeps marks and removes controls: the golden files don't tell them apart, so a few by hand.
static void marks_test(void **state) {
    (void)state;
    const uint32_t marks[] = {0x300, 0x301, 0x5b0, 0x94d, 0x1734, 0x20d0, 0xfe0f, 0xe0100};
    const uint32_t controls[] = {0,      1,      8,      0xb,    0x7f,   0x85,    0xad,
                                 0x200b, 0x200d, 0xfeff, 0xe000, 0xfffd, 0xe0001, 0x10fffd};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        assert_int_equal(unicode_flags(marks[i]) & (UNICODE_MARK | UNICODE_CONTROL), UNICODE_MARK);
    for (size_t i = 0; i < sizeof controls / sizeof *controls; i++)
        assert_int_equal(unicode_flags(controls[i]) & (UNICODE_MARK | UNICODE_CONTROL), UNICODE_CONTROL);
}

static void hangul_test(void **state) {
    (void)state;
    uint32_t out[3];
    assert_int_equal(unicode_lower(0xac00, out), 2);
    assert_true(out[0] == 0x1100 && out[1] == 0x1161);
    assert_int_equal(unicode_lower(0xd55c, out), 3); // 한
    assert_true(out[0] == 0x1112 && out[1] == 0x1161 && out[2] == 0x11ab);
    assert_int_equal(unicode_lower(0xd7a3, out), 3);
    assert_true(out[0] == 0x1112 && out[1] == 0x1175 && out[2] == 0x11c2);
}

static void ascii_test(void **state) {
    (void)state;
    for (uint32_t code = 0; code < 0x80; code++)
        assert_int_equal(unicode_ascii_flags((char)code), unicode_flags(code));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_level_test), cmocka_unit_test(bert_flags_test), cmocka_unit_test(bert_map_test),
        cmocka_unit_test(marks_test),      cmocka_unit_test(hangul_test),     cmocka_unit_test(ascii_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
