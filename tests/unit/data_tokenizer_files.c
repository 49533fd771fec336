// SPDX-License-Identifier: Apache-2.0
// Reading a tokenizer's files: what is refused and how it is said, what configs change, saving, hashing.
#include "tokenizers.h"

#include "base/hash.h"

#define SPECIALS "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"

// Opening fails with STATUS_DATA in one line that holds `wanted`.
static void refused(const struct test_file *files, const char *wanted) {
    struct tokenizer *tokenizer;
    enum status status = test_open(&tokenizer, files);
    if (status != STATUS_DATA || !strstr(status_message(), wanted) || strchr(status_message(), '\n'))
        fail_msg("status %d: \"%s\", wanted \"%s\"", status, status == STATUS_OK ? "" : status_message(), wanted);
}

static void text_refused(const char *vocab, const char *wanted) {
    refused((struct test_file[]){{"vocab.txt", vocab}, {NULL, NULL}}, wanted);
}

static void vocab_text_test(void **state) {
    (void)state;
    char big[2048];
    text_refused(SPECIALS "a\nb\na\n", "vocab.txt:8: token \"a\" is there twice, with ids 5 and 7");
    text_refused(SPECIALS "a\n\nb\n", "vocab.txt:7");
    text_refused(SPECIALS "a\xff\n", "not UTF-8");
    text_refused("", "[CLS]");
    text_refused("[PAD]\n[UNK]\n[SEP]\n", "the cls_token \"[CLS]\" is not in the vocabulary");
    text_refused("[PAD]\n[CLS]\n[SEP]\n", "the unk_token \"[UNK]\"");
    memset(big, 'a', sizeof big - 1);
    big[sizeof big - 1] = 0;
    text_refused(big, "vocab.txt:1");
    struct tokenizer *tokenizer; // no last newline, "\r\n", and white space at the end of a line
    assert_ok(test_open(&tokenizer,
                        (struct test_file[]){{"vocab.txt", "[PAD]\r\n[UNK]\n[CLS] \n[SEP]\na\u00a0"}, {NULL, NULL}}));
    assert_tokens(tokenizer, "a", "[CLS] a[0,1) [SEP]");
    assert_int_equal(tokenizer_info(tokenizer).mask, -1);
    tokenizer_close(tokenizer);
}

static void folder_test(void **state) {
    (void)state;
    struct tokenizer *tokenizer;
    refused((struct test_file[]){{NULL, NULL}}, "no tokenizer");
    refused((struct test_file[]){{"vocab.json", "{}"}, {NULL, NULL}}, "merges.txt");
    refused((struct test_file[]){{"merges.txt", ""}, {NULL, NULL}}, "vocab.json");
    assert_status(tokenizer_open(&tokenizer, "/no/such/folder"), STATUS_DATA);
}

// vocab.json of bytes and merges, changed by `edit`, with this merges.txt.
static void bpe_refused(void (*edit)(json_t *vocab), const char *merges, const char *wanted) {
    json_t *vocab = test_bpe_vocabulary((const char *const[]){"a b", "ab c", NULL});
    if (edit)
        edit(vocab);
    char *text = json_dumps(vocab, 0);
    refused((struct test_file[]){{"vocab.json", text}, {"merges.txt", merges}, {NULL, NULL}}, wanted);
    free(text);
    json_decref(vocab);
}

static void id_string(json_t *vocab) {
    json_object_set_new(vocab, "x", json_string("1"));
}
static void id_negative(json_t *vocab) {
    json_object_set_new(vocab, "x", json_integer(-1));
}
static void id_huge(json_t *vocab) {
    json_object_set_new(vocab, "x", json_integer((json_int_t)1 << 40));
}
static void id_twice(json_t *vocab) {
    json_object_set_new(vocab, "x", json_integer(4));
}
static void byte_missing(json_t *vocab) {
    json_object_del(vocab, "x");
}
static void pad_missing(json_t *vocab) {
    json_object_del(vocab, "<pad>");
}

