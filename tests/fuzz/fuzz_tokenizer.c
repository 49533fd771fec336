// SPDX-License-Identifier: Apache-2.0
// Any bytes as a text, and cut in two as a pair, through byte-level BPE (without and with merges) and WordPiece,
// uncased and cased. Whatever is accepted must have ids of the vocabulary and ranges inside the text.
#include "base/text.h"
#include "data/tokenizer_parts.h"

static const char pieces[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##a\n##b\n##ab\nthe\n!\n\xc3\xa9\n##\xc3\xa9\n\xe4\xb8\xad\nI\n";
static const char merges[] =
    "#version: 0.2\na a\naa aa\nb a\nab ab\na b\n\xc4\xa0 a\n\xc4\xa0 \xc4\xa0\n\xc3\x83 \xc2\xa9\n";

static struct tokenizer *tokenizers[4];

static void must(bool ok) {
    if (!ok)
        abort();
}

// vocab.json of the bytes' alphabet and what the merges make.
static void bpe_build(struct tokenizer *tokenizer) {
    static const char *const more[] = {
        "aa",  "aaaa",  "ba",   "abab",  "ab",    "\xc4\xa0\x61", "\xc4\xa0\xc4\xa0", "\xc3\x83\xc2\xa9",
        "<s>", "<pad>", "</s>", "<unk>", "<mask>"};
    json_t *vocab = json_object();
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[5] = {0};
        bpe_alphabet(byte, text);
        json_object_set_new(vocab, text, json_integer(byte));
    }
    for (unsigned i = 0; i < sizeof more / sizeof *more; i++)
        json_object_set_new(vocab, more[i], json_integer(256 + i));
    char *text = json_dumps(vocab, 0);
    must(tokenizer_parse_bpe(tokenizer, text, strlen(text), merges, sizeof merges - 1) == STATUS_OK);
    must(tokenizer_finish(tokenizer) == STATUS_OK);
    free(text);
    json_decref(vocab);
}

static void tokenizers_build(void) {
    must(tokenizer_open_bytes(&tokenizers[0]) == STATUS_OK);
    for (int i = 1; i < 4; i++)
        must(tokenizer_init(&tokenizers[i]) == STATUS_OK);
    bpe_build(tokenizers[1]);
    for (int i = 2; i < 4; i++) {
        must(tokenizer_parse_wordpiece(tokenizers[i], pieces, sizeof pieces - 1) == STATUS_OK);
        tokenizers[i]->wordpiece.lower = i == 2;
        must(tokenizer_finish(tokenizers[i]) == STATUS_OK);
    }
}

static void encoding_check(const struct tokenizer *tokenizer, const struct encoding *got, size_t size, size_t pair_size,
                           uint32_t max) {
    must(got->n >= 2 && got->n <= got->full && (!max || got->n <= max));
    for (uint32_t i = 0; i < got->n; i++) {
        must(tokenizer_token(tokenizer, got->ids[i]) != NULL);
        must(got->begin[i] <= got->end[i] && got->end[i] <= (got->sequence[i] == 1 ? pair_size : size));
    }
}

// The byte vocabulary loses nothing: a token a byte.
static void bytes_check(const struct encoding *got, const char *text, size_t size) {
    must(got->n == size + 2);
    for (size_t i = 0; i < size; i++)
        must(got->ids[i + 1] == 4 + (unsigned char)text[i]);
}

// Words that were met in earlier inputs have the tokens that they have when they are met first.
static void warm_check(const struct encoding *got, const struct encoding *warm) {
    must(got->n == warm->n);
    must(!memcmp(got->ids, warm->ids, got->n * sizeof *got->ids));
    must(!memcmp(got->begin, warm->begin, got->n * sizeof *got->begin));
    must(!memcmp(got->end, warm->end, got->n * sizeof *got->end));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct encoding got, warm[4]; // one shared by all, emptied with each tokenizer, and one each
    const char *text = (const char *)data;
    if (!tokenizers[0])
        tokenizers_build();
    size_t half = size / 2;
    bool valid = utf8_check(text, size) == size;
    for (int i = 0; i < 32; i++) {
        struct tokenizer *tokenizer = tokenizers[i / 8];
        struct tokenizer_options options = {.special = i & 1 ? TOKENIZER_PARSE : TOKENIZER_LITERAL,
                                            .max_length = i & 2 && size ? data[0] : 0,
                                            .normalize = i & 4 ? NORMALIZE_TWEET : NORMALIZE_NONE};
        tokenizer_set_prefix_space(tokenizer, i & 2);
        enum status status = tokenizer_encode(tokenizer, &got, text, size, NULL, 0, &options);
        must(status == STATUS_OK || status == STATUS_DATA || status == STATUS_USAGE);
        must(valid || status != STATUS_OK);
        if (status == STATUS_OK) {
            encoding_check(tokenizer, &got, size, 0, options.max_length);
            must(tokenizer_encode(tokenizer, &warm[i / 8], text, size, NULL, 0, &options) == STATUS_OK);
            warm_check(&got, &warm[i / 8]);
        }
        if (status == STATUS_OK && i == 0)
            bytes_check(&got, text, size);
        if (tokenizer_encode(tokenizer, &got, text, half, text + half, size - half, &options) == STATUS_OK)
            encoding_check(tokenizer, &got, half, size - half, options.max_length);
    }
    return 0;
}
