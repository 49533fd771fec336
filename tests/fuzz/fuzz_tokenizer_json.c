// SPDX-License-Identifier: Apache-2.0
// A tokenizer's files as pure functions of bytes. The first byte says which: '{' a tokenizer.json, 'v' a vocab.txt,
// 'm' a vocab.json, a NUL, and a merges.txt; for a WordPiece vocabulary 'c' a tokenizer_config.json or
// special_tokens_map.json, 'a' an added_tokens.json; 'b' the former for byte-level BPE. What is accepted is tried on a
// text.
#include "data/tokenizer_parts.h"

static enum status bpe_parse(struct tokenizer *tokenizer, const char *bytes, size_t size) {
    const char *cut = memchr(bytes, 0, size);
    size_t first = cut ? (size_t)(cut - bytes) : size, rest = cut ? first + 1 : size;
    return tokenizer_parse_bpe(tokenizer, bytes, first, bytes + rest, size - rest);
}

static enum status config_parse(struct tokenizer *tokenizer, const char *bytes, size_t size, bool added) {
    static const char vocab[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\n";
    bool decoder = false;
    TRY(tokenizer_parse_wordpiece(tokenizer, vocab, sizeof vocab - 1));
    return added ? tokenizer_check_added(tokenizer, bytes, size)
                 : tokenizer_parse_config(tokenizer, bytes, size, &decoder);
}

static enum status config_parse_bpe(struct tokenizer *tokenizer, const char *bytes, size_t size) {
    json_t *vocab =
        json_pack("{s:i, s:i, s:i, s:i, s:i}", "<s>", 256, "<pad>", 257, "</s>", 258, "<unk>", 259, "<mask>", 260);
    bool decoder = false;
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[5] = {0};
        bpe_alphabet(byte, text);
        json_object_set_new(vocab, text, json_integer(byte));
    }
    char *text = json_dumps(vocab, 0);
    enum status status = tokenizer_parse_bpe(tokenizer, text, strlen(text), "", 0);
    free(text);
    json_decref(vocab);
    return status == STATUS_OK ? tokenizer_parse_config(tokenizer, bytes, size, &decoder) : status;
}

static enum status any_parse(struct tokenizer *tokenizer, const char *bytes, size_t size) {
    switch (size ? bytes[0] : 0) {
    case 'v':
        return tokenizer_parse_wordpiece(tokenizer, bytes + 1, size - 1);
    case 'c':
    case 'a':
        return config_parse(tokenizer, bytes + 1, size - 1, *bytes == 'a');
    case 'b':
        return config_parse_bpe(tokenizer, bytes + 1, size - 1);
    case 'm':
        return bpe_parse(tokenizer, bytes + 1, size - 1);
    default:
        return tokenizer_parse_json(tokenizer, bytes, size);
    }
}

static void text_try(const struct tokenizer *tokenizer) {
    static const char text[] = "ab a <mask> [MASK]\xc3\xa9 aabb \xe4\xb8\xad"
                               "a's  b";
    struct encoding got = {0};
    for (int i = 0; i < 2; i++) {
        struct tokenizer_options options = {.special = i ? TOKENIZER_PARSE : TOKENIZER_LITERAL, .max_length = 0};
        if (tokenizer_encode(tokenizer, &got, text, sizeof text - 1, text, 2, &options) != STATUS_OK)
            abort();
        for (uint32_t k = 0; k < got.n; k++)
            if (!tokenizer_token(tokenizer, got.ids[k]))
                abort();
    }
    encoding_release(&got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tokenizer *tokenizer;
    if (tokenizer_init(&tokenizer) != STATUS_OK)
        return 0;
    enum status status = any_parse(tokenizer, (const char *)data, size);
    if (status == STATUS_OK)
        status = tokenizer_finish(tokenizer);
    if (status == STATUS_OK)
        text_try(tokenizer);
    else if (status != STATUS_DATA && status != STATUS_SYSTEM)
        abort();
    tokenizer_close(tokenizer);
    return 0;
}
