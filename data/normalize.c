// SPDX-License-Identifier: Apache-2.0
#include "data/normalize.h"

#include <stdlib.h>
#include <string.h>

static const char user[] = "@user", http[] = "http";

// What a word becomes; NULL: it stays.
static const char *word_becomes(const char *word, size_t size) {
    if (size > 1 && word[0] == '@')
        return size == sizeof user - 1 && memcmp(word, user, size) == 0 ? NULL : user;
    return size > sizeof http - 1 && memcmp(word, http, sizeof http - 1) == 0 ? http : NULL;
}

// realloc that leaves *array alone if it fails.
static enum status room_make(void *array, size_t *room, size_t need, size_t size) {
    void *old, *new;
    if (need <= *room)
        return STATUS_OK;
    memcpy(&old, array, sizeof old);
    new = realloc(old, 2 * need * size);
    if (!new)
        return status_set(STATUS_SYSTEM, "normalize: no memory for %zu bytes", 2 * need * size);
    memcpy(array, &new, sizeof new);
    *room = 2 * need;
    return STATUS_OK;
}

// Puts bytes behind what is there.
static enum status bytes_add(struct normalized *out, const char *bytes, size_t size) {
    if (size == 0)
        return STATUS_OK;
    TRY(room_make(&out->buffer, &out->room, out->size + size, 1));
    memcpy(out->buffer + out->size, bytes, size);
    out->size += size;
    return STATUS_OK;
}

// Replaces text[begin, end); what lies before it and behind the word replaced last is copied.
static enum status word_replace(struct normalized *out, const char *text, size_t begin, size_t end, const char *by) {
    size_t done = out->n ? out->words[out->n - 1].from_end : 0;
    TRY(bytes_add(out, text + done, begin - done));
    size_t to = out->size;
    TRY(bytes_add(out, by, strlen(by)));
    TRY(room_make(&out->words, &out->words_room, out->n + 1, sizeof *out->words));
    out->words[out->n++] = (struct normalized_word){(uint32_t)begin, (uint32_t)end, (uint32_t)to, (uint32_t)out->size};
    return STATUS_OK;
}

enum status normalize_tweet(struct normalized *out, const char *text, size_t size) {
    out->n = out->size = 0;
    for (size_t begin = 0; begin < size;) {
        const char *blank = memchr(text + begin, ' ', size - begin);
        size_t end = blank ? (size_t)(blank - text) : size;
        const char *by = word_becomes(text + begin, end - begin);
        if (by)
            TRY(word_replace(out, text, begin, end, by));
        begin = end + 1;
    }
    out->text = text;
    if (out->n == 0) {
        out->size = size;
        return STATUS_OK;
    }
    size_t done = out->words[out->n - 1].from_end;
    TRY(bytes_add(out, text + done, size - done));
    out->text = out->buffer;
    return STATUS_OK;
}

void normalized_release(struct normalized *normalized) {
    free(normalized->words);
    free(normalized->buffer);
    *normalized = (struct normalized){0};
}

// `word`: the last one that begins before `at`, NULL if none does. Inside it all of it counts: `edge` is its own begin
// or end in the original.
static uint32_t place_map(const struct normalized_word *word, uint32_t at, uint32_t edge) {
    if (!word)
        return at;
    return at < word->to_end ? edge : at - word->to_end + word->from_end;
}

// How many words begin before `at`, looked for from `n` on.
static size_t words_before(const struct normalized *normalized, size_t n, uint32_t at) {
    while (n > 0 && normalized->words[n - 1].to >= at)
        n--;
    while (n < normalized->n && normalized->words[n].to < at)
        n++;
    return n;
}

void normalized_map(const struct normalized *normalized, uint32_t *begin, uint32_t *end, size_t tokens) {
    const struct normalized_word *words = normalized->words, *word;
    size_t next_begin = 0, next_end = 0; // words that begin before the token's begin, its end
    for (size_t i = 0; i < tokens; i++) {
        next_begin = words_before(normalized, next_begin, begin[i]);
        next_end = words_before(normalized, next_end, end[i]);
        word = next_begin ? &words[next_begin - 1] : NULL;
        begin[i] = place_map(word, begin[i], word ? word->from : 0);
        word = next_end ? &words[next_end - 1] : NULL;
        end[i] = place_map(word, end[i], word ? word->from_end : 0);
    }
}
