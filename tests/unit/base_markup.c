// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "base/markup.h"

#include <jansson.h>
#include <math.h>

static void test_strings(void **state) {
    (void)state;
    static const char string[] = "a\"b\\c\n\x01\x7f\xc2\x85\xe2\x80\xa8|\xc3\xa9\xf0\x9f\x98\x82";
    struct text text = {0};
    json_string_add(&text, string);
    assert_string_equal(text_string(&text),
                        "\"a\\\"b\\\\c\\u000a\\u0001\\u007f\\u0085\\u2028|\xc3\xa9\xf0\x9f\x98\x82\"");
    json_t *read = json_loadb(text.at, text.size, JSON_DECODE_ANY, NULL);
    assert_string_equal(json_string_value(read), string);
    json_decref(read);
    text_clear(&text);
    json_string_bytes(&text, "x\xff\0y", 4);
    assert_string_equal(text_string(&text), "\"x\xef\xbf\xbd\\u0000y\"");
    text_release(&text);
}

static void test_numbers(void **state) {
    (void)state;
    struct text text = {0};
    json_number_add(&text, 1.0 / 3);
    text_puts(&text, " ");
    json_number_add(&text, -INFINITY);
    text_puts(&text, " ");
    json_number_add(&text, (double)NAN);
    assert_string_equal(text_string(&text), "0.333333333 null null");
    text_release(&text);
}

static void test_cells(void **state) {
    (void)state;
    struct text text = {0};
    markdown_cell_add(&text, "a|b *c* [d] `e` <f> \\ g\nh\ti_j");
    assert_string_equal(text_string(&text), "a\\|b \\*c\\* \\[d\\] \\`e\\` \\<f\\> \\\\ g h i_j");
    text_release(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_strings), cmocka_unit_test(test_numbers),
                                       cmocka_unit_test(test_cells)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
