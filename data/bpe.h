// SPDX-License-Identifier: Apache-2.0
// Byte-level BPE as RoBERTa and GPT-2 use it: a text is cut into words by the pre-tokenizer's rule, a word's bytes
// become tokens of one byte, and neighbouring tokens are merged, lowest rank first, leftmost first.
#ifndef FINETUNED_DATA_BPE_H
#define FINETUNED_DATA_BPE_H

#include "data/encoding.h"
#include "data/vocabulary.h"

// (left << 32 | right) -> (rank << 32 | result), open addressing; an empty slot's pair is UINT64_MAX.
struct bpe_merge {
    uint64_t pair;
    uint64_t value;
};

struct bpe {
    int32_t bytes[256];       // id of each byte's own token
    uint16_t *widths;         // [vocabulary size] bytes that a token stands for
    struct bpe_merge *merges; // [mask + 1]
    uint8_t *tags; // [mask + 1] of each slot's pair, 0 = empty: most pairs are no merge, and this fits a cache
    uint32_t mask;
    uint32_t n;            // merges
    bool add_prefix_space; // a space before each piece that doesn't begin with one
    bool trim;             // offsets leave out leading and trailing spaces
};

// Writes byte `byte` in the byte alphabet: printable Latin-1 stands for itself, the others for U+0100 and up in order,
// as in GPT-2's bytes_to_unicode. Returns the length in bytes.
unsigned bpe_alphabet(unsigned byte, char out[4]);

// Takes the 256 byte tokens and the widths from a complete vocabulary, with room for `merges` merges.
enum status bpe_init(struct bpe *bpe, const struct vocabulary *vocabulary, size_t merges);
// The next merge; rank is the order of the calls. STATUS_DATA if it names an unknown token or is there already.
enum status bpe_merge_add(struct bpe *bpe, const struct vocabulary *vocabulary, const char *left, size_t left_size,
                          const char *right, size_t right_size);
void bpe_release(struct bpe *bpe);

// The end of the word that begins at `at` < `end`, by GPT-2's rule:
// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
const char *bpe_word_end(const char *at, const char *end);

// Pushes the tokens of text[begin, end), one piece between special tokens. Valid UTF-8.
enum status bpe_encode(const struct bpe *bpe, struct encoding *out, struct encoding_scratch *scratch, const char *text,
                       size_t begin, size_t end);

#endif
