// SPDX-License-Identifier: Apache-2.0
// Every golden line of both tokenizers, from every form of file that holds the same vocabulary.
#include "tokenizers.h"

#include "base/text.h"

// The folder of a vocabulary: the shared one's, or (BERT) MiniLM's. NULL if neither is here.
static const char *vocabulary_folder(const char *name, const char *file) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", name, file);
    if (support_path("FINETUNED_VOCAB", path))
        return support_path("FINETUNED_VOCAB", name);
    if (!strcmp(file, "vocab.txt") && support_path("FINETUNED_MINILM", file))
        return getenv("FINETUNED_MINILM");
    return NULL;
}

static json_t *golden_line(const char *bytes, size_t size, size_t *at) {
    const char *end = memchr(bytes + *at, '\n', size - *at);
    size_t length = end ? (size_t)(end - bytes) - *at : size - *at;
    json_error_t error;
    json_t *line = json_loadb(bytes + *at, length, JSON_ALLOW_NUL, &error);
    if (!line)
        fail_msg("golden line at byte %zu: %s", *at, error.text);
    *at += length + 1;
    return line;
}

static int ids_differ(const struct encoding *got, json_t *line) {
    json_t *ids = json_object_get(line, "ids"), *types = json_object_get(line, "token_type_ids");
    if (got->n != json_array_size(ids))
        return 1;
    for (uint32_t i = 0; i < got->n; i++)
        if (got->ids[i] != json_integer_value(json_array_get(ids, i)) ||
            got->types[i] != json_integer_value(json_array_get(types, i)))
            return 1;
    return 0;
}

static int offsets_differ(const struct encoding *got, json_t *line) {
    json_t *offsets = json_object_get(line, "offsets"), *sequence = json_object_get(line, "seq");
    for (uint32_t i = 0; offsets && i < got->n; i++) {
        json_t *range = json_array_get(offsets, i);
        if (got->begin[i] != json_integer_value(json_array_get(range, 0)) ||
            got->end[i] != json_integer_value(json_array_get(range, 1)))
            return 1;
    }
    for (uint32_t i = 0; sequence && i < got->n; i++)
        if (got->sequence[i] != json_integer_value(json_array_get(sequence, i)))
            return 1;
    return 0;
}

static void difference_print(const struct encoding *got, json_t *line) {
    char *text = json_dumps(line, JSON_COMPACT | JSON_ENSURE_ASCII);
    fprintf(stderr, "wanted %s\n   got", text);
    for (uint32_t i = 0; i < got->n; i++)
        fprintf(stderr, " %d[%u,%u)", got->ids[i], got->begin[i], got->end[i]);
    fprintf(stderr, "\n");
    free(text);
}

static int line_check(struct tokenizer *tokenizer, struct encoding *got, json_t *line) {
    json_t *text = json_object_get(line, "text"), *pair = json_object_get(line, "pair");
    struct tokenizer_options options = {
        .special =
            strcmp(json_string_value(json_object_get(line, "special")), "parse") ? TOKENIZER_LITERAL : TOKENIZER_PARSE,
        .max_length = (uint32_t)json_integer_value(json_object_get(line, "max_length")),
    };
    tokenizer_set_prefix_space(tokenizer, json_is_true(json_object_get(line, "add_prefix_space")));
    assert_ok(tokenizer_encode(tokenizer, got, json_string_value(text), json_string_length(text),
                               json_string_value(pair), json_string_length(pair), &options));
    int differ = ids_differ(got, line) || offsets_differ(got, line);
    if (differ)
        difference_print(got, line);
    return differ;
}

// All lines of a golden file; the tokenizer is closed.
static void golden_check(struct tokenizer *tokenizer, const char *name) {
    const char *path = support_path("FINETUNED_GOLDEN", name);
    char *bytes;
    size_t size;
    int lines = 0, wrong = 0;
    SUPPORT_NEED(path, name);
    assert_ok(file_read(&bytes, &size, path, 64u << 20));
    struct encoding got = {0};
    for (int warm = 0; warm < 2; warm++) // the second time most words come from the cache
        for (size_t at = 0; at < size; lines++) {
            json_t *line = golden_line(bytes, size, &at);
            wrong += line_check(tokenizer, &got, line);
            json_decref(line);
        }
    encoding_release(&got);
    free(bytes);
    tokenizer_close(tokenizer);
    assert_true(lines > 200);
    if (wrong)
        fail_msg("%s: %d of %d answers differ", name, wrong, lines);
}

