// SPDX-License-Identifier: Apache-2.0
#include "data/encoding.h"

#include <stdlib.h>
#include <string.h>

static enum status no_memory(size_t size) {
    return status_set(STATUS_SYSTEM, "tokenizer: no memory for %zu bytes of one text's tokens", size);
}

void encoding_release(struct encoding *encoding) {
    struct encoding_scratch *scratch = encoding->scratch;
    if (scratch) {
        free(scratch->piece);
        free(scratch->symbols);
        free(scratch->heap);
        normalized_release(&scratch->normalized);
        free(scratch);
    }
    free(encoding->ids);
    free(encoding->types);
    free(encoding->sequence);
    free(encoding->begin);
    free(encoding->end);
    *encoding = (struct encoding){0};
}

// realloc that leaves *array alone if it fails.
static enum status array_resize(void *array, size_t n, size_t size) {
    void *old, *new;
    memcpy(&old, array, sizeof old);
    new = realloc(old, n * size);
    if (!new)
        return no_memory(n * size);
    memcpy(array, &new, sizeof new);
    return STATUS_OK;
}

enum status encoding_grow(struct encoding *encoding, uint32_t wanted) {
    uint32_t room = encoding->room ? encoding->room : 64;
    while (room < wanted) {
        if (room > UINT32_MAX / 2)
            return status_set(STATUS_DATA, "tokenizer: a text of more than %u tokens", UINT32_MAX / 2);
        room *= 2;
    }
    TRY(array_resize(&encoding->ids, room, sizeof *encoding->ids));
    TRY(array_resize(&encoding->types, room, sizeof *encoding->types));
    TRY(array_resize(&encoding->sequence, room, sizeof *encoding->sequence));
    TRY(array_resize(&encoding->begin, room, sizeof *encoding->begin));
    TRY(array_resize(&encoding->end, room, sizeof *encoding->end));
    encoding->room = room;
    return STATUS_OK;
}

enum status encoding_scratch(struct encoding_scratch **out, struct encoding *encoding, uint64_t owner) {
    struct encoding_scratch *scratch = encoding->scratch;
    if (!scratch) {
        scratch = calloc(1, sizeof *scratch);
        if (!scratch)
            return no_memory(sizeof *scratch);
        scratch->owner = owner;
        encoding->scratch = scratch;
    }
    if (scratch->owner != owner) {
        memset(&scratch->words, 0, sizeof scratch->words);
        scratch->owner = owner;
    }
    *out = scratch;
    return STATUS_OK;
}

enum status encoding_piece_reserve(struct encoding_scratch *scratch, size_t size) {
    if (size <= scratch->piece_room)
        return STATUS_OK;
    TRY(array_resize(&scratch->piece, size * 2, 1));
    scratch->piece_room = size * 2;
    return STATUS_OK;
}

enum status encoding_symbols_reserve(struct encoding_scratch *scratch, size_t n) {
    if (n <= scratch->symbols_room)
        return STATUS_OK;
    TRY(array_resize(&scratch->symbols, n, sizeof *scratch->symbols));
    TRY(array_resize(&scratch->heap, 3 * n, sizeof *scratch->heap));
    scratch->symbols_room = n;
    return STATUS_OK;
}

void encoding_keep_word(struct encoding *encoding, struct word_cache *cache, const struct word_key *key, uint32_t first,
                        uint32_t at) {
    uint32_t n = encoding->n - first;
    if (n > WORD_CACHE_IDS)
        return;
    struct word_cached *word = word_put(cache, key);
    word->n = (uint8_t)n;
    for (uint32_t i = 0; i < n; i++) {
        word->ids[i] = encoding->ids[first + i];
        word->begins[i] = (uint8_t)(encoding->begin[first + i] - at);
        word->ends[i] = (uint8_t)(encoding->end[first + i] - at);
    }
}
