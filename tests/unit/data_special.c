// SPDX-License-Identifier: Apache-2.0
// Added tokens in a text: literal and parsed, white space taken in, longest match, passes.
#include "tokenizers.h"

static const char *parsed(const struct tokenizer *tokenizer, const char *text) {
    return test_encode(tokenizer, text, NULL, TOKENIZER_PARSE, 0);
}

static const char *literal(const struct tokenizer *tokenizer, const char *text) {
    return test_encode(tokenizer, text, NULL, TOKENIZER_LITERAL, 0);
}

static void mask_test(void **state) {
    (void)state;
    struct tokenizer *tokenizer;
    assert_ok(tokenizer_open_bytes(&tokenizer));
    // <mask> takes in all white space to its left, Unicode's too; its range doesn't. Others take none.
    assert_string_equal(parsed(tokenizer, "a<mask>b"), "<s> a[0,1) <mask>[1,7) b[7,8) </s>");
    assert_string_equal(parsed(tokenizer, "a \n\t\u2028<mask>"), "<s> a[0,1) <mask>[7,13) </s>");
    assert_string_equal(parsed(tokenizer, "<mask> <mask>"), "<s> <mask>[0,6) <mask>[7,13) </s>");
    assert_string_equal(parsed(tokenizer, "a </s>"), "<s> a[0,1) \u0120[2,2) </s>[2,6) </s>");
    assert_string_equal(parsed(tokenizer, "<MASK>x"), literal(tokenizer, "<MASK>x"));
    assert_string_equal(parsed(tokenizer, "<s><s"), "<s> <s>[0,3) <[3,4) s[4,5) </s>");
    assert_string_equal(literal(tokenizer, "<s>"), "<s> <[0,1) s[1,2) >[2,3) </s>");
    tokenizer_close(tokenizer);
}

// RoBERTa's tokenizer.json with these added tokens more ("id" is filled in).
static struct tokenizer *with_added(const char *added) {
    static const char *const merges[] = {NULL};
    json_t *root = test_roberta_json(test_bpe_vocabulary(merges), json_array());
    json_t *list = test_json(added), *object;
    struct tokenizer *tokenizer;
    size_t i;
    json_array_foreach(list, i, object) {
        json_object_set_new(object, "id", json_integer(261 + (json_int_t)i));
        json_array_append(json_object_get(root, "added_tokens"), object);
    }
    json_decref(list);
    assert_ok(test_open_json(&tokenizer, root));
    return tokenizer;
}

static void added_test(void **state) {
    (void)state;
    struct tokenizer *tokenizer = with_added("[{\"content\": \"ab\"}, {\"content\": \"abc\", \"rstrip\": true},"
                                             " {\"content\": \"<x>\", \"special\": true}]");
    assert_int_equal(tokenizer_info(tokenizer).vocab_size, 264);
    // Leftmost, then longest; ordinary added tokens are found in literal text too, special ones are not.
    assert_string_equal(literal(tokenizer, "zabcd"), "<s> z[0,1) abc[1,4) d[4,5) </s>");
    assert_string_equal(literal(tokenizer, "abd"), "<s> ab[0,2) d[2,3) </s>");
    assert_string_equal(literal(tokenizer, "abc  ab"), "<s> abc[0,3) ab[5,7) </s>");
    assert_string_equal(literal(tokenizer, "<x>"), "<s> <[0,1) x[1,2) >[2,3) </s>");
    assert_string_equal(parsed(tokenizer, "<x>ab"), "<s> <x>[0,3) ab[3,5) </s>");
    tokenizer_close(tokenizer);
}

// What is not normalized goes first, even if it begins later.
static void passes_test(void **state) {
    (void)state;
    struct tokenizer *tokenizer = with_added("[{\"content\": \"ab\", \"normalized\": true}, {\"content\": \"bc\"}]");
    assert_string_equal(parsed(tokenizer, "abc"), "<s> a[0,1) bc[1,3) </s>");
    assert_string_equal(parsed(tokenizer, "abxbc"), "<s> ab[0,2) x[2,3) bc[3,5) </s>");
    tokenizer_close(tokenizer);
}

// An added token is no piece of other words.
static void outside_test(void **state) {
    (void)state;
    struct tokenizer *tokenizer;
    struct test_file files[] = {
        {"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n"},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"6\": {\"content\": \"Covid\", \"special\": false},"
                                  " \"7\": {\"content\": \"vid\", \"special\": true}}}"},
        {NULL, NULL},
    };
    assert_ok(test_open(&tokenizer, files));
    assert_string_equal(literal(tokenizer, "Covid covid vid"), "[CLS] Covid[0,5) [UNK][6,11) [UNK][12,15) [SEP]");
    assert_string_equal(parsed(tokenizer, "Covid covid"), "[CLS] Covid[0,5) [UNK][6,8) vid[8,11) [SEP]");
    assert_string_equal(tokenizer_token(tokenizer, 6), "Covid");
    tokenizer_close(tokenizer);
}

static void bert_test(void **state) {
    (void)state;
    struct tokenizer *tokenizer;
    struct test_file files[] = {{"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n[\n]\nmask\n"}, {NULL, NULL}};
    assert_ok(test_open(&tokenizer, files));
    assert_string_equal(parsed(tokenizer, "a[MASK]a"), "[CLS] a[0,1) [MASK][1,7) a[7,8) [SEP]");
    assert_string_equal(parsed(tokenizer, "[mask]"), "[CLS] [[0,1) mask[1,5) ][5,6) [SEP]");
    assert_string_equal(literal(tokenizer, "[MASK]"), "[CLS] [[0,1) mask[1,5) ][5,6) [SEP]");
    tokenizer_close(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mask_test),    cmocka_unit_test(added_test), cmocka_unit_test(passes_test),
        cmocka_unit_test(outside_test), cmocka_unit_test(bert_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