static void roberta_files_test(void **state) {
    (void)state;
    const char *folder = vocabulary_folder("roberta-base", "vocab.json");
    struct tokenizer *tokenizer;
    SUPPORT_NEED(folder, "RoBERTa's vocabulary");
    assert_ok(tokenizer_open(&tokenizer, folder));
    struct tokenizer_info info = tokenizer_info(tokenizer);
    assert_int_equal(info.vocab_size, 50265);
    assert_int_equal(info.mask, 50264);
    golden_check(tokenizer, "tokenizer_roberta.jsonl");
}

static void bert_text_test(void **state) {
    (void)state;
    const char *folder = vocabulary_folder("bert-base-uncased", "vocab.txt");
    struct tokenizer *tokenizer;
    SUPPORT_NEED(folder, "BERT's vocabulary");
    char *own = support_folder(), *from = path_join(folder, "vocab.txt"), *to = path_join(own, "vocab.txt");
    assert_ok(file_copy(to, from));
    assert_ok(tokenizer_open(&tokenizer, own));
    assert_int_equal(tokenizer_info(tokenizer).vocab_size, 30522);
    golden_check(tokenizer, "tokenizer_bert.jsonl");
    assert_ok(file_remove(own));
    free(own);
    free(from);
    free(to);
}

static void bert_json_test(void **state) {
    (void)state;
    struct tokenizer *tokenizer;
    SUPPORT_NEED(support_path("FINETUNED_MINILM", "tokenizer.json"), "MiniLM's tokenizer.json");
    assert_ok(tokenizer_open(&tokenizer, getenv("FINETUNED_MINILM")));
    golden_check(tokenizer, "tokenizer_bert.jsonl");
}

// tokenizer.json made from vocab.json and merges.txt, its merges as "a b" or as ["a", "b"].
static void roberta_json_check(bool arrays) {
    const char *folder = vocabulary_folder("roberta-base", "vocab.json");
    struct tokenizer *tokenizer;
    json_error_t error;
    char *path, *merges, *line, *rest;
    SUPPORT_NEED(folder, "RoBERTa's vocabulary");
    path = path_join(folder, "vocab.json");
    json_t *vocab = json_load_file(path, 0, &error), *list = json_array();
    assert_non_null(vocab);
    free(path);
    path = path_join(folder, "merges.txt");
    assert_ok(file_read(&merges, NULL, path, 64u << 20));
    free(path);
    rest = merges;
    strsep(&rest, "\n"); // #version
    while ((line = strsep(&rest, "\n")) && *line) {
        char *space = strchr(line, ' ');
        json_array_append_new(list, arrays ? json_pack("[s%, s]", line, (size_t)(space - line), space + 1)
                                           : json_string(line));
    }
    free(merges);
    assert_ok(test_open_json(&tokenizer, test_roberta_json(vocab, list)));
    golden_check(tokenizer, "tokenizer_roberta.jsonl");
}

static void roberta_strings_test(void **state) {
    (void)state;
    roberta_json_check(false);
}

static void roberta_arrays_test(void **state) {
    (void)state;
    roberta_json_check(true);
}

static void pair_test(void **state) {
    (void)state;
    struct tokenizer *bytes, *pieces;
    struct test_file files[] = {{"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n"}, {NULL, NULL}};
    struct encoding got = {0};
    struct tokenizer_options options = {.special = TOKENIZER_LITERAL, .max_length = 0};
    assert_ok(tokenizer_open_bytes(&bytes));
    assert_ok(test_open(&pieces, files));
    assert_string_equal(test_encode(bytes, "a", "b", TOKENIZER_LITERAL, 0), "<s> a[0,1) </s> </s> b[0,1) </s>");
    assert_string_equal(test_encode(pieces, "a a", "b", TOKENIZER_LITERAL, 0),
                        "[CLS] a[0,1) a[2,3) [SEP] b[0,1) [SEP]");
    assert_string_equal(test_encode(pieces, "", "", TOKENIZER_LITERAL, 0), "[CLS] [SEP] [SEP]");
    assert_ok(tokenizer_encode(pieces, &got, "a", 1, "b b", 3, &options));
    assert_memory_equal(got.types, ((uint8_t[]){0, 0, 0, 1, 1, 1}), 6);
    assert_memory_equal(got.sequence, ((int8_t[]){-1, 0, -1, 1, 1, -1}), 6);
    assert_ok(tokenizer_encode(bytes, &got, "a", 1, "b", 1, &options));
    assert_memory_equal(got.types, ((uint8_t[]){0, 0, 0, 0, 0, 0}), 6);
    encoding_release(&got);
    tokenizer_close(bytes);
    tokenizer_close(pieces);
}

