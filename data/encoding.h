// SPDX-License-Identifier: Apache-2.0
// What the tokenizers' halves share while one text is encoded: pushing tokens, and scratch memory that lives with the
// encoding.
#ifndef FINETUNED_DATA_ENCODING_H
#define FINETUNED_DATA_ENCODING_H

#include "data/normalize.h"
#include "data/tokenizer.h"

#define WORD_CACHE_SLOTS 8192u // direct-mapped, a power of two
#define WORD_CACHE_BYTES 23u   // longer words are merged anew each time
#define WORD_CACHE_IDS 9u

// A word (bytes of the pre-tokenizer) and its tokens; size 0 = empty. 64 bytes: one cache line.
struct word_cached {
    char bytes[WORD_CACHE_BYTES];
    uint8_t size;
    int32_t ids[WORD_CACHE_IDS];
    uint32_t n;
};

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
    struct word_cached cache[WORD_CACHE_SLOTS];
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

#endif
