// SPDX-License-Identifier: Apache-2.0
// What the tests of shards of texts and of windows share: all that a shard is made from, and its bytes.
#ifndef FINETUNED_TESTS_SHARDS_SUPPORT_H
#define FINETUNED_TESTS_SHARDS_SUPPORT_H

#include "support.h"

#include "base/file.h"
#include "base/hash.h"
#include "data/shard.h"

struct world {
    enum source_split split;
    char *cache;
    char *text, *ids; // what the source borrows
    struct source source;
    struct labels labels;
    struct tokenizer *tokenizer;
    struct shard_options options;
    struct pool *pool;
};

static inline void world_close(struct world *world) {
    source_close(&world->source);
    labels_release(&world->labels);
    tokenizer_close(world->tokenizer);
    if (world->pool)
        pool_close(world->pool);
    assert_ok(file_remove(world->cache));
    free(world->cache);
    free(world->text);
    free(world->ids);
}

static inline enum status prepare(struct world *world, struct shard *out, bool *made) {
    return shard_prepare(out, made, world->cache, world->split, &world->source, &world->labels, world->tokenizer,
                         &world->options, world->pool);
}

// Files in the cache; `path` (may be NULL): the first, malloc'ed.
static inline size_t shards_in(const char *cache, char **path) {
    char **names;
    size_t n;
    assert_ok(file_list(&names, &n, cache));
    if (path)
        *path = path_join(cache, names[0]);
    file_list_free(names, n);
    return n;
}

// Both hashes made right again (the layout in data/shard.h).
static inline void seal_again(char *image, size_t size) {
    uint64_t hash = hash64(image + SHARD_HEADER, size - SHARD_HEADER);
    memcpy(image + 88, &hash, 8);
    hash = hash64(image, 112);
    memcpy(image + 112, &hash, 8);
}

#endif
