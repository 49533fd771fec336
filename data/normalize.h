// SPDX-License-Identifier: Apache-2.0
// data.normalize: tweet. What tweet models were pretrained on: mentions and links as placeholders. The function
// `preprocess` of the model cards of cardiffnlp/twitter-roberta-base-*, and nothing more:
//
//     words stand between U+0020, nothing else; "@" and at least one byte more becomes "@user", "http…" becomes "http"
#ifndef FINETUNED_DATA_NORMALIZE_H
#define FINETUNED_DATA_NORMALIZE_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

// A word that was replaced: [from, from_end) of the original is [to, to_end) of the normalised text, in bytes.
struct normalized_word {
    uint32_t from, from_end, to, to_end;
};

// One text's result; buffers grow and are reused.
struct normalized {
    const char *text; // the original if no word was replaced
    size_t size;
    struct normalized_word *words; // (n) in order
    size_t n;
    // internal
    char *buffer;
    size_t room, words_room;
};

// `size` below 2^30.
enum status normalize_tweet(struct normalized *out, const char *text, size_t size);
void normalized_release(struct normalized *normalized);

// Byte ranges of tokens from the normalised text to the original: what touches a replaced word covers all of it.
void normalized_map(const struct normalized *normalized, uint32_t *begin, uint32_t *end, size_t tokens);

#endif