static void vocab_json_test(void **state) {
    (void)state;
    bpe_refused(id_string, "", "vocab.json: token \"x\": its id is not an integer");
    bpe_refused(id_negative, "", "id -1 is not in 0..");
    bpe_refused(id_huge, "", "is not in 0..");
    bpe_refused(id_twice, "", "id 4 is there twice");
    bpe_refused(byte_missing, "", "no token for byte 0x78");
    bpe_refused(pad_missing, "", "the pad_token \"<pad>\" is not in the vocabulary");
    refused((struct test_file[]){{"vocab.json", "{\"a\": 1, "}, {"merges.txt", ""}, {NULL, NULL}},
            "vocab.json: line 1");
    refused((struct test_file[]){{"vocab.json", "{\"a\": 1, \"a\": 2}"}, {"merges.txt", ""}, {NULL, NULL}}, "uplicate");
    refused((struct test_file[]){{"vocab.json", "[1]"}, {"merges.txt", ""}, {NULL, NULL}}, "not an object");
}

static void merges_test(void **state) {
    (void)state;
    bpe_refused(NULL, "#version: 0.2\na b\nab c\na b\n", "merges.txt: line 4: the merge \"a b\" is there twice");
    bpe_refused(NULL, "a b\nab\n", "line 2: \"ab\" is not two tokens");
    bpe_refused(NULL, "a b c\n", "line 1");
    bpe_refused(NULL, " a\n", "line 1");
    bpe_refused(NULL, "a \n", "line 1");
    bpe_refused(NULL, "a b\n\n", "line 2");
    bpe_refused(NULL, "qq a\n", "names \"qq\"");
    bpe_refused(NULL, "a qq\n", "names \"qq\"");
    bpe_refused(NULL, "b a\n", "makes a token that the vocabulary lacks");
}

// RoBERTa's or BERT's tokenizer.json with the value at `path` ("model.dropout") replaced, or removed (NULL).
static json_t *edited(bool bert, const char *path, const char *value) {
    static const char *const merges[] = {"a b", NULL};
    json_t *root =
        bert
            ? test_json(
                  "{\"version\": \"1.0\", \"added_tokens\": [], \"truncation\": {\"max_length\": 3}, \"padding\": {},"
                  "\"normalizer\": {\"type\": \"BertNormalizer\", \"clean_text\": true, \"handle_chinese_chars\": true,"
                  "                 \"strip_accents\": null, \"lowercase\": true},"
                  "\"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"},"
                  "\"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"[SEP]\", 3], \"cls\": [\"[CLS]\", "
                  "2]},"
                  "\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"[UNK]\", \"continuing_subword_prefix\": "
                  "\"##\","
                  "            \"max_input_chars_per_word\": 100, \"vocab\": {\"[PAD]\": 0, \"[UNK]\": 1,"
                  "            \"[CLS]\": 2, \"[SEP]\": 3, \"a\": 4, \"##a\": 5, \"A\": 6, \"\u4e2d\": 7}}}")
            : test_roberta_json(test_bpe_vocabulary(merges), test_merges(merges));
    if (!path)
        return root;
    json_t *object = root;
    const char *dot = strchr(path, '.');
    if (dot) {
        char first[64];
        snprintf(first, sizeof first, "%.*s", (int)(dot - path), path);
        object = json_object_get(root, first);
    }
    if (value)
        json_object_set_new(object, dot ? dot + 1 : path, json_loads(value, JSON_DECODE_ANY, NULL));
    else
        json_object_del(object, dot ? dot + 1 : path);
    return root;
}

static void edit_refused(bool bert, const char *path, const char *value, const char *wanted) {
    json_t *root = edited(bert, path, value);
    char *text = json_dumps(root, 0);
    refused((struct test_file[]){{"tokenizer.json", text}, {NULL, NULL}}, wanted);
    free(text);
    json_decref(root);
}

static void edit_accepted(bool bert, const char *path, const char *value, const char *text, const char *wanted) {
    struct tokenizer *tokenizer;
    assert_ok(test_open_json(&tokenizer, edited(bert, path, value)));
    assert_tokens(tokenizer, text, wanted);
    tokenizer_close(tokenizer);
}

