// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "base/file.h"
#include "data/labels.h"

static enum status parse(struct labels *out, const char *text) {
    return labels_parse(out, "mapping.txt", text, strlen(text));
}

static void refused(const char *text, const char *says) {
    struct labels labels;
    assert_status(parse(&labels, text), STATUS_DATA);
    assert_int_equal(labels.n, 0);
    assert_null(labels.names);
    if (!strstr(status_message(), says))
        fail_msg("the message \"%s\" lacks \"%s\"", status_message(), says);
}

static void test_good(void **state) {
    (void)state;
    const char *texts[] = {
        "0\tanger\n1\tjoy\n2\tsad ness ",                // no last newline, blanks belong to the name
        "2\tsad ness \n0\tanger\n1\tjoy\n",              // any order
        "0\tanger\t_x_\n1\tjoy\t\n2\tsad ness \ta\tb\n", // more columns
        "0\tanger\n1\tjoy\n2\tsad ness \n\n\n",          // blank lines behind
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct labels labels;
        assert_ok(parse(&labels, texts[i]));
        assert_int_equal(labels.n, 3);
        assert_string_equal(labels.names[0], "anger");
        assert_string_equal(labels.names[1], "joy");
        assert_string_equal(labels.names[2], "sad ness ");
        assert_int_equal(labels_find(&labels, "joy"), 1);
        assert_int_equal(labels_find(&labels, "Joy"), -1);
        labels_release(&labels);
    }
}

static void test_refused(void **state) {
    (void)state;
    refused("", "0 labels");
    refused("\n", "mapping.txt:1:");
    refused("0 anger\n", "\"0 anger\"");
    refused("0\tanger\n\n1\tjoy\n", "mapping.txt:2:");
    refused("0\t\n", "empty");
    refused("0\t\tx\n", "empty");
    refused("0\ta\n0\tb\n", "id 0 occurs twice");
    refused("0\ta\n1\ta\n", "the name \"a\" occurs twice");
    refused("0\ta\n2\tb\n", "\"2\"");
    refused("-1\ta\n", "\"-1\"");
    refused("00\ta\n", "\"00\"");
    refused("+0\ta\n", "\"+0\"");
    refused(" 0\ta\n", "\" 0\"");
    refused("\ta\n", "\"\"");
    refused("99999999999999999999\ta\n", "99999999999999999999");
    refused("4294967296\ta\n", "4294967296");
    refused("0\ta\r\n1\tb\r\n", "CRLF");
    refused("0\ta\xff\n", "0xff");
    struct labels labels;
    assert_status(labels_parse(&labels, "m", "0\ta\0b", 5), STATUS_DATA);
}

static void test_add(void **state) {
    (void)state;
    struct labels labels, other = {0};
    assert_ok(parse(&labels, "0\ta\n1\tb\n2\tc\n"));
    char name[16];
    for (int i = 0; i < LABELS_MAX - 3; i++) {
        snprintf(name, sizeof name, "l%d", i);
        assert_ok(labels_add(&labels, name));
    }
    assert_int_equal(labels.n, LABELS_MAX);
    assert_int_equal(labels_find(&labels, "l9"), 12);
    assert_status(labels_add(&labels, "b"), STATUS_DATA);
    assert_false(labels_equal(&labels, &other));
    assert_true(labels_equal(&labels, &labels));
    labels_release(&labels);
    assert_int_equal(labels.n, 0);
}

static void test_file(void **state) {
    (void)state;
    char *folder = support_folder(), *path = path_join(folder, "mapping.txt");
    struct labels labels;
    assert_status(labels_read(&labels, path), STATUS_DATA);
    assert_non_null(strstr(status_message(), path));
    assert_ok(file_replace(path, "0\t\xe2\x9d\xa4\t_red_heart_", 17));
    assert_ok(labels_read(&labels, path));
    assert_string_equal(labels.names[0], "\xe2\x9d\xa4");
    labels_release(&labels);
    assert_ok(file_remove(folder));
    free(path);
    free(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_good), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_add), cmocka_unit_test(test_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
