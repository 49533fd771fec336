// SPDX-License-Identifier: Apache-2.0
// What the tokenizers' halves share while one text is encoded: pushing tokens, and scratch memory that lives with the
// encoding.
#ifndef FINETUNED_DATA_ENCODING_H
#define FINETUNED_DATA_ENCODING_H

#include "data/normalize.h"
#include "data/tokenizer.h"
#include "data/word_cache.h"

// One piece of a long word while it is merged; see bpe.c.
struct word_symbol {
    int32_t id;    // -1 once it was merged into the one before
    uint32_t size; // bytes
    uint32_t previous, next;
};

struct word_pair {
    uint64_t order; // rank << 32 | position of the left symbol
    uint64_t pair;  // left id << 32 | right id, when it was seen
};

struct encoding_scratch {
    uint64_t owner; // serial number of the tokenizer whose words are cached
    char *piece;    // a space put before a piece, and the piece
    size_t piece_room;
    struct word_symbol *symbols; // (symbols_room)
    struct word_pair *heap;      // (3 * symbols_room)
    size_t symbols_room;
    struct normalized normalized;
    struct word_cache words;
};

// The scratch memory, made at first use; the cache is emptied when another tokenizer comes.
enum status encoding_scratch(struct encoding_scratch **out, struct encoding *encoding, uint64_t owner);
enum status encoding_piece_reserve(struct encoding_scratch *scratch, size_t size);
enum status encoding_symbols_reserve(struct encoding_scratch *scratch, size_t n);

// Room for at least one more token (or for `room` tokens in all).
enum status encoding_grow(struct encoding *encoding, uint32_t room);

// Appends a token with its byte range.
static inline enum status encoding_push(struct encoding *encoding, int32_t id, uint32_t begin, uint32_t end) {
    if (encoding->n == encoding->room)
        TRY(encoding_grow(encoding, encoding->n + 1));
    encoding->ids[encoding->n] = id;
    encoding->begin[encoding->n] = begin;
    encoding->end[encoding->n] = end;
    encoding->n++;
    return STATUS_OK;
}

// Appends a cached word's tokens; the word begins at `at` of the text.
static inline enum status encoding_push_word(struct encoding *encoding, const struct word_cached *word, uint32_t at) {
    if (encoding->room - encoding->n < WORD_CACHE_IDS)
        TRY(encoding_grow(encoding, encoding->n + WORD_CACHE_IDS));
    for (uint32_t i = 0; i < word->n; i++) {
        encoding->ids[encoding->n + i] = word->ids[i];
        encoding->begin[encoding->n + i] = at + word->begins[i];
        encoding->end[encoding->n + i] = at + word->ends[i];
    }
    encoding->n += word->n;
    return STATUS_OK;
}

// Keeps the word whose tokens are those from `first` on, if it fits; it begins at `at` of the text.
void encoding_keep_word(struct encoding *encoding, struct word_cache *cache, const struct word_key *key, uint32_t first,
                        uint32_t at);

#endif
