// SPDX-License-Identifier: Apache-2.0
#include "data/bpe.h"

#include "base/text.h"
#include "data/unicode.h"

#include <stdlib.h>
#include <string.h>

#define WORD_SHORT 64u // bytes; shorter words are merged by scanning, longer ones with a heap
#define NO_MERGE UINT64_MAX

unsigned bpe_alphabet(unsigned byte, char out[4]) {
    unsigned code = 0x100;
    for (unsigned b = 0; b <= byte; b++) {
        bool itself = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        if (b == byte)
            return utf8_encode(itself ? b : code, out);
        code += !itself;
    }
    return 0;
}

static enum status bytes_find(struct bpe *bpe, const struct vocabulary *vocabulary) {
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[4];
        unsigned size = bpe_alphabet(byte, text);
        bpe->bytes[byte] = vocabulary_find(vocabulary, text, size);
        if (bpe->bytes[byte] < 0)
            return status_set(STATUS_DATA, "no token for byte 0x%02x (\"%.*s\"): not a byte-level BPE vocabulary", byte,
                              (int)size, text);
    }
    return STATUS_OK;
}

enum status bpe_init(struct bpe *bpe, const struct vocabulary *vocabulary, size_t merges) {
    *bpe = (struct bpe){.trim = true};
    if (merges > VOCABULARY_MAX)
        return status_set(STATUS_DATA, "%zu merges, at most %u", merges, VOCABULARY_MAX);
    TRY(bytes_find(bpe, vocabulary));
    size_t slots = 16;
    while (slots < merges * 2 + 2)
        slots *= 2;
    bpe->merges = malloc(slots * sizeof *bpe->merges);
    bpe->tags = calloc(slots, sizeof *bpe->tags);
    bpe->widths = calloc(vocabulary->size, sizeof *bpe->widths);
    if (!bpe->merges || !bpe->tags || !bpe->widths)
        return status_set(STATUS_SYSTEM, "tokenizer: no memory for %zu merges", merges);
    memset(bpe->merges, 0xff, slots * sizeof *bpe->merges);
    bpe->mask = (uint32_t)slots - 1;
    for (uint32_t id = 0; id < vocabulary->size; id++) {
        const char *text = vocabulary_text(vocabulary, id);
        for (; text && *text; text++)
            bpe->widths[id] += !unicode_is_inside(*text);
    }
    return STATUS_OK;
}

void bpe_release(struct bpe *bpe) {
    free(bpe->merges);
    free(bpe->tags);
    free(bpe->widths);
    *bpe = (struct bpe){0};
}

