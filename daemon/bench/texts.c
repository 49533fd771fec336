// SPDX-License-Identifier: Apache-2.0
#include "daemon/bench/texts.h"

#include "base/rng.h"
#include "data/row.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TEXTS_SEED 20220901u
#define VOCABULARY 20000u // made words
// Of a text: fewer than a tweet has (13.6 to 22), since made words are cut into more tokens.
#define WORDS_MEAN 13.0
#define WORDS_SPREAD 5.5
#define LETTERS_A_WORD 1.85

static enum status texts_grow(struct bench_texts *texts) {
    if (texts->n < texts->room)
        return STATUS_OK;
    size_t room = texts->room ? texts->room * 2 : 1024;
    struct bench_text *at = realloc(texts->at, room * sizeof *at);
    if (!at)
        return status_set(STATUS_SYSTEM, "bench: no memory for %zu texts", room);
    texts->at = at;
    texts->room = room;
    return STATUS_OK;
}

static enum status texts_add(struct bench_texts *texts, const char *at, size_t size, const char *file, size_t line) {
    if (size > SOURCE_TEXT_MAX)
        return status_set(STATUS_DATA, "%s:%zu: a text of %zu bytes, at most %zu", file, line, size, SOURCE_TEXT_MAX);
    size_t good = utf8_check(at, size);
    if (good < size)
        return status_set(STATUS_DATA, "%s:%zu: byte %zu (0x%02x) is not valid UTF-8", file, line, good + 1,
                          (unsigned char)at[good]);
    TRY(texts_grow(texts));
    texts->at[texts->n++] = (struct bench_text){at, (uint32_t)size};
    texts->bytes += size;
    return STATUS_OK;
}

enum status bench_texts_files(struct bench_texts *out, const char *const *paths, size_t n) {
    *out = (struct bench_texts){0};
    out->maps = calloc(n + 1, sizeof *out->maps);
    if (!out->maps)
        return status_set(STATUS_SYSTEM, "bench: no memory for %zu files", n);
    for (; out->n_maps < n; out->n_maps++) {
        struct file_map *map = &out->maps[out->n_maps];
        TRY(file_map_open(map, paths[out->n_maps]));
        size_t line = 1;
        for (struct row row = row_first(map->at, map->size); row_next(&row); line++)
            TRY(texts_add(out, row.at, row.size, paths[out->n_maps], line));
    }
    return out->n ? STATUS_OK : status_set(STATUS_DATA, "%s: no texts", n ? paths[0] : "bench");
}

enum status bench_texts_task(struct bench_texts *out, const char *dir, const char *task) {
    struct source_spec spec = {.format = SOURCE_TWEET_EVAL, .dir = dir, .task = task};
    struct labels labels = {0};
    *out = (struct bench_texts){0};
    enum status status = source_labels(&labels, &spec);
    if (status == STATUS_OK)
        status = source_read(&out->source, &spec, SPLIT_TRAIN, &labels);
    for (size_t i = 0; status == STATUS_OK && i < out->source.n; i++) {
        const struct example *row = &out->source.rows[i];
        status = texts_add(out, row->text, row->text_size, row->file, row->line);
    }
    labels_release(&labels);
    return status;
}

// Word `rank` of the made vocabulary: frequent ones are short.
static void word_make(struct text *out, uint32_t rank) {
    static const char *const syllables[] = {"a",  "to", "the", "in", "is", "me",  "re", "ing", "an", "er", "lo",
                                            "ve", "da", "y",   "so", "on", "est", "ly", "gr",  "ea", "t",  "wo",
                                            "ma", "n",  "ke",  "hi", "s",  "ou",  "ck", "fu",  "ll"};
    for (uint32_t left = rank + 1; left; left /= 31)
        text_puts(out, syllables[left % 31]);
}

// A word, a user, a hashtag, a link, now and then with a sign behind it, or an emoji.
static void token_make(struct text *out, struct rng *rng) {
    static const char *const others[] = {"@user", "http", "\xf0\x9f\x98\x82", "\xe2\x80\xa6", "2022", "it's", "RT"};
    static const char *const signs[] = {".", ",", "!", "?", "!!", "..."};
    unsigned kind = (unsigned)rng_below(rng, 100);
    if (kind < 10)
        text_puts(out, others[rng_below(rng, 7)]);
    else
        text_puts(out, kind < 15 ? "#" : "");
    if (kind >= 10) // of rank r with a probability of about 1/r
        word_make(out, (uint32_t)exp(rng_uniform(rng) * log(VOCABULARY)) - 1);
    if (kind >= 80)
        text_puts(out, signs[kind % 6]);
}

static int words_of(struct rng *rng) {
    double wanted = WORDS_MEAN + WORDS_SPREAD * rng_normal(rng);
    return wanted < 2 ? 2 : wanted > 60 ? 60 : (int)wanted;
}

void bench_text_make(struct text *out, uint64_t row) {
    struct rng rng = rng_stream(TEXTS_SEED, row);
    const int words = words_of(&rng);
    for (int i = 0; i < words; i++) {
        text_puts(out, i ? " " : "");
        token_make(out, &rng);
    }
}

void bench_letters_make(struct text *out, uint64_t row) {
    struct rng rng = rng_stream(TEXTS_SEED, row);
    const int letters = (int)(LETTERS_A_WORD * words_of(&rng)) + 2;
    uint64_t number = (row & 0xffff) | (row >> 32) << 16; // the first four say which text it is: no two are equal
    for (int i = 0; i < letters; i++, number /= 26)
        text_add(out, &(char){(char)('a' + (i < 4 ? number % 26 : rng_below(&rng, 26)))}, 1);
}

enum status bench_texts_make(struct bench_texts *out, size_t n) {
    *out = (struct bench_texts){0};
    size_t *begins = calloc(n + 1, sizeof *begins);
    if (!begins)
        return status_set(STATUS_SYSTEM, "bench: no memory for %zu texts", n);
    for (size_t i = 0; i < n; i++) {
        begins[i] = out->made.size;
        bench_text_make(&out->made, i);
    }
    begins[n] = out->made.size;
    const char *bytes = text_string(&out->made);
    enum status status = bytes ? STATUS_OK : status_set(STATUS_SYSTEM, "bench: no memory for %zu texts", n);
    for (size_t i = 0; status == STATUS_OK && i < n; i++)
        status = texts_add(out, bytes + begins[i], begins[i + 1] - begins[i], "made texts", i + 1);
    free(begins);
    return status;
}

void bench_texts_close(struct bench_texts *texts) {
    for (size_t i = 0; i < texts->n_maps; i++)
        file_map_close(&texts->maps[i]);
    free(texts->maps);
    source_close(&texts->source);
    text_release(&texts->made);
    free(texts->at);
    *texts = (struct bench_texts){0};
}
