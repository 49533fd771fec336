// SPDX-License-Identifier: Apache-2.0
// Byte-level BPE on small vocabularies: where words end, the order of merges, ranges, prefix spaces, long words.
#include "tokenizers.h"

#include "data/vocabulary.h"

static const char *const none[] = {NULL};

// "word|word|word" of a text.
static const char *words(const char *text) {
    static char out[4096];
    size_t at = 0;
    const char *end = text + strlen(text);
    while (text < end) {
        const char *next = bpe_word_end(text, end);
        at += (size_t)snprintf(out + at, sizeof out - at, "%s%.*s", at ? "|" : "", (int)(next - text), text);
        text = next;
    }
    return out;
}

static void words_test(void **state) {
    (void)state;
    assert_string_equal(words("Hello world"), "Hello| world");
    assert_string_equal(words("a  b"), "a| | b");
    assert_string_equal(words("a   "), "a|   ");
    assert_string_equal(words(" "), " ");
    assert_string_equal(words("a \n b"), "a| \n| b");
    assert_string_equal(words("a\n\nb"), "a|\n|\n|b");
    assert_string_equal(words("a\nb"), "a|\n|b");
    assert_string_equal(words("a1b!? c"), "a|1|b|!?| c");
    assert_string_equal(words("12 345"), "12| 345");
    // Contractions: lower case, ASCII, whatever follows; not behind a space, nor inside a run of signs.
    assert_string_equal(words("it's I'll we're I've I'm he'd can't"),
                        "it|'s| I|'ll| we|'re| I|'ve| I|'m| he|'d| can|'t");
    assert_string_equal(words("'sup"), "'s|up");
    assert_string_equal(words("IT'S"), "IT|'|S");
    assert_string_equal(words("a 's"), "a| '|s");
    assert_string_equal(words("!'s"), "!'|s");
    assert_string_equal(words("'"), "'");
    assert_string_equal(words("'r"), "'|r");
    assert_string_equal(words("it\u2019s"), "it|\u2019|s");
    // White space is Unicode's: U+0085, U+00A0, U+2028 in, U+200B, U+FEFF, U+180E, U+001C out. Only U+0020 joins a
    // word.
    assert_string_equal(words("a\u00a0b"), "a|\u00a0|b");
    assert_string_equal(words("a\xc2\x85\u2028b"), "a|\xc2\x85|\u2028|b");
    assert_string_equal(words("a\u200b\ufeff\u180e\x1c"
                              "b"),
                        "a|\u200b\ufeff\u180e\x1c|b");
    // Letters with marks: a mark is neither letter nor number.
    assert_string_equal(words("cafe\u0301s"), "cafe|\u0301|s");
    assert_string_equal(words("\u0661\u0662\u00bd"), "\u0661\u0662\u00bd");
}

static void bytes_test(void **state) {
    (void)state;
    struct tokenizer *tokenizer;
    assert_ok(tokenizer_open_bytes(&tokenizer));
    struct tokenizer_info info = tokenizer_info(tokenizer);
    assert_int_equal(info.vocab_size, 261);
    assert_true(info.bos == 0 && info.pad == 1 && info.eos == 2 && info.unk == 3 && info.mask == 260);
    assert_tokens(tokenizer, "a b", "<s> a[0,1) \u0120[2,2) b[2,3) </s>");
    assert_tokens(tokenizer, "", "<s> </s>");
    // A part of a character has the whole character's range.
    assert_tokens(tokenizer, "\u00e9x", "<s> \u00c3[0,2) \u00a9[0,2) x[2,3) </s>");
    // All 256 bytes have a token of their own: those that UTF-8 can hold, one by one.
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[4];
        unsigned size = bpe_alphabet(byte, text);
        const char *token = tokenizer_token(tokenizer, (int32_t)(4 + byte));
        assert_true(strlen(token) == size && !memcmp(token, text, size));
    }
    assert_null(tokenizer_token(tokenizer, 261));
    assert_null(tokenizer_token(tokenizer, -1));
    tokenizer_close(tokenizer);
}