static uint64_t pair_of(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static uint64_t pair_hash(uint64_t pair) {
    return pair * UINT64_C(0x9e3779b97f4a7c15);
}

static uint8_t pair_tag(uint64_t hash) {
    uint8_t tag = (uint8_t)(hash >> 24);
    return tag ? tag : 1;
}

// The slot of the pair, or the empty one where it would be.
static uint32_t merge_slot(const struct bpe *bpe, uint64_t pair) {
    const uint64_t hash = pair_hash(pair);
    const uint8_t tag = pair_tag(hash);
    uint32_t at = (uint32_t)(hash >> 32) & bpe->mask;
    while (bpe->tags[at] && (bpe->tags[at] != tag || bpe->merges[at].pair != pair))
        at = (at + 1) & bpe->mask;
    return at;
}

// rank << 32 | result, or NO_MERGE: the smallest is merged first.
static inline uint64_t merge_find(const struct bpe *bpe, int32_t left, int32_t right) {
    const uint32_t at = merge_slot(bpe, pair_of(left, right));
    return bpe->tags[at] ? bpe->merges[at].value : NO_MERGE;
}

enum status bpe_merge_add(struct bpe *bpe, const struct vocabulary *vocabulary, const char *left, size_t left_size,
                          const char *right, size_t right_size) {
    char whole[2 * VOCABULARY_TOKEN_MAX];
    int32_t a = vocabulary_find(vocabulary, left, left_size);
    int32_t b = vocabulary_find(vocabulary, right, right_size);
    if (a < 0 || b < 0)
        return status_set(STATUS_DATA, "the merge \"%s %s\" names \"%s\", which the vocabulary lacks",
                          vocabulary_quote(left, left_size), vocabulary_quote(right, right_size),
                          a < 0 ? vocabulary_quote(left, left_size) : vocabulary_quote(right, right_size));
    memcpy(whole, left, left_size);
    memcpy(whole + left_size, right, right_size);
    int32_t result = vocabulary_find(vocabulary, whole, left_size + right_size);
    if (result < 0)
        return status_set(STATUS_DATA, "the merge \"%s %s\" makes a token that the vocabulary lacks",
                          vocabulary_quote(left, left_size), vocabulary_quote(right, right_size));
    if (bpe->n >= bpe->mask / 2)
        return status_set(STATUS_ARGUMENT, "tokenizer: more merges than announced");
    const uint32_t slot = merge_slot(bpe, pair_of(a, b));
    if (bpe->tags[slot])
        return status_set(STATUS_DATA, "the merge \"%s %s\" is there twice", vocabulary_quote(left, left_size),
                          vocabulary_quote(right, right_size));
    bpe->merges[slot] = (struct bpe_merge){pair_of(a, b), (uint64_t)bpe->n << 32 | (uint32_t)result};
    bpe->tags[slot] = pair_tag(pair_hash(pair_of(a, b)));
    bpe->n++;
    return STATUS_OK;
}

#define CLASSES (UNICODE_LETTER | UNICODE_NUMBER | UNICODE_SPACE)

static unsigned class_at(const char *at, unsigned *size) {
    uint32_t code;
    *size = unicode_next(at, &code);
    return unicode_flags(code) & CLASSES;
}

// The end of the run of `class` from `at`; `last` is where its last code point begins.
static const char *run_end(const char *at, const char *end, unsigned class, const char **last) {
    unsigned size;
    *last = at;
    for (;;) {
        while (at < end && (unsigned char)*at < 0x80 && (unicode_ascii_flags(*at) & CLASSES) == class)
            *last = at++;
        if (at == end || (unsigned char)*at < 0x80 || class_at(at, &size) != class)
            return at;
        *last = at;
        at += size;
    }
}

// Bytes of a contraction at an apostrophe, or 0.
static unsigned contraction_size(const char *at, const char *end) {
    size_t left = (size_t)(end - at);
    if (left >= 2 && (at[1] == 's' || at[1] == 't' || at[1] == 'm' || at[1] == 'd'))
        return 2;
    if (left >= 3 && (!memcmp(at + 1, "re", 2) || !memcmp(at + 1, "ve", 2) || !memcmp(at + 1, "ll", 2)))
        return 3;
    return 0;
}

const char *bpe_word_end(const char *at, const char *end) {
    const char *last;
    unsigned size;
    if (*at == '\'' && contraction_size(at, end))
        return at + contraction_size(at, end);
    const char *begin = *at == ' ' && at + 1 < end ? at + 1 : at;
    unsigned class = class_at(begin, &size);
    if (class != UNICODE_SPACE)
        return run_end(begin, end, class, &last);
    const char *run = run_end(at, end, UNICODE_SPACE, &last);
    return run == end || last == at ? run : last; // the run's last space goes to the word behind it
}

// Merges n <= WORD_SHORT tokens in place; returns how many are left.
static unsigned short_merge(const struct bpe *bpe, int32_t *ids, unsigned n) {
    uint64_t merges[WORD_SHORT];
    for (unsigned i = 0; i + 1 < n; i++)
        merges[i] = merge_find(bpe, ids[i], ids[i + 1]);
    while (n > 1) {
        unsigned best = 0;
        for (unsigned i = 1; i + 1 < n; i++)
            if (merges[i] < merges[best])
                best = i;
        if (merges[best] == NO_MERGE)
            break;
        ids[best] = (int32_t)(uint32_t)merges[best];
        n--;
        memmove(ids + best + 1, ids + best + 2, (n - best - 1) * sizeof *ids);
        memmove(merges + best, merges + best + 1, (n - best - 1) * sizeof *merges);
        if (best > 0)
            merges[best - 1] = merge_find(bpe, ids[best - 1], ids[best]);
        if (best + 1 < n)
            merges[best] = merge_find(bpe, ids[best], ids[best + 1]);
    }
    return n;
}

static void heap_push(struct word_pair *heap, size_t *n, struct word_pair pair) {
    size_t at = (*n)++;
    for (; at && heap[(at - 1) / 2].order > pair.order; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = pair;
}

static struct word_pair heap_pop(struct word_pair *heap, size_t *n) {
    struct word_pair top = heap[0], moved = heap[--*n];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < *n; at = child) {
        if (child + 1 < *n && heap[child + 1].order < heap[child].order)
            child++;
        if (moved.order <= heap[child].order)
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
    return top;
}

static void pair_offer(const struct bpe *bpe, struct encoding_scratch *scratch, size_t *n, uint32_t left) {
    struct word_symbol *a = &scratch->symbols[left];
    if (a->next == UINT32_MAX)
        return;
    int32_t b = scratch->symbols[a->next].id;
    uint64_t merge = merge_find(bpe, a->id, b);
    if (merge != NO_MERGE)
        heap_push(scratch->heap, n, (struct word_pair){(merge >> 32) << 32 | left, pair_of(a->id, b)});
}

static void symbol_merge(const struct bpe *bpe, struct encoding_scratch *scratch, size_t *pairs, uint32_t at) {
    struct word_symbol *symbols = scratch->symbols, *left = &symbols[at], *right = &symbols[left->next];
    left->id = (int32_t)(uint32_t)merge_find(bpe, left->id, right->id);
    left->size += right->size;
    left->next = right->next;
    right->id = -1;
    if (left->next != UINT32_MAX)
        symbols[left->next].previous = at;
    if (left->previous != UINT32_MAX)
        pair_offer(bpe, scratch, pairs, left->previous);
    pair_offer(bpe, scratch, pairs, at);
}

// The same merges for a long word in O(n log n): a heap of candidate pairs, of which those that no longer stand are
// dropped. A merge takes one pair out and offers two, so 3n places are enough. Symbol 0 stays the first.
static enum status long_merge(const struct bpe *bpe, struct encoding_scratch *scratch, const char *word, size_t size) {
    TRY(encoding_symbols_reserve(scratch, size));
    struct word_symbol *symbols = scratch->symbols;
    size_t pairs = 0;
    for (size_t i = 0; i < size; i++)
        symbols[i] = (struct word_symbol){bpe->bytes[(unsigned char)word[i]], 1, i ? (uint32_t)i - 1 : UINT32_MAX,
                                          i + 1 < size ? (uint32_t)i + 1 : UINT32_MAX};
    for (size_t i = 0; i < size; i++)
        pair_offer(bpe, scratch, &pairs, (uint32_t)i);
    while (pairs) {
        struct word_pair pair = heap_pop(scratch->heap, &pairs);
        uint32_t at = (uint32_t)pair.order;
        if (symbols[at].id >= 0 && symbols[at].next != UINT32_MAX &&
            pair_of(symbols[at].id, symbols[symbols[at].next].id) == pair.pair)
            symbol_merge(bpe, scratch, &pairs, at);
    }
    return STATUS_OK;
}

// A piece while it is cut: `prefixed` if bytes[0] is a space that the text doesn't have.
struct piece {
    const char *bytes;
    size_t size;
    size_t origin; // offset in the text of bytes[prefixed]
    bool prefixed;
};

static size_t spaces_leading(const char *at, size_t n) {
    size_t i = 0;
    while (i < n && at[i] == ' ')
        i++;
    return i;
}

static size_t spaces_trailing(const char *at, size_t n) {
    size_t i = 0;
    while (i < n && at[n - 1 - i] == ' ')
        i++;
    return i;
}

// Pushes the token of bytes [at, at + width) with its range in the text: whole characters, without its spaces (but with
// the one that add_prefix_space might have put there, as the library has it).
static enum status token_push(const struct bpe *bpe, struct encoding *out, const struct piece *piece, int32_t id,
                              size_t at, size_t width) {
    const char *bytes = piece->bytes;
    size_t begin = at, end = at + width;
    size_t leading = bpe->trim ? spaces_leading(bytes + at, width) : 0;
    size_t trailing = bpe->trim ? spaces_trailing(bytes + at, width) : 0;
    while (begin && unicode_is_inside(bytes[begin]))
        begin--;
    if (piece->prefixed && begin == 0) {
        begin = 1;
        if (end == 1)
            end += !trailing && piece->size > 1;
        if (end == 1)
            trailing = 0;
    }
    while (end < piece->size && unicode_is_inside(bytes[end]))
        end++;
    begin += piece->origin - piece->prefixed;
    end += piece->origin - piece->prefixed;
    if (leading && bpe->add_prefix_space && (begin == 0 || (piece->prefixed && at == 0)))
        leading--;
    begin = begin + leading < end ? begin + leading : end;
    end = end >= trailing + begin ? end - trailing : begin;
    return encoding_push(out, id, (uint32_t)begin, (uint32_t)end);
}

static enum status ids_push(const struct bpe *bpe, struct encoding *out, const struct piece *piece, size_t at,
                            const int32_t *ids, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        TRY(token_push(bpe, out, piece, ids[i], at, bpe->widths[ids[i]]));
        at += bpe->widths[ids[i]];
    }
    return STATUS_OK;
}

static enum status long_push(const struct bpe *bpe, struct encoding *out, struct encoding_scratch *scratch,
                             const struct piece *piece, size_t at, size_t size) {
    TRY(long_merge(bpe, scratch, piece->bytes + at, size));
    for (uint32_t i = 0; i != UINT32_MAX; i = scratch->symbols[i].next) {
        TRY(token_push(bpe, out, piece, scratch->symbols[i].id, at, scratch->symbols[i].size));
        at += scratch->symbols[i].size;
    }
    return STATUS_OK;
}

// A word's tokens and ranges depend on its bytes alone, but for a piece's first word where a space may be put before
// it.
static enum status word_push(const struct bpe *bpe, struct encoding *out, struct encoding_scratch *scratch,
                             const struct piece *piece, size_t at, size_t size) {
    const char *word = piece->bytes + at;
    bool cached = size <= WORD_CACHE_BYTES && (at > 0 || !bpe->add_prefix_space);
    uint32_t begin = (uint32_t)(at + piece->origin - piece->prefixed), first = out->n;
    struct word_key key;
    if (cached) {
        key = word_key(word, size, piece->size - at);
        const struct word_cached *known = word_find(&scratch->words, &key);
        if (known)
            return encoding_push_word(out, known, begin);
    }
    if (size > WORD_SHORT)
        return long_push(bpe, out, scratch, piece, at, size);
    int32_t ids[WORD_SHORT];
    for (size_t i = 0; i < size; i++)
        ids[i] = bpe->bytes[(unsigned char)word[i]];
    TRY(ids_push(bpe, out, piece, at, ids, short_merge(bpe, ids, (unsigned)size)));
    if (cached)
        encoding_keep_word(out, &scratch->words, &key, first, begin);
    return STATUS_OK;
}

enum status bpe_encode(const struct bpe *bpe, struct encoding *out, struct encoding_scratch *scratch, const char *text,
                       size_t begin, size_t end) {
    struct piece piece = {text + begin, end - begin, begin, false};
    if (begin == end)
        return STATUS_OK;
    if (bpe->add_prefix_space && text[begin] != ' ') {
        TRY(encoding_piece_reserve(scratch, piece.size + 1));
        scratch->piece[0] = ' ';
        memcpy(scratch->piece + 1, text + begin, piece.size);
        piece = (struct piece){scratch->piece, piece.size + 1, begin, true};
    }
    for (size_t at = 0; at < piece.size;) {
        size_t next = (size_t)(bpe_word_end(piece.bytes + at, piece.bytes + piece.size) - piece.bytes);
        TRY(word_push(bpe, out, scratch, &piece, at, next - at));
        at = next;
    }
    return STATUS_OK;
}
