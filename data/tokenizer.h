// SPDX-License-Identifier: Apache-2.0
// Tokenizers that give Hugging Face's ids: byte-level BPE (RoBERTa) and WordPiece (BERT).
// Read once, then shared by threads: tokenizer_encode only reads the tokenizer.
#ifndef FINETUNED_DATA_TOKENIZER_H
#define FINETUNED_DATA_TOKENIZER_H

#include "base/hash.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tokenizer_kind { TOKENIZER_BPE, TOKENIZER_WORDPIECE };

// What user text may do: LITERAL, "<s>" in a text is ordinary text; PARSE, it becomes the special token.
enum tokenizer_special { TOKENIZER_LITERAL, TOKENIZER_PARSE };

// data.normalize, before tokenising: NONE, or TWEET (data/normalize.h).
enum tokenizer_normalize { NORMALIZE_NONE, NORMALIZE_TWEET };

struct tokenizer;

struct tokenizer_info {
    enum tokenizer_kind kind;
    uint32_t vocab_size;   // highest id + 1
    int32_t bos, eos, pad; // <s> </s> <pad>, or [CLS] [SEP] [PAD]
    int32_t unk, mask;     // -1 where there is none
    bool lower_case;       // WordPiece: uncased
    bool add_prefix_space; // BPE: from tokenizer_config.json or tokenizer.json, default false
};

// Opens the tokenizer of a model directory: tokenizer.json, or vocab.json + merges.txt, or vocab.txt; with
// tokenizer_config.json (do_lower_case, add_prefix_space, strip_accents, …) where it is there. STATUS_DATA if unusable,
// naming the file.
enum status tokenizer_open(struct tokenizer **out, const char *folder);

// The built-in vocabulary of bytes, for random: models: byte-level BPE without merges (5 special tokens and 256 bytes).
enum status tokenizer_open_bytes(struct tokenizer **out);

void tokenizer_close(struct tokenizer *tokenizer);
struct tokenizer_info tokenizer_info(const struct tokenizer *tokenizer);
// Overrides add_prefix_space (golden tests).
void tokenizer_set_prefix_space(struct tokenizer *tokenizer, bool on);
// Adds all that decides about ids (kind, vocabulary, merges, flags) to a hash.
void tokenizer_hash(const struct tokenizer *tokenizer, struct hash_stream *hash);
// The token's text as in the vocabulary (BPE: in the byte alphabet), NULL for an id without one. Borrowed.
const char *tokenizer_token(const struct tokenizer *tokenizer, int32_t id);
// Writes the tokenizer's files into a model directory so that Transformers and we read the same tokenizer there: those
// it was opened from, byte for byte, and tokenizer_config.json, special_tokens_map.json (written by us if they were not
// there). For the built-in vocabulary: vocab.json, merges.txt, tokenizer_config.json, special_tokens_map.json.
enum status tokenizer_save(const struct tokenizer *tokenizer, const char *folder, unsigned model_max_length);

// One text's (or pair's) tokens; buffers grow and are reused from call to call.
struct encoding {
    int32_t *ids;     // [n]
    uint8_t *types;   // [n] token_type_ids: 1 for the second text of WordPiece pairs and its [SEP], else 0
    int8_t *sequence; // [n] -1 outer special token, 0 text, 1 pair
    uint32_t *begin;  // [n] byte offsets into text or pair, [begin, end)
    uint32_t *end;    // [n]
    uint32_t n;       // tokens, special ones included
    uint32_t full;    // what n would be without truncation
    uint32_t room;    // capacity
    void *scratch;    // the tokenizer's own
};
void encoding_release(struct encoding *encoding);

struct tokenizer_options {
    enum tokenizer_special special;
    uint32_t
        max_length; // total, special tokens included; 0 = no truncation. Right side, longest first (golden/README.md).
    enum tokenizer_normalize normalize;
};

// `pair` NULL: one text. Texts are valid UTF-8 and may hold NUL; invalid UTF-8 is STATUS_DATA with the byte's offset.
// max_length too small for the special tokens: STATUS_USAGE. Same bytes, same options: same ids, on any thread.
enum status tokenizer_encode(const struct tokenizer *tokenizer, struct encoding *out, const char *text,
                             size_t text_size, const char *pair, size_t pair_size,
                             const struct tokenizer_options *options);

#endif