// What we don't do exactly is refused, and the message names it.
static void json_refused_test(void **state) {
    (void)state;
    edit_refused(false, "model.type", "\"Unigram\"", "tokenizer.json: model.type \"Unigram\" is not supported");
    edit_refused(false, "model.dropout", "0.1", "model.dropout");
    edit_refused(false, "model.continuing_subword_prefix", "\"@@\"", "model.continuing_subword_prefix");
    edit_refused(false, "model.end_of_word_suffix", "\"</w>\"", "model.end_of_word_suffix");
    edit_refused(false, "model.ignore_merges", "true", "model.ignore_merges");
    edit_refused(false, "model.byte_fallback", "true", "model.byte_fallback");
    edit_refused(false, "model.novelty", "1", "model.novelty is not supported");
    edit_refused(false, "model.vocab", "3", "not an object");
    edit_refused(false, "model.merges", "{}", "model.merges");
    edit_refused(false, "model.merges", "[\"a b\", \"a q\"]", "model.merges[1]: the merge \"a q\" makes");
    edit_refused(false, "model.merges", "[[\"a\"]]", "model.merges[0]");
    edit_refused(false, "model.merges", "[\"ab\"]", "model.merges[0]");
    edit_refused(false, "model.merges", "[\"a b\", \"a b\"]", "is there twice");
    edit_refused(false, "model", NULL, "model");
    edit_refused(false, "normalizer", "{\"type\": \"NFC\"}", "normalizer \"NFC\"");
    edit_refused(false, "pre_tokenizer", "{\"type\": \"Whitespace\"}", "pre_tokenizer \"Whitespace\"");
    edit_refused(false, "pre_tokenizer", NULL, "pre_tokenizer \"\"");
    edit_refused(false, "pre_tokenizer.use_regex", "false", "pre_tokenizer.use_regex: false");
    edit_refused(false, "post_processor.add_prefix_space", "true", "differ in add_prefix_space");
    edit_refused(false, "post_processor", "{\"type\": \"ByteLevel\"}", "post_processor \"ByteLevel\"");
    edit_refused(false, "post_processor.cls", "[\"<s>\", 7]", "post_processor.cls");
    edit_refused(false, "post_processor.cls", "[\"<none>\", 0]", "post_processor.cls");
    edit_refused(false, "added_tokens", "[{\"id\": 5, \"content\": \"<s>\"}]", "added token \"<s>\" has id 5, but 0");
    edit_refused(false, "added_tokens", "[{\"id\": 5, \"content\": \"<new>\"}]", "id 5 is there twice");
    edit_refused(false, "added_tokens", "[{\"id\": 900, \"content\": \"w\", \"single_word\": true}]", "single_word");
    edit_refused(false, "added_tokens", "[{\"content\": \"x\"}]", "added_tokens[0] has no id");
    edit_refused(false, "added_tokens", "[{\"id\": 900, \"content\": \" x\"}]", "begins with white space");
    edit_refused(false, "extra", "1", "tokenizer.extra is not supported");
    edit_refused(true, "normalizer.clean_text", "false", "normalizer.clean_text: false");
    edit_refused(true, "normalizer.strip_accents", "false", "normalizer.strip_accents: false");
    edit_refused(true, "normalizer", "{\"type\": \"Sequence\", \"normalizers\": []}", "normalizer \"Sequence\"");
    edit_refused(true, "normalizer", "null", "normalizer");
    edit_refused(true, "pre_tokenizer", "{\"type\": \"Whitespace\"}", "pre_tokenizer \"Whitespace\"");
    edit_refused(true, "model.continuing_subword_prefix", "\"@\"", "continuing_subword_prefix");
    edit_refused(true, "model.max_input_chars_per_word", "0", "max_input_chars_per_word");
    edit_refused(true, "model.max_input_chars_per_word", "100000", "max_input_chars_per_word");
    edit_refused(true, "post_processor", "null", "post_processor");
    edit_refused(true, "post_processor",
                 "{\"type\": \"TemplateProcessing\", \"single\": [], \"pair\": [], \"special_tokens\": {}}",
                 "post_processor.single");
    edit_refused(true, "added_tokens", "[{\"id\": 4, \"content\": \"a\", \"normalized\": true}]", "normalized");
    refused((struct test_file[]){{"tokenizer.json", "{\"model\""}, {NULL, NULL}}, "tokenizer.json: line 1");
    refused((struct test_file[]){{"tokenizer.json", "[]"}, {NULL, NULL}}, "not an object");
    refused(
        (struct test_file[]){{"tokenizer.json", "{\"model\": {\"type\": \"WordPiece\", \"vocab\": {\"a\\u0000\": 1}}}"},
                             {NULL, NULL}},
        "tokenizer.json");
}

