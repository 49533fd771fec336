// SPDX-License-Identifier: Apache-2.0
// WordPiece as BERT uses it: a text is cleaned, cut at blanks, punctuation and CJK characters, and each word is covered
// greedily by the longest known pieces; a word that can't be covered is one [UNK].
#ifndef FINETUNED_DATA_WORDPIECE_H
#define FINETUNED_DATA_WORDPIECE_H

#include "data/encoding.h"
#include "data/vocabulary.h"

#define WORDPIECE_CHARACTERS_MAX 1000u // ceiling of max_input_chars_per_word
#define WORDPIECE_PREFIX "##"          // of a piece that is not a word's first

struct wordpiece {
    bool lower;          // lower case, accents removed
    bool cjk;            // CJK characters are words of their own
    uint32_t characters; // a longer word (code points) is [UNK]
    int32_t unknown;     // [UNK]
    uint32_t inner;      // the trie's node behind WORDPIECE_PREFIX, 0 = the vocabulary has no such piece
};

// Pushes the tokens of text[begin, end), one piece between special tokens. Valid UTF-8.
enum status wordpiece_encode(const struct wordpiece *wordpiece, const struct trie *trie, struct encoding *out,
                             struct encoding_scratch *scratch, const char *text, size_t begin, size_t end);

#endif
