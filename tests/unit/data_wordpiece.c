// SPDX-License-Identifier: Apache-2.0
// WordPiece on a small vocabulary: cleaning, lower case, words, longest pieces, ranges, cased.
#include "tokenizers.h"

#define VOCABULARY                                                                                                     \
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\n##a\naffable\na\nb\nab\n##b\ncafe\nhello\n##s\n##sab\n!"   \
    "\n=\n@\n"                                                                                                         \
    "\u4e2d\n\u6587\n\u1112\u1161\u11ab\ni\n##\u03c3\n\u03c3\nA\nCaf\u00e9\n##\u0301\n["

static struct tokenizer *wordpiece(const char *config) {
    struct tokenizer *tokenizer;
    struct test_file files[] = {{"vocab.txt", VOCABULARY}, {"tokenizer_config.json", config}, {NULL, NULL}};
    assert_ok(test_open(&tokenizer, files));
    return tokenizer;
}

static void pieces_test(void **state) {
    (void)state;
    struct tokenizer *tokenizer = wordpiece("{}");
    assert_true(tokenizer_info(tokenizer).lower_case);
    assert_tokens(tokenizer, "unaffable", "[CLS] un[0,2) ##aff[2,5) ##able[5,9) [SEP]");
    assert_tokens(tokenizer, "abab hellos", "[CLS] ab[0,2) ##a[2,3) ##b[3,4) hello[5,10) ##s[10,11) [SEP]");
    // Greedy: ##sab leaves "le", which is no piece, though hello ##s ##able would cover it.
    assert_tokens(tokenizer, "hellosable", "[CLS] [UNK][0,10) [SEP]");
    assert_tokens(tokenizer, "unaffablex a", "[CLS] [UNK][0,10) a[11,12) [SEP]");
    assert_tokens(tokenizer, "", "[CLS] [SEP]");
    assert_tokens(tokenizer, "a!!b", "[CLS] a[0,1) ![1,2) ![2,3) b[3,4) [SEP]");
    assert_tokens(tokenizer, "##s", "[CLS] [UNK][0,1) [UNK][1,2) [UNK][2,3) [SEP]");
    tokenizer_close(tokenizer);
}

static void clean_test(void **state) {
    (void)state;
    struct tokenizer *tokenizer = wordpiece("{}");
    // Controls and formats vanish without cutting words; tab, newline and Unicode blanks cut.
    assert_tokens(tokenizer,
                  "a\x0b\x0c\xc2\x85\u200d\ufeff\u00ad\ufffd\ue000"
                  "b",
                  "[CLS] ab[0,20) [SEP]");
    assert_tokens(tokenizer,
                  "a\tb\nb\rb\u00a0a\u2028"
                  "b",
                  "[CLS] a[0,1) b[2,3) b[4,5) b[6,7) a[9,10) b[13,14) [SEP]");
    // What was removed at a word's end is not in its range, inside it is.
    assert_tokens(tokenizer,
                  "\x01"
                  "a\u200b",
                  "[CLS] a[1,2) [SEP]");
    assert_tokens(tokenizer, "CAFE\u0301 caf\u00c9", "[CLS] cafe[0,4) cafe[7,12) [SEP]");
    // An unassigned code point stays.
    assert_tokens(tokenizer,
                  "a\u0378"
                  "b",
                  "[CLS] [UNK][0,4) [SEP]");
    tokenizer_close(tokenizer);
}

static void letters_test(void **state) {
    (void)state;
    struct tokenizer *tokenizer = wordpiece("{}");
    assert_tokens(tokenizer,
                  "a\u4e2d\u6587"
                  "b",
                  "[CLS] a[0,1) \u4e2d[1,4) \u6587[4,7) b[7,8) [SEP]");
    assert_tokens(tokenizer, "\ud55c", "[CLS] \u1112\u1161\u11ab[0,3) [SEP]");
    assert_tokens(tokenizer, "\u0130", "[CLS] i[0,2) [SEP]");                          // I with dot, no dot left behind
    assert_tokens(tokenizer, "\u03a3\u03a3", "[CLS] \u03c3[0,2) ##\u03c3[2,4) [SEP]"); // no final sigma
    assert_tokens(tokenizer, "a\u2260b", "[CLS] a[0,1) =[1,4) b[4,5) [SEP]"); // becomes "=", which is punctuation
    tokenizer_close(tokenizer);
}

