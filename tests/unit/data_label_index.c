// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "data/label_index.h"

static int32_t find(const struct label_index *index, const char *value) {
    return label_index_find(index, value, strlen(value));
}

static void open_names(struct label_index *index, const char *const *names) {
    assert_ok(label_index_open(index, NULL));
    for (; *names; names++)
        assert_ok(label_index_add(index, *names, strlen(*names)));
}

static void test_names_and_ids(void **state) {
    (void)state;
    struct label_index index;
    open_names(&index, (const char *const[]){"anger", "joy", "sad ness", NULL});
    assert_int_equal(find(&index, "joy"), 1);
    assert_int_equal(find(&index, "sad ness"), 2);
    assert_int_equal(find(&index, "0"), 0);
    assert_int_equal(find(&index, "2"), 2);
    const char *bad[] = {"", "3", "Joy", "joy ", "jo", "joyx", "-1", "01", "+1", "1.0", " 1", "4294967297"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(find(&index, bad[i]), -1);
    assert_int_equal(label_index_find(&index, "joy\0", 4), -1);
    assert_int_equal(label_index_find(&index, "joyx", 3), 1); // a size, not a NUL
    label_index_close(&index);
}

// Where a name is a number ids could mean either: only names count.
static void test_numbers(void **state) {
    (void)state;
    struct label_index index;
    open_names(&index, (const char *const[]){"1", "2", "many", NULL});
    assert_int_equal(find(&index, "1"), 0);
    assert_int_equal(find(&index, "2"), 1);
    assert_int_equal(find(&index, "0"), -1);
    label_index_close(&index);
}

static void sorted(const char *const *names, const char *const *wanted) {
    struct label_index index;
    struct labels labels;
    open_names(&index, names);
    label_index_sorted(&index, &labels);
    label_index_close(&index);
    for (uint32_t i = 0; i < labels.n; i++)
        assert_string_equal(labels.names[i], wanted[i]);
    assert_null(wanted[labels.n]);
    labels_release(&labels);
}

static void test_sorted(void **state) {
    (void)state;
    sorted((const char *const[]){"b", "a", "B", "b", "\xc3\xa9", NULL},
           (const char *const[]){"B", "a", "b", "\xc3\xa9", NULL});
    sorted((const char *const[]){"10", "9", "0", "-2", "-10", NULL},
           (const char *const[]){"-10", "-2", "0", "9", "10", NULL});
    sorted((const char *const[]){"10", "9", "1.5", NULL}, (const char *const[]){"1.5", "10", "9", NULL});
    sorted((const char *const[]){"10", "9", "-0", NULL}, (const char *const[]){"-0", "10", "9", NULL});
    sorted((const char *const[]){"10", "09", NULL}, (const char *const[]){"09", "10", NULL});
    sorted((const char *const[]){NULL}, (const char *const[]){NULL});
}

static void test_many(void **state) {
    (void)state;
    struct label_index index;
    char name[LABELS_NAME_MAX + 2];
    assert_ok(label_index_open(&index, NULL));
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < LABELS_MAX; i++) {
            snprintf(name, sizeof name, "name%d", i);
            assert_ok(label_index_add(&index, name, strlen(name)));
        }
    assert_int_equal(index.labels.n, LABELS_MAX);
    assert_int_equal(find(&index, "name777"), 777);
    assert_status(label_index_add(&index, "one more", 8), STATUS_DATA);
    assert_non_null(strstr(status_message(), "more than 1000"));
    memset(name, 'x', sizeof name);
    assert_status(label_index_add(&index, name, LABELS_NAME_MAX + 1), STATUS_DATA);
    assert_status(label_index_add(&index, "a\0b", 3), STATUS_DATA);
    assert_status(label_index_add(&index, "", 0), STATUS_DATA);
    label_index_close(&index);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names_and_ids), cmocka_unit_test(test_numbers),
                                       cmocka_unit_test(test_sorted), cmocka_unit_test(test_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
