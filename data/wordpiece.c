// SPDX-License-Identifier: Apache-2.0
#include "data/wordpiece.h"

#include "base/text.h"
#include "data/unicode.h"

// The word that is being read, after cleaning and lower case. Only the first `characters` code points are kept (more is
// [UNK] anyway), but `n` counts all of them.
struct word {
    uint32_t n;     // code points
    uint32_t size;  // bytes
    uint32_t begin; // the text's bytes that it covers
    uint32_t end;
    char bytes[4 * WORDPIECE_CHARACTERS_MAX];
    uint32_t begins[4 * WORDPIECE_CHARACTERS_MAX]; // by byte of the word: where its code point's source begins
    uint32_t ends[4 * WORDPIECE_CHARACTERS_MAX];   // and ends in the text
};

static void word_add(struct word *word, uint32_t characters, uint32_t code, uint32_t begin, uint32_t end) {
    if (!word->n)
        word->begin = begin;
    word->end = end;
    if (word->n++ >= characters)
        return;
    unsigned size = 1;
    if (code < 0x80)
        word->bytes[word->size] = (char)code;
    else
        size = utf8_encode(code, word->bytes + word->size);
    for (unsigned i = 0; i < size; i++) {
        word->begins[word->size + i] = begin;
        word->ends[word->size + i] = end;
    }
    word->size += size;
}

// The longest piece from byte `at`; returns its end, or `at` if there is none.
static uint32_t piece_find(const struct wordpiece *wordpiece, const struct trie *trie, const struct word *word,
                           uint32_t at, int32_t *id) {
    uint32_t node = at ? wordpiece->inner : 0, best = at;
    if (at && !node)
        return at;
    for (uint32_t i = at; i < word->size; i++) {
        node = trie_step(trie, node, (unsigned char)word->bytes[i]);
        if (!node)
            break;
        if (trie->ids[node] >= 0) {
            *id = trie->ids[node];
            best = i + 1;
        }
    }
    return best;
}

// Pushes the word's tokens and empties it.
static enum status word_flush(const struct wordpiece *wordpiece, const struct trie *trie, struct encoding *out,
                              struct word *word) {
    uint32_t first = out->n, at = 0, size = word->size;
    bool known = word->n <= wordpiece->characters;
    if (!word->n)
        return STATUS_OK;
    while (known && at < size) {
        int32_t id = -1;
        uint32_t end = piece_find(wordpiece, trie, word, at, &id);
        known = end > at;
        if (known)
            TRY(encoding_push(out, id, word->begins[at], word->ends[end - 1]));
        at = end;
    }
    word->n = word->size = 0;
    if (known)
        return STATUS_OK;
    out->n = first;
    return encoding_push(out, wordpiece->unknown, word->begin, word->end);
}

// A code point that is a word of its own.
static enum status word_alone(const struct wordpiece *wordpiece, const struct trie *trie, struct encoding *out,
                              struct word *word, uint32_t code, uint32_t begin, uint32_t end) {
    TRY(word_flush(wordpiece, trie, out, word));
    word_add(word, wordpiece->characters, code, begin, end);
    return word_flush(wordpiece, trie, out, word);
}

enum status wordpiece_encode(const struct wordpiece *wordpiece, const struct trie *trie, struct encoding *out,
                             const char *text, size_t begin, size_t end) {
    unsigned removed = UNICODE_CONTROL | (wordpiece->lower ? UNICODE_MARK : 0);
    unsigned alone = wordpiece->cjk ? UNICODE_CJK : 0;
    struct word word;
    word.n = word.size = word.begin = word.end = 0;
    for (size_t at = begin, next; at < end; at = next) {
        uint32_t code, codes[3];
        next = at + unicode_next(text + at, &code);
        unsigned flags = unicode_flags(code), n = 1;
        if (flags & removed)
            continue;
        if (flags & UNICODE_BLANK) {
            TRY(word_flush(wordpiece, trie, out, &word));
            continue;
        }
        codes[0] = code;
        if (wordpiece->lower)
            n = unicode_lower(code, codes);
        for (unsigned i = 0; i < n; i++) {
            if ((flags & alone) || (unicode_flags(codes[i]) & UNICODE_PUNCTUATION))
                TRY(word_alone(wordpiece, trie, out, &word, codes[i], (uint32_t)at, (uint32_t)next));
            else
                word_add(&word, wordpiece->characters, codes[i], (uint32_t)at, (uint32_t)next);
        }
    }
    return word_flush(wordpiece, trie, out, &word);
}