static void order_test(void **state) {
    (void)state;
    // Lowest rank first: "b c" before "a b", so abc is a + bc; then the leftmost of equals: aaa is aa + a.
    struct tokenizer *tokenizer = test_bpe((const char *const[]){"b c", "a b", "a a", "aa aa", NULL});
    assert_tokens(tokenizer, "abc", "<s> a[0,1) bc[1,3) </s>");
    assert_tokens(tokenizer, "ab", "<s> ab[0,2) </s>");
    assert_tokens(tokenizer, "aaa", "<s> aa[0,2) a[2,3) </s>");
    assert_tokens(tokenizer, "aaaaa", "<s> aaaa[0,4) a[4,5) </s>");
    assert_tokens(tokenizer, "aaaaaa", "<s> aaaa[0,4) aa[4,6) </s>");
    // No merge crosses two words, and the same word again (from the cache) has its own ranges.
    assert_tokens(tokenizer, "b1c abc abc",
                  "<s> b[0,1) 1[1,2) c[2,3) \u0120[4,4) a[4,5) bc[5,7) \u0120[8,8) a[8,9) bc[9,11) </s>");
    tokenizer_close(tokenizer);
}

static void trim_test(void **state) {
    (void)state;
    struct tokenizer *tokenizer = test_bpe((const char *const[]){"\u0120 a", "\u0120 \u0120", "\u010a \u0120", NULL});
    assert_tokens(tokenizer, "x a", "<s> x[0,1) \u0120a[2,3) </s>");
    assert_tokens(tokenizer, "x   a", "<s> x[0,1) \u0120\u0120[3,3) \u0120a[4,5) </s>");
    assert_tokens(tokenizer, "x\n ", "<s> x[0,1) \u010a\u0120[1,2) </s>");
    tokenizer_close(tokenizer);
}

// Ranges as the library has them: the space that add_prefix_space stands for is not cut off, whoever wrote it.
static void prefix_test(void **state) {
    (void)state;
    struct tokenizer *tokenizer = test_bpe((const char *const[]){"\u0120 a", "\u0120 \u0120", NULL});
    assert_false(tokenizer_info(tokenizer).add_prefix_space);
    tokenizer_set_prefix_space(tokenizer, true);
    assert_true(tokenizer_info(tokenizer).add_prefix_space);
    assert_tokens(tokenizer, "a a", "<s> \u0120a[0,1) \u0120a[2,3) </s>");
    assert_tokens(tokenizer, " a", "<s> \u0120a[0,2) </s>");
    assert_tokens(tokenizer, "", "<s> </s>");
    assert_tokens(tokenizer, "\n", "<s> \u0120[0,0) \u010a[0,1) </s>");
    assert_tokens(tokenizer, "a<mask>a", "<s> \u0120a[0,1) <mask>[1,7) \u0120a[7,8) </s>");
    tokenizer_close(tokenizer);
}

// A word that was met without the rule of the first space must not keep its range where the rule holds.
static void prefix_warm_test(void **state) {
    (void)state;
    struct tokenizer *tokenizer = test_bpe((const char *const[]){"\u0120 a", NULL});
    struct encoding got = {0};
    const struct tokenizer_options options = {.special = TOKENIZER_LITERAL};
    for (int i = 0; i < 4; i++) {
        tokenizer_set_prefix_space(tokenizer, i % 2);
        assert_ok(tokenizer_encode(tokenizer, &got, " a a", 4, NULL, 0, &options));
        assert_int_equal(got.n, 4);
        assert_int_equal(got.begin[1], i % 2 ? 0 : 1);
        assert_int_equal(got.begin[2], 3);
    }
    encoding_release(&got);
    tokenizer_close(tokenizer);
}

