// SPDX-License-Identifier: Apache-2.0
// Words that were tokenised before, by their bytes: a few thousand words are most of any text. Two places a key, the
// newest in the first. A word is compared and hashed as three numbers, so nothing here loops over bytes.
#ifndef FINETUNED_DATA_WORD_CACHE_H
#define FINETUNED_DATA_WORD_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WORD_CACHE_PAIRS 8192u // a power of two
#define WORD_CACHE_BYTES 20u   // longer words are tokenised anew each time
#define WORD_CACHE_IDS 7u      // and so are those of more tokens

// A word's bytes, zeros behind them. Size 0 is no word.
struct word_key {
    uint64_t first, second;
    uint32_t third, size;
};

// A word and its tokens, whose ranges are counted from the word's begin. 64 bytes: one cache line.
struct word_cached {
    uint64_t first, second;
    uint32_t third;
    int32_t ids[WORD_CACHE_IDS];
    uint8_t begins[WORD_CACHE_IDS], ends[WORD_CACHE_IDS];
    uint8_t size, n;
};

struct word_cache {
    struct word_cached pairs[WORD_CACHE_PAIRS][2];
};

// The key of `size` <= WORD_CACHE_BYTES bytes; `left` >= size may be read.
static inline struct word_key word_key(const char *word, size_t size, size_t left) {
    static const unsigned char mask[2 * WORD_CACHE_BYTES] = {
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    };
    const unsigned char *keep = mask + WORD_CACHE_BYTES - size;
    char padded[WORD_CACHE_BYTES] = {0};
    uint64_t bytes[2], bits[2];
    uint32_t third, third_bits;
    if (left < WORD_CACHE_BYTES)
        word = memcpy(padded, word, size);
    memcpy(bytes, word, sizeof bytes);
    memcpy(&third, word + sizeof bytes, sizeof third);
    memcpy(bits, keep, sizeof bits);
    memcpy(&third_bits, keep + sizeof bits, sizeof third_bits);
    return (struct word_key){bytes[0] & bits[0], bytes[1] & bits[1], third & third_bits, (uint32_t)size};
}

// The two places of a key.
static inline struct word_cached *word_pair_of(struct word_cache *cache, const struct word_key *key) {
    uint64_t hash = (key->first ^ (uint64_t)key->size << 56) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 29 ^ key->second) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 32 ^ key->third) * UINT64_C(0x94d049bb133111eb);
    return cache->pairs[hash >> 40 & (WORD_CACHE_PAIRS - 1)];
}

static inline bool word_is(const struct word_cached *word, const struct word_key *key) {
    return word->first == key->first && word->second == key->second && word->third == key->third &&
           word->size == key->size;
}

// NULL if it is not there.
static inline const struct word_cached *word_find(struct word_cache *cache, const struct word_key *key) {
    const struct word_cached *pair = word_pair_of(cache, key);
    return word_is(&pair[0], key) ? &pair[0] : word_is(&pair[1], key) ? &pair[1] : NULL;
}

// A place for a word that is not there, of no tokens yet; the older one of its pair goes.
static inline struct word_cached *word_put(struct word_cache *cache, const struct word_key *key) {
    struct word_cached *pair = word_pair_of(cache, key);
    pair[1] = pair[0];
    pair[0] = (struct word_cached){key->first, key->second, key->third, {0}, {0}, {0}, (uint8_t)key->size, 0};
    return pair;
}

#endif
