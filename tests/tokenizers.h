// SPDX-License-Identifier: Apache-2.0
// Small tokenizers for tests: files written into a fresh folder, and tokenizer.json made of a list of merges or pieces.
#ifndef FINETUNED_TESTS_TOKENIZERS_H
#define FINETUNED_TESTS_TOKENIZERS_H

#include "support.h"

#include "base/file.h"
#include "data/bpe.h"
#include "data/tokenizer.h"

#include <jansson.h>

struct test_file {
    const char *name;
    const char *text; // NULL = end of the list
};

static inline void test_file_put(const char *folder, const char *name, const char *bytes, size_t size) {
    char *path = path_join(folder, name);
    assert_ok(file_replace(path, bytes, size));
    free(path);
}

// Opens a folder that holds just these files, and removes it.
static inline enum status test_open(struct tokenizer **out, const struct test_file *files) {
    char *folder = support_folder();
    for (; files->text; files++)
        test_file_put(folder, files->name, files->text, strlen(files->text));
    enum status status = tokenizer_open(out, folder);
    assert_ok(file_remove(folder));
    free(folder);
    return status;
}

// The same from one JSON value, which is released.
static inline enum status test_open_json(struct tokenizer **out, json_t *root) {
    char *text = json_dumps(root, JSON_COMPACT);
    enum status status = test_open(out, (struct test_file[]){{"tokenizer.json", text}, {NULL, NULL}});
    json_decref(root);
    free(text);
    return status;
}

static inline json_t *test_json(const char *text) {
    json_error_t error;
    json_t *root = json_loads(text, JSON_ALLOW_NUL, &error);
    if (!root)
        fail_msg("test's own JSON: %s", error.text);
    return root;
}

// {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, bytes 4.., the merges' results, "<mask>"}
static inline json_t *test_bpe_vocabulary(const char *const *merges) {
    json_t *vocab = test_json("{\"<s>\": 0, \"<pad>\": 1, \"</s>\": 2, \"<unk>\": 3}");
    int id = 4;
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[5] = {0};
        bpe_alphabet(byte, text);
        json_object_set_new(vocab, text, json_integer(id++));
    }
    for (; *merges; merges++) {
        const char *space = strchr(*merges, ' ');
        char text[256];
        snprintf(text, sizeof text, "%.*s%s", (int)(space - *merges), *merges, space + 1);
        if (!json_object_get(vocab, text))
            json_object_set_new(vocab, text, json_integer(id++));
    }
    json_object_set_new(vocab, "<mask>", json_integer(id));
    return vocab;
}

// RoBERTa's tokenizer.json around a vocabulary (taken over) and merges (NULL-terminated strings "a b").
static inline json_t *test_roberta_json(json_t *vocab, json_t *merges) {
    json_t *root = test_json(
        "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"normalizer\": null,"
        "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true},"
        "\"post_processor\": {\"type\": \"RobertaProcessing\", \"sep\": [\"</s>\", 2], \"cls\": [\"<s>\", 0],"
        "                     \"trim_offsets\": true, \"add_prefix_space\": false},"
        "\"decoder\": {\"type\": \"ByteLevel\"},"
        "\"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, \"continuing_subword_prefix\": \"\","
        "            \"end_of_word_suffix\": \"\", \"fuse_unk\": false}}");
    static const char *const names[] = {"<s>", "<pad>", "</s>", "<unk>", "<mask>"};
    json_t *added = json_array();
    for (int i = 0; i < 5; i++)
        json_array_append_new(added, json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id",
                                               json_integer_value(json_object_get(vocab, names[i])), "content",
                                               names[i], "single_word", 0, "lstrip", i == 4, "rstrip", 0, "normalized",
                                               i < 4, "special", 1));
    json_object_set_new(root, "added_tokens", added);
    json_object_set_new(json_object_get(root, "model"), "vocab", vocab);
    json_object_set_new(json_object_get(root, "model"), "merges", merges);
    return root;
}

static inline json_t *test_merges(const char *const *merges) {
    json_t *list = json_array();
    for (; *merges; merges++)
        json_array_append_new(list, json_string(*merges));
    return list;
}

// A tokenizer of these merges, in this order.
static inline struct tokenizer *test_bpe(const char *const *merges) {
    struct tokenizer *tokenizer;
    assert_ok(test_open_json(&tokenizer, test_roberta_json(test_bpe_vocabulary(merges), test_merges(merges))));
    return tokenizer;
}

// "token[begin,end) token[begin,end) …" of a text (or pair), outer special tokens without a range, in a static buffer.
static inline const char *test_encode(const struct tokenizer *tokenizer, const char *text, const char *pair,
                                      enum tokenizer_special special, uint32_t max_length) {
    static char out[16384];
    size_t at = 0;
    struct encoding got = {0};
    struct tokenizer_options options = {.special = special, .max_length = max_length};
    assert_ok(tokenizer_encode(tokenizer, &got, text, strlen(text), pair, pair ? strlen(pair) : 0, &options));
    out[0] = 0;
    for (uint32_t i = 0; i < got.n && at < sizeof out; i++) {
        const char *token = tokenizer_token(tokenizer, got.ids[i]);
        at += (size_t)snprintf(out + at, sizeof out - at, got.sequence[i] < 0 ? "%s%s" : "%s%s[%u,%u)", i ? " " : "",
                               token, got.begin[i], got.end[i]);
    }
    assert_true(at < sizeof out);
    encoding_release(&got);
    return out;
}

#define assert_tokens(tokenizer, text, wanted)                                                                         \
    assert_string_equal(test_encode(tokenizer, text, NULL, TOKENIZER_PARSE, 0), wanted)

#endif