// Lengths that the longest_first rule leaves, and `full`.
static void lengths_check(struct tokenizer *tokenizer, uint32_t n1, uint32_t n2, uint32_t max, uint32_t left1,
                          uint32_t left2) {
    static const char text[] = "aaaaaaaaaaaaaaaaaaaa", pair[] = "bbbbbbbbbbbbbbbbbbbb";
    struct encoding got = {0};
    struct tokenizer_options options = {.special = TOKENIZER_LITERAL, .max_length = max};
    uint32_t first = 0, second = 0;
    assert_ok(tokenizer_encode(tokenizer, &got, text, n1, pair, n2, &options));
    assert_int_equal(got.full, n1 + n2 + 4);
    for (uint32_t i = 0; i < got.n; i++) {
        first += got.sequence[i] == 0 && got.ids[i] == 4 + 'a';
        second += got.sequence[i] == 1 && got.ids[i] == 4 + 'b';
    }
    assert_int_equal(got.n, left1 + left2 + 4);
    assert_int_equal(first, left1);
    assert_int_equal(second, left2);
    encoding_release(&got);
}

static void truncation_test(void **state) {
    (void)state;
    struct tokenizer *tokenizer;
    struct encoding got = {0};
    struct tokenizer_options options = {.special = TOKENIZER_LITERAL, .max_length = 1};
    assert_ok(tokenizer_open_bytes(&tokenizer));
    assert_string_equal(test_encode(tokenizer, "abcd", NULL, TOKENIZER_LITERAL, 4), "<s> a[0,1) b[1,2) </s>");
    assert_string_equal(test_encode(tokenizer, "abcd", NULL, TOKENIZER_LITERAL, 6),
                        "<s> a[0,1) b[1,2) c[2,3) d[3,4) </s>");
    assert_string_equal(test_encode(tokenizer, "abcd", NULL, TOKENIZER_LITERAL, 2), "<s> </s>");
    lengths_check(tokenizer, 5, 5, 14, 5, 5);
    lengths_check(tokenizer, 3, 10, 14, 3, 7);
    lengths_check(tokenizer, 10, 3, 14, 7, 3);
    lengths_check(tokenizer, 8, 9, 14, 5, 5);
    lengths_check(tokenizer, 8, 9, 15, 5, 6);
    lengths_check(tokenizer, 9, 8, 15, 6, 5);
    lengths_check(tokenizer, 20, 1, 5, 1, 0);
    lengths_check(tokenizer, 20, 20, 4, 0, 0);
    assert_status(tokenizer_encode(tokenizer, &got, "a", 1, NULL, 0, &options), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "max_length 1"));
    options.max_length = 3;
    assert_status(tokenizer_encode(tokenizer, &got, "a", 1, "b", 1, &options), STATUS_USAGE);
    encoding_release(&got);
    tokenizer_close(tokenizer);
}

static void invalid_test(void **state) {
    (void)state;
    static const char *const bad[] = {"ab\x80",     "ab\xc0\xaf", "ab\xed\xa0\x80", "ab\xf4\x90\x80\x80",
                                      "ab\xe2\x82", "ab\xff"};
    struct tokenizer *tokenizer;
    struct encoding got = {0};
    struct tokenizer_options options = {.special = TOKENIZER_LITERAL, .max_length = 0};
    assert_ok(tokenizer_open_bytes(&tokenizer));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_status(tokenizer_encode(tokenizer, &got, bad[i], strlen(bad[i]), NULL, 0, &options), STATUS_DATA);
        assert_non_null(strstr(status_message(), "byte 2"));
        assert_status(tokenizer_encode(tokenizer, &got, "a", 1, bad[i], strlen(bad[i]), &options), STATUS_DATA);
        assert_non_null(strstr(status_message(), "second text"));
    }
    assert_ok(tokenizer_encode(tokenizer, &got, "a\0b", 3, NULL, 0, &options)); // NUL is a byte like any other
    assert_int_equal(got.n, 5);
    assert_int_equal(got.ids[2], 4);
    encoding_release(&got);
    tokenizer_close(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roberta_files_test),   cmocka_unit_test(bert_text_test),      cmocka_unit_test(bert_json_test),
        cmocka_unit_test(roberta_strings_test), cmocka_unit_test(roberta_arrays_test), cmocka_unit_test(pair_test),
        cmocka_unit_test(truncation_test),      cmocka_unit_test(invalid_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
