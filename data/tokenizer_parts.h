// SPDX-License-Identifier: Apache-2.0
// The inside of a tokenizer: what its files fill (tokenizer_files.c, tokenizer_json.c) and its two halves read.
#ifndef FINETUNED_DATA_TOKENIZER_PARTS_H
#define FINETUNED_DATA_TOKENIZER_PARTS_H

#include "data/bpe.h"
#include "data/special.h"
#include "data/tokenizer.h"
#include "data/vocabulary.h"
#include "data/wordpiece.h"

#include <jansson.h>

// The tokens that have a part to play, by their names in Transformers' files.
enum tokenizer_role { ROLE_CLS, ROLE_SEP, ROLE_PAD, ROLE_UNK, ROLE_MASK, ROLES };
extern const char *const tokenizer_role_keys[ROLES];                                    // "cls_token", …
const char *tokenizer_role_default(enum tokenizer_kind kind, enum tokenizer_role role); // "<s>", "[CLS]", …

// A file that the tokenizer was opened with, kept for tokenizer_save.
enum tokenizer_file_name {
    FILE_TOKENIZER_JSON,
    FILE_VOCAB_JSON,
    FILE_MERGES,
    FILE_VOCAB_TXT,
    FILE_CONFIG,
    FILE_SPECIAL_MAP,
    FILE_ADDED_TOKENS,
    TOKENIZER_FILES
};
extern const char *const tokenizer_file_names[TOKENIZER_FILES];

struct tokenizer_file {
    char *bytes; // NULL = not there
    size_t size;
};

struct tokenizer {
    enum tokenizer_kind kind;
    bool from_json;  // tokenizer.json said what is what
    uint64_t serial; // tells tokenizers apart in an encoding's word cache
    struct vocabulary vocabulary;
    struct bpe bpe;
    struct wordpiece wordpiece;
    struct specials specials;
    char *names[ROLES]; // malloc'ed, NULL = the default
    int32_t roles[ROLES];
    struct tokenizer_file files[TOKENIZER_FILES];
};

enum status tokenizer_init(struct tokenizer **out);

// The id of a token of the vocabulary or an added one, or -1.
int32_t tokenizer_find(const struct tokenizer *tokenizer, const char *text, size_t size);

// Sets the text that plays a role.
enum status tokenizer_name(struct tokenizer *tokenizer, enum tokenizer_role role, const char *text);

// Reads a whole tokenizer.json (a pure function of its bytes), up to what tokenizer_config.json may change.
enum status tokenizer_parse_json(struct tokenizer *tokenizer, const char *bytes, size_t size);
// Reads vocab.json, merges.txt, vocab.txt.
enum status tokenizer_parse_bpe(struct tokenizer *tokenizer, const char *vocab, size_t vocab_size, const char *merges,
                                size_t merges_size);
enum status tokenizer_parse_wordpiece(struct tokenizer *tokenizer, const char *vocab, size_t size);
// Reads tokenizer_config.json or special_tokens_map.json: what they name wins over tokenizer.json, as in Transformers.
// `decoder`: set if it held added_tokens_decoder.
enum status tokenizer_parse_config(struct tokenizer *tokenizer, const char *bytes, size_t size, bool *decoder);

// Checks added_tokens.json against what is known by now.
enum status tokenizer_check_added(const struct tokenizer *tokenizer, const char *bytes, size_t size);

// After all files: finds the special tokens, checks that what must be there is.
enum status tokenizer_finish(struct tokenizer *tokenizer);

// JSON as these files have it: one value, no duplicate keys. The message says line and column. `flags`: further ones of
// jansson.
enum status tokenizer_json_load(json_t **out, const char *bytes, size_t size, size_t flags);
// Tokens from an object {"text": id, …}.
enum status tokenizer_parse_vocab_json(struct tokenizer *tokenizer, json_t *vocab);
// An added token from an object with content, lstrip, rstrip, single_word, normalized, special (missing:
// `otherwise`'s).
enum status tokenizer_added(struct tokenizer *tokenizer, json_t *object, int64_t id, const struct special *otherwise);

#endif