static void json_accepted_test(void **state) {
    (void)state;
    edit_accepted(false, NULL, NULL, "ab <mask>", "<s> ab[0,2) <mask>[3,9) </s>");
    edit_accepted(false, "model.type", NULL, "ab", "<s> ab[0,2) </s>"); // early files have no type
    edit_accepted(false, "model.merges", "[[\"a\", \"b\"]]", "ab", "<s> ab[0,2) </s>");
    edit_accepted(false, "truncation", "{\"max_length\": 1}", "abb", "<s> ab[0,2) b[2,3) </s>");
    edit_accepted(false, "post_processor.trim_offsets", "false", "b b", "<s> b[0,1) \u0120[1,2) b[2,3) </s>");
    edit_accepted(true, NULL, NULL, "aA\u4e2d", "[CLS] a[0,1) ##a[1,2) \u4e2d[2,5) [SEP]"); // its truncation is ignored
    edit_accepted(true, "normalizer.lowercase", "false", "A", "[CLS] A[0,1) [SEP]");
    edit_accepted(true, "normalizer.handle_chinese_chars", "false", "a\u4e2d", "[CLS] [UNK][0,4) [SEP]");
    edit_accepted(true, "model.max_input_chars_per_word", "2", "aaa", "[CLS] [UNK][0,3) [SEP]");
    edit_accepted(true, "model.type", NULL, "a", "[CLS] a[0,1) [SEP]");
}

static void config_refused(const char *config, const char *wanted) {
    refused((struct test_file[]){{"vocab.txt", SPECIALS "a\n"}, {"tokenizer_config.json", config}, {NULL, NULL}},
            wanted);
}

static void config_test(void **state) {
    (void)state;
    config_refused("{\"do_lower_case\": 1}", "tokenizer_config.json: do_lower_case");
    config_refused("{\"do_lower_case\": true, \"strip_accents\": false}",
                   "strip_accents false with do_lower_case true");
    config_refused("{\"do_lower_case\": false, \"strip_accents\": true}",
                   "strip_accents true with do_lower_case false");
    config_refused("{\"tokenizer_class\": \"BertJapaneseTokenizer\"}", "BertJapaneseTokenizer");
    config_refused("{\"do_basic_tokenize\": false}", "do_basic_tokenize");
    config_refused("{\"never_split\": [\"x\"]}", "never_split");
    config_refused("{\"cls_token\": \"<cls>\"}", "the cls_token \"<cls>\"");
    config_refused("{\"cls_token\": 3}", "cls_token");
    config_refused("{\"added_tokens_decoder\": {\"x\": {\"content\": \"a\"}}}", "\"x\" is not an id");
    config_refused("{\"added_tokens_decoder\": {\"3\": {\"content\": \"a\"}}}", "added token \"a\" has id 3, but 5");
    config_refused("{\"additional_special_tokens\": [\"<new>\"]}", "\"<new>\" is not in the vocabulary");
    config_refused("{", "tokenizer_config.json: line 1");
    config_refused("[]", "not an object");
    refused((struct test_file[]){{"vocab.txt", SPECIALS}, {"added_tokens.json", "{\"<new>\": 5}"}, {NULL, NULL}},
            "added_tokens.json");

    struct tokenizer *tokenizer; // 10^30 is Transformers' way to say "no limit"
    struct test_file files[] = {
        {"vocab.txt", SPECIALS "<c>\nA\n"},
        {"tokenizer_config.json", "{\"model_max_length\": 1000000000000000019884624838656, \"do_lower_case\": false,"
                                  " \"tokenizer_class\": \"BertTokenizer\", \"cls_token\": {\"content\": \"<c>\"}}"},
        {"special_tokens_map.json", "{\"mask_token\": \"A\"}"},
        {NULL, NULL},
    };
    assert_ok(test_open(&tokenizer, files));
    assert_tokens(tokenizer, "A", "<c> A[0,1) [SEP]");
    assert_int_equal(tokenizer_info(tokenizer).mask, 6);
    tokenizer_close(tokenizer);
}

// tokenizer_config.json wins over tokenizer.json; added_tokens_decoder's flags over the usual ones.
static void override_test(void **state) {
    (void)state;
    struct tokenizer *tokenizer;
    json_t *root = edited(false, NULL, NULL);
    char *text = json_dumps(root, 0);
    struct test_file files[] = {{"tokenizer.json", text},
                                {"tokenizer_config.json",
                                 "{\"add_prefix_space\": true, \"tokenizer_class\": \"Whatever\","
                                 " \"added_tokens_decoder\": {\"261\": {\"content\": \"<mask>\"}}}"},
                                {NULL, NULL}};
    assert_ok(test_open(&tokenizer, files));
    assert_true(tokenizer_info(tokenizer).add_prefix_space);
    tokenizer_set_prefix_space(tokenizer, false);
    assert_tokens(tokenizer, "a <mask>", "<s> a[0,1) \u0120[2,2) <mask>[2,8) </s>");
    tokenizer_close(tokenizer);
    free(text);
    json_decref(root);
}

