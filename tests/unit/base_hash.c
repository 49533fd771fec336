// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "base/file.h"
#include "base/hash.h"

// The empty input's XXH3 values are those of xxHash's own test vectors; SHA-256's are from FIPS 180-4's examples.
static void test_xxh3(void **state) {
    (void)state;
    assert_int_equal(hash64("", 0), UINT64_C(0x2d06800538d394c2));
    assert_int_not_equal(hash64("a", 1), hash64("b", 1));
    struct hash_stream *stream;
    char hex[33];
    assert_ok(hash_begin(&stream));
    hash_end(stream, hex);
    assert_string_equal(hex, "99aa06d3014798d86001c324468d497f");
}

static void key_of(char hex[33], const char *a, const char *b, bool strings) {
    struct hash_stream *stream;
    assert_ok(hash_begin(&stream));
    if (strings) {
        hash_add_string(stream, a);
        hash_add_string(stream, b);
    } else {
        hash_add(stream, a, strlen(a));
        hash_add(stream, b, strlen(b));
    }
    hash_end(stream, hex);
}

static void test_stream(void **state) {
    (void)state;
    char one[33], two[33];
    key_of(one, "abc", "def", false);
    key_of(two, "abcd", "ef", false);
    assert_string_equal(one, two); // bytes run on
    key_of(one, "abc", "def", true);
    key_of(two, "abcd", "ef", true);
    assert_string_not_equal(one, two); // strings don't
    key_of(two, "abc", "def", true);
    assert_string_equal(one, two);
    assert_int_equal(strlen(one), 32);
    assert_int_equal(strspn(one, "0123456789abcdef"), 32);
}

static void test_sha256(void **state) {
    (void)state;
    char *folder = support_folder();
    char *path = path_join(folder, "file");
    char hex[65];
    assert_ok(file_replace(path, "abc", 3));
    assert_ok(hash_sha256_file(hex, path));
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_ok(file_replace(path, "", 0));
    assert_ok(hash_sha256_file(hex, path));
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    char *million = malloc(3000000); // more than one buffer
    memset(million, 'a', 3000000);
    assert_ok(file_replace(path, million, 1000000));
    assert_ok(hash_sha256_file(hex, path));
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    char longer[65];
    assert_ok(file_replace(path, million, 3000000));
    assert_ok(hash_sha256_file(longer, path));
    assert_string_not_equal(hex, longer);
    free(million);
    assert_ok(file_remove(path));
    assert_status(hash_sha256_file(hex, path), STATUS_DATA);
    assert_status(hash_sha256_file(hex, folder), STATUS_DATA); // a folder
    assert_ok(file_remove(folder));
    free(path);
    free(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_xxh3),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_sha256),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
