// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "data/normalize.h"
#include "data/tokenizer.h"

static struct normalized normalized; // reused from text to text, as an encoding does

static void becomes(const char *text, const char *wanted) {
    assert_ok(normalize_tweet(&normalized, text, strlen(text)));
    assert_int_equal(normalized.size, strlen(wanted));
    assert_memory_equal(normalized.text, wanted, normalized.size);
}

// What the model cards' Python gives: " ".join("@user" if t.startswith("@") and len(t) > 1 else "http" if
// t.startswith("http") else t for t in text.split(" ")).
static void test_words(void **state) {
    (void)state;
    becomes("", "");
    becomes("plain words", "plain words");
    becomes("@bob hi", "@user hi");
    becomes("hi @bob", "hi @user");
    becomes("@", "@");
    becomes("@ @a @@", "@ @user @user");
    becomes("@user", "@user");
    becomes("@users", "@user");
    becomes("http", "http");
    becomes("https://t.co/x and http://y", "http and http");
    becomes("httpfoo HTTP://x xhttp://y", "http HTTP://x xhttp://y");
    becomes("a@b.c (@bob) \"@bob", "a@b.c (@bob) \"@bob");
    becomes("@bob!\n@eve http://x\thttp://y", "@user http"); // words stand between U+0020 alone
    becomes("a\n@eve", "a\n@eve");
    becomes("@bob\xc2\xa0 x", "@user x");
    becomes("  @a  http:  ", "  @user  http  ");
    becomes("\xef\xbc\xa0wide", "\xef\xbc\xa0wide"); // U+FF20
    becomes("@\xf0\x9f\x98\x80", "@user");
    becomes(" ", " ");
    assert_ok(normalize_tweet(&normalized, "@a\0b c", 6));
    assert_int_equal(normalized.size, 7);
    assert_memory_equal(normalized.text, "@user c", 7);
    normalized_release(&normalized);
}

static void test_unchanged_is_not_copied(void **state) {
    (void)state;
    const char *text = "nothing to @ do http @user";
    assert_ok(normalize_tweet(&normalized, text, strlen(text)));
    assert_ptr_equal(normalized.text, text);
    assert_int_equal(normalized.n, 0);
    normalized_release(&normalized);
}

static void range(uint32_t begin, uint32_t end, uint32_t wanted_begin, uint32_t wanted_end) {
    normalized_map(&normalized, &begin, &end, 1);
    assert_int_equal(begin, wanted_begin);
    assert_int_equal(end, wanted_end);
}

static void test_ranges(void **state) {
    (void)state;
    //                0123456789012345678901234567890
    const char *text = "ab @x cd https://t.co/1 @longer e";
    becomes(text, "ab @user cd http @user e");
    range(0, 2, 0, 2);
    range(3, 8, 3, 5);                                         // @user
    range(3, 4, 3, 5);                                         // @
    range(4, 8, 3, 5);                                         // user
    range(2, 8, 2, 5);                                         // with the blank before it
    range(9, 11, 6, 8);                                        // cd
    range(8, 11, 5, 8);                                        // blank and cd
    range(12, 16, 9, 23);                                      // http
    range(13, 14, 9, 23);                                      // a letter of it
    range(17, 22, 24, 31);                                     // @user
    range(23, 24, 32, 33);                                     // e
    range(8, 8, 5, 5);                                         // nothing, behind the word
    range(3, 3, 3, 3);                                         // nothing, before it
    uint32_t begin[] = {23, 3, 12, 0}, end[] = {24, 8, 16, 2}; // in any order
    normalized_map(&normalized, begin, end, 4);
    assert_int_equal(begin[1], 3);
    assert_int_equal(end[1], 5);
    assert_int_equal(begin[2], 9);
    assert_int_equal(end[3], 2);
    normalized_release(&normalized);
}

// Through the tokenizer: the ids of the normalised text, the offsets of the original one, of both texts of a pair.
static void test_encode(void **state) {
    (void)state;
    struct tokenizer *tokenizer;
    struct encoding plain = {0}, mapped = {0};
    struct tokenizer_options none = {.special = TOKENIZER_LITERAL};
    struct tokenizer_options tweet = {.special = TOKENIZER_LITERAL, .normalize = NORMALIZE_TWEET};
    const char *text = "so @somebody_long http://a.b/c ok", *pair = "x @y";
    const char *text_as = "so @user http ok", *pair_as = "x @user";
    assert_ok(tokenizer_open_bytes(&tokenizer));
    assert_ok(tokenizer_encode(tokenizer, &plain, text_as, strlen(text_as), pair_as, strlen(pair_as), &none));
    assert_ok(tokenizer_encode(tokenizer, &mapped, text, strlen(text), pair, strlen(pair), &tweet));
    assert_int_equal(mapped.n, plain.n);
    assert_memory_equal(mapped.ids, plain.ids, plain.n * sizeof *plain.ids);
    for (uint32_t i = 0; i < plain.n; i++) {
        if (plain.sequence[i] < 0)
            continue;
        bool first = plain.sequence[i] == 0;
        uint32_t end = plain.end[i], size = (uint32_t)strlen(first ? text : pair);
        assert_true(mapped.begin[i] <= mapped.end[i] && mapped.end[i] <= size);
        if (first && end <= 2)
            assert_int_equal(mapped.end[i], end);
        if (first && plain.begin[i] >= 3 && end > 3 && end <= 8) { // @user
            assert_int_equal(mapped.begin[i], 3);
            assert_int_equal(mapped.end[i], 17);
        }
        if (first && plain.begin[i] >= 14) // ok
            assert_int_equal(mapped.end[i], end + size - strlen(text_as));
        if (!first && plain.begin[i] >= 2 && end > 2) {
            assert_int_equal(mapped.begin[i], 2);
            assert_int_equal(mapped.end[i], 4);
        }
    }
    assert_ok(tokenizer_encode(tokenizer, &mapped, text, strlen(text), pair, strlen(pair), &none));
    assert_int_not_equal(mapped.n, plain.n);
    encoding_release(&plain);
    encoding_release(&mapped);
    tokenizer_close(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_words), cmocka_unit_test(test_unchanged_is_not_copied),
                                       cmocka_unit_test(test_ranges), cmocka_unit_test(test_encode)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