// A control character inside a word is removed, but sends it the long way: the same tokens as by the ASCII way.
static void ways_test(void **state) {
    (void)state;
    static const char letters[] = "abAB!@=hellosuncafe#1 ";
    uint64_t seed = 1;
    for (int cased = 0; cased < 2; cased++) {
        struct tokenizer *tokenizer = wordpiece(cased ? "{\"do_lower_case\": false}" : "{}");
        struct encoding ascii = {0}, whole = {0};
        const struct tokenizer_options options = {.special = TOKENIZER_LITERAL};
        for (int i = 0; i < 2000; i++) {
            char text[64], mixed[128];
            size_t n = 1 + (seed >> 40) % 40, m = 0;
            for (size_t j = 0; j < n; j++) {
                seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
                text[j] = mixed[m++] = letters[(seed >> 33) % (sizeof letters - 1)];
                mixed[m++] = '\x01';
            }
            assert_ok(tokenizer_encode(tokenizer, &ascii, text, n, NULL, 0, &options));
            assert_ok(tokenizer_encode(tokenizer, &whole, mixed, m, NULL, 0, &options));
            assert_int_equal(ascii.n, whole.n);
            for (uint32_t t = 0; t < ascii.n; t++) {
                assert_int_equal(ascii.ids[t], whole.ids[t]);
                assert_int_equal(ascii.begin[t], whole.begin[t] / 2);
                assert_int_equal(ascii.end[t], (whole.end[t] + 1) / 2);
            }
        }
        encoding_release(&ascii);
        encoding_release(&whole);
        tokenizer_close(tokenizer);
    }
}

// 100 code points are a word, 101 are [UNK]; counted after cleaning.
static void length_test(void **state) {
    (void)state;
    struct tokenizer *tokenizer = wordpiece("{}");
    char text[128];
    memset(text, 'a', sizeof text);
    text[100] = 0;
    assert_non_null(strstr(test_encode(tokenizer, text, NULL, TOKENIZER_LITERAL, 0), "##a[99,100) [SEP]"));
    text[100] = 'a';
    text[101] = 0;
    assert_tokens(tokenizer, text, "[CLS] [UNK][0,101) [SEP]");
    text[50] = 1; // removed
    assert_non_null(strstr(test_encode(tokenizer, text, NULL, TOKENIZER_LITERAL, 0), "##a[100,101) [SEP]"));
    tokenizer_close(tokenizer);
}

static void cased_test(void **state) {
    (void)state;
    struct tokenizer *tokenizer = wordpiece("{\"do_lower_case\": false, \"strip_accents\": null}");
    assert_false(tokenizer_info(tokenizer).lower_case);
    assert_tokens(tokenizer, "A a Caf\u00e9", "[CLS] A[0,1) a[2,3) Caf\u00e9[4,9) [SEP]");
    assert_tokens(tokenizer, "a\u0301", "[CLS] a[0,1) ##\u0301[1,3) [SEP]"); // marks stay, controls go
    assert_tokens(tokenizer, "a\u200d\u0301", "[CLS] a[0,1) ##\u0301[4,6) [SEP]");
    assert_tokens(tokenizer, "a\u2260b", "[CLS] [UNK][0,5) [SEP]"); // not punctuation as it stands
    assert_tokens(tokenizer, "a\u4e2d", "[CLS] a[0,1) \u4e2d[1,4) [SEP]");
    tokenizer_close(tokenizer);
}

static void cjk_test(void **state) {
    (void)state;
    struct tokenizer *tokenizer = wordpiece("{\"tokenize_chinese_chars\": false}");
    assert_tokens(tokenizer, "a\u4e2d", "[CLS] [UNK][0,4) [SEP]");
    assert_tokens(tokenizer, "\u4e2d", "[CLS] \u4e2d[0,3) [SEP]");
    tokenizer_close(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_test), cmocka_unit_test(clean_test),  cmocka_unit_test(letters_test),
        cmocka_unit_test(ways_test),   cmocka_unit_test(length_test), cmocka_unit_test(cased_test),
        cmocka_unit_test(cjk_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
