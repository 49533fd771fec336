// SPDX-License-Identifier: Apache-2.0
#include "model/squad_text.h"

#include "model/squad_tables.h"

#include <stdlib.h>
#include <string.h>

#define CAPITAL_SIGMA 0x3a3u
#define SIGMA 0x3c3u
#define FINAL_SIGMA 0x3c2u
#define CAPITAL_I_DOT 0x130u // lower case: i and U+0307
#define DOT_ABOVE 0x307u

static bool is_in(const struct squad_range *ranges, size_t n, uint32_t code) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && ranges[low].first <= code;
}

static bool is_word(uint32_t code) {
    return is_in(squad_word, squad_word_n, code);
}

// string.punctuation: what ASCII prints and is neither letter nor digit.
static bool is_punctuation(uint32_t code) {
    return (code >= '!' && code <= '/') || (code >= ':' && code <= '@') || (code >= '[' && code <= '`') ||
           (code >= '{' && code <= '~');
}

static uint32_t lower_one(uint32_t code) {
    size_t low = 0, high = squad_lower_n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (squad_lower[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    const struct squad_lower *run = &squad_lower[low];
    if (low == squad_lower_n || code < run->first || (code - run->first) % run->step)
        return code;
    return (uint32_t)((int64_t)code + run->distance);
}

struct codes {
    uint32_t *at; // (size)
    size_t size;
};

// The first code point from `i` on, in steps of `step`, that is not case-ignorable, is cased. i may be outside: false.
static bool cased_beside(const struct codes *text, size_t i, size_t step) {
    while (i < text->size && is_in(squad_ignorable, squad_ignorable_n, text->at[i]))
        i += step; // a step of -1 wraps at the text's begin
    return i < text->size && is_in(squad_cased, squad_cased_n, text->at[i]);
}

// Unicode's Final_Sigma (The Unicode Standard, table 3-17), as str.lower has it.
static uint32_t lower_sigma(const struct codes *text, size_t i) {
    bool final = cased_beside(text, i - 1, (size_t)-1) && !cased_beside(text, i + 1, 1);
    return final ? FINAL_SIGMA : SIGMA;
}

// Lower case without punctuation; `out` has room for twice as many.
static void lower_all(struct codes *out, const struct codes *text) {
    for (size_t i = 0; i < text->size; i++) {
        uint32_t code = text->at[i];
        if (code == CAPITAL_I_DOT) {
            out->at[out->size++] = 'i';
            out->at[out->size++] = DOT_ABOVE;
        } else if (!is_punctuation(code)) {
            out->at[out->size++] = code == CAPITAL_SIGMA ? lower_sigma(text, i) : lower_one(code);
        }
    }
}

// A run of word characters that is "a", "an" or "the": what \b(a|an|the)\b finds.
static bool is_article(const uint32_t *run, size_t n) {
    return (n == 1 && run[0] == 'a') || (n == 2 && run[0] == 'a' && run[1] == 'n') ||
           (n == 3 && run[0] == 't' && run[1] == 'h' && run[2] == 'e');
}

// Code points behind those before them; a blank first if something parted the two.
static void codes_add(struct text *out, const uint32_t *codes, size_t n, bool *parted, size_t begin) {
    char bytes[4];
    if (*parted && out->size > begin)
        text_add(out, " ", 1);
    *parted = false;
    for (size_t i = 0; i < n; i++)
        text_add(out, bytes, utf8_encode(codes[i], bytes));
}

static void words_add(struct text *out, const struct codes *text) {
    size_t begin = out->size;
    bool parted = false;
    for (size_t i = 0, n = 0; i < text->size; i += n) {
        for (n = 0; i + n < text->size && is_word(text->at[i + n]);)
            n++;
        bool word = n > 0;
        n = word ? n : 1;
        if (word ? is_article(text->at + i, n) : is_in(squad_space, squad_space_n, text->at[i]))
            parted = true;
        else
            codes_add(out, text->at + i, n, &parted, begin);
    }
}

static enum status codes_decode(struct codes *out, const char *answer, size_t size) {
    const char *at = answer, *end = answer + size;
    while (at < end) {
        unsigned n = utf8_decode(at, end, &out->at[out->size]);
        if (n == 0)
            return status_set(STATUS_DATA, "answer: byte %zu is not valid UTF-8", (size_t)(at - answer));
        out->size++;
        at += n;
    }
    return STATUS_OK;
}

enum status squad_normalize(struct text *out, const char *answer, size_t size) {
    if (size == 0)
        return STATUS_OK;
    uint32_t *room = size <= TEXT_MAX / 4 ? malloc(3 * size * sizeof *room) : NULL;
    if (!room)
        return status_set(STATUS_SYSTEM, "answer: no memory for %zu bytes", size);
    struct codes text = {room, 0}, lower = {room + size, 0};
    enum status status = codes_decode(&text, answer, size);
    if (status == STATUS_OK) {
        lower_all(&lower, &text);
        words_add(out, &lower);
        status = out->failed ? status_set(STATUS_SYSTEM, "answer: no memory for %zu bytes", size) : STATUS_OK;
    }
    free(room);
    return status;
}
