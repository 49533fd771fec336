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

// Where the word of ASCII letters, digits and the like that begins at text[at] ends; `at` if anything that is removed,
// mapped to several code points or not ASCII is part of it.
static size_t ascii_word_end(const char *text, size_t at, size_t end) {
    size_t stop = at;
    unsigned flags = 0;
    while (stop < end && (unsigned char)text[stop] < 0x80) {
        flags = unicode_ascii_flags(text[stop]);
        if (flags & (UNICODE_CONTROL | UNICODE_BLANK | UNICODE_PUNCTUATION))
            break;
        stop++;
    }
    bool whole = stop == end || ((unsigned char)text[stop] < 0x80 && !(flags & UNICODE_CONTROL));
    return whole ? stop : at;
}

// The tokens of an ASCII word text[at, stop), known or not. `word` is empty, before and after.
static enum status ascii_word_push(const struct wordpiece *wordpiece, const struct trie *trie, struct encoding *out,
                                   struct word_cache *words, struct word *word, const char *text, size_t at,
                                   size_t stop, size_t end) {
    bool cached = stop - at <= WORD_CACHE_BYTES;
    uint32_t first = out->n;
    struct word_key key;
    if (cached) {
        key = word_key(text + at, stop - at, end - at);
        const struct word_cached *known = word_find(words, &key);
        if (known)
            return encoding_push_word(out, known, (uint32_t)at);
    }
    for (size_t i = at; i < stop; i++) {
        bool capital = wordpiece->lower && text[i] >= 'A' && text[i] <= 'Z';
        word_add(word, wordpiece->characters, (unsigned char)text[i] + (capital ? 'a' - 'A' : 0), (uint32_t)i,
                 (uint32_t)i + 1);
    }
    TRY(word_flush(wordpiece, trie, out, word));
    if (cached)
        encoding_keep_word(out, words, &key, first, (uint32_t)at);
    return STATUS_OK;
}

// One code point of text[at, next), in full.
static enum status code_push(const struct wordpiece *wordpiece, const struct trie *trie, struct encoding *out,
                             struct word *word, uint32_t code, uint32_t at, uint32_t next) {
    unsigned removed = UNICODE_CONTROL | (wordpiece->lower ? UNICODE_MARK : 0);
    unsigned alone = wordpiece->cjk ? UNICODE_CJK : 0, flags = unicode_flags(code), n = 1;
    uint32_t codes[3] = {code};
    if (flags & removed)
        return STATUS_OK;
    if (flags & UNICODE_BLANK)
        return word_flush(wordpiece, trie, out, word);
    if (wordpiece->lower)
        n = unicode_lower(code, codes);
    for (unsigned i = 0; i < n; i++) {
        if ((flags & alone) || (unicode_flags(codes[i]) & UNICODE_PUNCTUATION))
            TRY(word_alone(wordpiece, trie, out, word, codes[i], at, next));
        else
            word_add(word, wordpiece->characters, codes[i], at, next);
    }
    return STATUS_OK;
}

// Between two words: takes all that is plain ASCII. Returns where it is not, or in `status` what went wrong.
static size_t ascii_push(const struct wordpiece *wordpiece, const struct trie *trie, struct encoding *out,
                         struct word_cache *words, struct word *word, const char *text, size_t at, size_t end,
                         enum status *status) {
    *status = STATUS_OK;
    while (at < end && (unsigned char)text[at] < 0x80 && *status == STATUS_OK) {
        unsigned flags = unicode_ascii_flags(text[at]);
        size_t stop = at + 1;
        if (!(flags & (UNICODE_CONTROL | UNICODE_BLANK))) {
            stop = flags & UNICODE_PUNCTUATION ? stop : ascii_word_end(text, at, end);
            if (stop == at)
                break;
            *status = ascii_word_push(wordpiece, trie, out, words, word, text, at, stop, end);
        }
        at = stop;
    }
    return at;
}

enum status wordpiece_encode(const struct wordpiece *wordpiece, const struct trie *trie, struct encoding *out,
                             struct encoding_scratch *scratch, const char *text, size_t begin, size_t end) {
    struct word word;
    enum status status;
    word.n = word.size = word.begin = word.end = 0;
    for (size_t at = begin, next; at < end; at = next) {
        uint32_t code;
        if (word.n == 0) {
            at = ascii_push(wordpiece, trie, out, &scratch->words, &word, text, at, end, &status);
            TRY(status);
            if (at == end)
                break;
        }
        next = at + unicode_next(text + at, &code);
        TRY(code_push(wordpiece, trie, out, &word, code, (uint32_t)at, (uint32_t)next));
    }
    return word_flush(wordpiece, trie, out, &word);
}
