// SPDX-License-Identifier: Apache-2.0
// Texts to measure with: rows of files, or made ones that are as long as tweets.
#ifndef FINETUNED_DAEMON_BENCH_TEXTS_H
#define FINETUNED_DAEMON_BENCH_TEXTS_H

#include "base/file.h"
#include "base/text.h"
#include "data/source.h"

struct bench_text {
    const char *at;
    uint32_t size; // bytes
};

struct bench_texts {
    struct bench_text *at; // (n)
    size_t n, room;
    uint64_t bytes;
    struct file_map *maps; // (n_maps)
    size_t n_maps;
    struct source source;
    struct text made;
};

// Every row of these files. STATUS_DATA names the file and line that is not UTF-8.
enum status bench_texts_files(struct bench_texts *out, const char *const *paths, size_t n);
// The train split of a task.
enum status bench_texts_task(struct bench_texts *out, const char *dir, const char *task);
// n made texts: a function of n alone.
enum status bench_texts_make(struct bench_texts *out, size_t n);
void bench_texts_close(struct bench_texts *texts);

// One made text, number `row`, onto `out`: words of a made vocabulary, frequent ones more often, users, hashtags, signs
// and emoji; as long as tweets in tokens, not in words.
void bench_text_make(struct text *out, uint64_t row);
// The same in letters alone, about as many as such a text has tokens: for the vocabulary of bytes.
void bench_letters_make(struct text *out, uint64_t row);

#endif