// The rule itself, in the simplest way: the lowest rank anywhere, leftmost, until there is none.
static void merges_plain(const struct tokenizer *tokenizer, const char *const *merges, int32_t *ids, uint32_t *n) {
    for (;;) {
        size_t best = SIZE_MAX;
        uint32_t at = 0;
        for (uint32_t i = 0; i + 1 < *n; i++) {
            char pair[600];
            snprintf(pair, sizeof pair, "%s %s", tokenizer_token(tokenizer, ids[i]),
                     tokenizer_token(tokenizer, ids[i + 1]));
            for (size_t rank = 0; merges[rank] && rank < best; rank++)
                if (!strcmp(merges[rank], pair)) {
                    best = rank;
                    at = i;
                }
        }
        if (best == SIZE_MAX)
            return;
        char whole[600];
        snprintf(whole, sizeof whole, "%s%s", tokenizer_token(tokenizer, ids[at]),
                 tokenizer_token(tokenizer, ids[at + 1]));
        for (int32_t id = 0;; id++)
            if (tokenizer_token(tokenizer, id) && !strcmp(tokenizer_token(tokenizer, id), whole)) {
                ids[at] = id;
                break;
            }
        --*n;
        memmove(ids + at + 1, ids + at + 2, (*n - at - 1) * sizeof *ids);
    }
}

// Words of 1 to 300 letters: by scanning up to 64 bytes, by heap above.
static void long_test(void **state) {
    (void)state;
    static const char *const merges[] = {"b a", "a a",       "a b",   "aa aa", "ba ab",
                                         "b b", "aaaa aaaa", "ab ab", "bb aa", NULL};
    struct tokenizer *tokenizer = test_bpe(merges);
    struct tokenizer_options options = {.special = TOKENIZER_LITERAL, .max_length = 0};
    struct encoding got = {0};
    uint32_t random = 12345;
    for (size_t size = 1; size <= 300; size += size < 80 ? 1 : 17) {
        char text[300];
        int32_t ids[300];
        uint32_t n = (uint32_t)size;
        for (size_t i = 0; i < size; i++) {
            random = random * 1664525u + 1013904223u;
            text[i] = random >> 30 ? 'a' : 'b';
            ids[i] = 4 + text[i];
        }
        merges_plain(tokenizer, merges, ids, &n);
        assert_ok(tokenizer_encode(tokenizer, &got, text, size, NULL, 0, &options));
        assert_int_equal(got.n, n + 2);
        assert_memory_equal(got.ids + 1, ids, n * sizeof *ids);
        assert_int_equal(got.end[n], size);
    }
    encoding_release(&got);
    tokenizer_close(tokenizer);
}

// A million letters in one word: the time must not grow with the square.
static void million_test(void **state) {
    (void)state;
    struct tokenizer *tokenizer = test_bpe((const char *const[]){"a a", "aa aa", "aaaa aaaa", NULL});
    struct tokenizer_options options = {.special = TOKENIZER_LITERAL, .max_length = 0};
    struct encoding got = {0};
    size_t size = 1000001;
    char *text = malloc(size);
    memset(text, 'a', size);
    assert_ok(tokenizer_encode(tokenizer, &got, text, size, NULL, 0, &options));
    assert_int_equal(got.n, 125000 + 1 + 2);
    free(text);
    encoding_release(&got);
    tokenizer_close(tokenizer);
}

// One encoding, two tokenizers in turn: the word cache must not mix them up.
static void cache_test(void **state) {
    (void)state;
    struct tokenizer *first = test_bpe((const char *const[]){"a b", NULL}), *second = test_bpe(none);
    struct tokenizer_options options = {.special = TOKENIZER_LITERAL, .max_length = 0};
    struct encoding got = {0};
    for (int i = 0; i < 3; i++) {
        assert_ok(tokenizer_encode(first, &got, "ab", 2, NULL, 0, &options));
        assert_int_equal(got.n, 3);
        assert_ok(tokenizer_encode(second, &got, "ab", 2, NULL, 0, &options));
        assert_int_equal(got.n, 4);
    }
    encoding_release(&got);
    tokenizer_close(first);
    tokenizer_close(second);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_test), cmocka_unit_test(bytes_test),   cmocka_unit_test(order_test),
        cmocka_unit_test(trim_test),  cmocka_unit_test(prefix_test),  cmocka_unit_test(prefix_warm_test),
        cmocka_unit_test(long_test),  cmocka_unit_test(million_test), cmocka_unit_test(cache_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