static char *hash_of(const struct tokenizer *tokenizer) {
    struct hash_stream *hash;
    char *out = malloc(33);
    assert_ok(hash_begin(&hash));
    tokenizer_hash(tokenizer, hash);
    hash_end(hash, out);
    return out;
}

static void hash_test(void **state) {
    (void)state;
    struct tokenizer *ab = test_bpe((const char *const[]){"a b", "b a", NULL}), *ba, *again;
    json_t *root = test_roberta_json(test_bpe_vocabulary((const char *const[]){"a b", "b a", NULL}),
                                     test_merges((const char *const[]){"b a", "a b", NULL}));
    assert_ok(test_open_json(&ba, root)); // the same vocabulary, other ranks
    again = test_bpe((const char *const[]){"a b", "b a", NULL});
    char *first = hash_of(ab), *second = hash_of(ba), *third = hash_of(again);
    assert_string_equal(first, third);
    assert_string_not_equal(first, second);
    tokenizer_set_prefix_space(again, true);
    free(third);
    third = hash_of(again);
    assert_string_not_equal(first, third);
    free(first);
    free(second);
    free(third);
    tokenizer_close(ab);
    tokenizer_close(ba);
    tokenizer_close(again);
}

static void same_file(const char *folder, const char *name, const char *text) {
    char *path = path_join(folder, name), *bytes;
    size_t size;
    assert_ok(file_read(&bytes, &size, path, 1 << 20));
    assert_int_equal(size, strlen(text));
    assert_memory_equal(bytes, text, size);
    free(bytes);
    free(path);
}

// Saves, reads again and compares hashes and a few ids; the folder stays.
static char *saved(struct tokenizer *tokenizer) {
    struct tokenizer *again;
    char *folder = support_folder();
    assert_ok(tokenizer_save(tokenizer, folder, 512));
    assert_ok(tokenizer_open(&again, folder));
    char *first = hash_of(tokenizer), *second = hash_of(again);
    assert_string_equal(first, second);
    free(first);
    free(second);
    tokenizer_close(again);
    tokenizer_close(tokenizer);
    return folder;
}

static void save_test(void **state) {
    (void)state;
    struct tokenizer *tokenizer;
    json_error_t error;
    assert_ok(tokenizer_open_bytes(&tokenizer));
    char *folder = saved(tokenizer), *path = path_join(folder, "tokenizer_config.json");
    json_t *config = json_load_file(path, 0, &error), *mask;
    mask = json_object_get(json_object_get(config, "added_tokens_decoder"), "260");
    assert_string_equal(json_string_value(json_object_get(config, "tokenizer_class")), "RobertaTokenizer");
    assert_int_equal(json_integer_value(json_object_get(config, "model_max_length")), 512);
    assert_true(json_is_true(json_object_get(mask, "lstrip")));
    json_decref(config);
    same_file(folder, "merges.txt", "#version: 0.2\n");
    assert_ok(file_remove(folder));
    free(path);
    free(folder);

    // From files: byte for byte, the odd formatting too.
    struct test_file files[] = {{"vocab.txt", SPECIALS "a\r\nB"},
                                {"tokenizer_config.json", "{ \"do_lower_case\" :false,\"x\":1}"},
                                {NULL, NULL}};
    assert_ok(test_open(&tokenizer, files));
    folder = saved(tokenizer);
    same_file(folder, "vocab.txt", files[0].text);
    same_file(folder, "tokenizer_config.json", files[1].text);
    path = path_join(folder, "special_tokens_map.json");
    assert_true(file_exists(path));
    assert_ok(file_remove(folder));
    free(path);
    free(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vocab_text_test), cmocka_unit_test(folder_test),       cmocka_unit_test(vocab_json_test),
        cmocka_unit_test(merges_test),     cmocka_unit_test(json_refused_test), cmocka_unit_test(json_accepted_test),
        cmocka_unit_test(config_test),     cmocka_unit_test(override_test),     cmocka_unit_test(hash_test),
        cmocka_unit_test(save_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
