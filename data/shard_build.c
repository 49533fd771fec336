// SPDX-License-Identifier: Apache-2.0
// Text to tokens: rows are cut into blocks of a fixed size, blocks are tokenised by whoever is free, and joined in
// order; so the bytes do not depend on the number of threads.
#include "data/shard_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_ROWS 512

struct block {
    int32_t *ids;   // [tokens]
    uint8_t *types; // [tokens]
    uint64_t tokens, room;
    uint32_t *lengths;  // [rows]
    uint32_t *full;     // [rows]
    enum status status; // of the first row that failed
    char *message;      // a message belongs to the thread that set it: carried over here
};

struct build {
    const struct source *source;
    const struct tokenizer *tokenizer;
    const struct shard_options *options;
    struct encoding *encodings; // [threads]
    struct block *blocks;       // [n_blocks]
    size_t n_blocks;
};

static size_t block_rows(const struct build *build, size_t block) {
    size_t left = build->source->n - block * BLOCK_ROWS;
    return left < BLOCK_ROWS ? left : BLOCK_ROWS;
}

static enum status block_grow(struct block *block, uint64_t more) {
    uint64_t need = block->tokens + more;
    if (need <= block->room)
        return STATUS_OK;
    uint64_t room = need + need / 2;
    int32_t *ids = realloc(block->ids, room * sizeof *ids);
    block->ids = ids ? ids : block->ids;
    uint8_t *types = realloc(block->types, room);
    block->types = types ? types : block->types;
    if (!ids || !types)
        return status_set(STATUS_SYSTEM, "no memory for tokens");
    block->room = room;
    return STATUS_OK;
}

static enum status row_encode(const struct build *build, struct encoding *encoding, const struct example *example) {
    const struct shard_options *options = build->options;
    struct tokenizer_options how = {.special = options->special,
                                    .max_length = options->truncation ? options->max_length : 0};
    enum status status = tokenizer_encode(build->tokenizer, encoding, example->text, example->text_size, example->pair,
                                          example->pair_size, &how);
    if (status != STATUS_OK)
        return status_add(status, "%s:%" PRIu32, example->file, example->line);
    if (!options->truncation && options->max_length && encoding->n > options->max_length)
        return status_set(STATUS_DATA,
                          "%s:%" PRIu32 ": %" PRIu32 " tokens are more than data.max_length, %" PRIu32
                          "; raise it or set data.truncation to true",
                          example->file, example->line, encoding->n, options->max_length);
    return STATUS_OK;
}

static enum status row_add(const struct build *build, struct block *block, struct encoding *encoding, size_t first,
                           size_t row) {
    TRY(row_encode(build, encoding, &build->source->rows[first + row]));
    TRY(block_grow(block, encoding->n));
    if (encoding->n) {
        memcpy(block->ids + block->tokens, encoding->ids, encoding->n * sizeof *block->ids);
        memcpy(block->types + block->tokens, encoding->types, encoding->n);
    }
    block->tokens += encoding->n;
    block->lengths[row] = encoding->n;
    block->full[row] = encoding->full;
    return STATUS_OK;
}

static void block_encode(void *context, size_t task, unsigned thread) {
    struct build *build = context;
    struct block *block = &build->blocks[task];
    size_t rows = block_rows(build, task);
    block->lengths = calloc(rows, sizeof *block->lengths);
    block->full = calloc(rows, sizeof *block->full);
    if (!block->lengths || !block->full)
        block->status = status_set(STATUS_SYSTEM, "no memory for tokens");
    for (size_t row = 0; row < rows && block->status == STATUS_OK; row++)
        block->status = row_add(build, block, &build->encodings[thread], task * BLOCK_ROWS, row);
    if (block->status != STATUS_OK)
        block->message = strdup(status_message());
}

static void block_release(struct block *block) {
    free(block->ids);
    free(block->types);
    free(block->lengths);
    free(block->full);
    free(block->message);
    *block = (struct block){0};
}

static enum status blocks_encode(struct build *build, struct pool *pool) {
    if (pool)
        pool_run(pool, block_encode, build, build->n_blocks);
    else
        for (size_t i = 0; i < build->n_blocks; i++)
            block_encode(build, i, 0);
    for (size_t i = 0; i < build->n_blocks; i++)
        if (build->blocks[i].status != STATUS_OK)
            return status_set(build->blocks[i].status, "%s",
                              build->blocks[i].message ? build->blocks[i].message : "no memory");
    return STATUS_OK;
}

// Joins the blocks in order into the payload and frees them on the way.
static uint32_t blocks_join(struct build *build, char *image, const struct shard_layout *layout) {
    uint64_t *offsets = (uint64_t *)(image + layout->offsets), token = 0;
    int32_t *labels = (int32_t *)(image + layout->labels);
    uint32_t *full = (uint32_t *)(image + layout->full), longest = 0;
    size_t row = 0;
    offsets[0] = 0;
    for (size_t i = 0; i < build->n_blocks; i++) {
        struct block *block = &build->blocks[i];
        if (block->tokens) {
            memcpy(image + layout->ids + 4 * token, block->ids, 4 * block->tokens);
            memcpy(image + layout->types + token, block->types, block->tokens);
        }
        for (size_t j = 0; j < block_rows(build, i); j++, row++) {
            token += block->lengths[j];
            offsets[row + 1] = token;
            labels[row] = build->source->rows[row].label;
            full[row] = block->full[j];
            longest = block->lengths[j] > longest ? block->lengths[j] : longest;
        }
        block_release(block);
    }
    return longest;
}

static enum status image_make(char **out, size_t *size, const char *key, struct build *build, uint32_t n_labels) {
    struct shard_layout layout;
    struct shard_facts facts = {.n = build->source->n,
                                .n_labels = n_labels,
                                .vocab_size = tokenizer_info(build->tokenizer).vocab_size,
                                .max_length = build->options->max_length,
                                .key = key};
    for (size_t i = 0; i < build->n_blocks; i++)
        facts.tokens += build->blocks[i].tokens;
    if (!shard_layout_make(&layout, facts.n, facts.tokens))
        return status_set(STATUS_DATA, "%" PRIu64 " examples with %" PRIu64 " tokens are more than a shard holds",
                          facts.n, facts.tokens);
    char *image = calloc(1, layout.size);
    if (!image)
        return status_set(STATUS_SYSTEM, "no memory for a shard of %" PRIu64 " bytes", layout.size);
    facts.longest = blocks_join(build, image, &layout);
    shard_seal(image, &layout, &facts);
    *out = image;
    *size = layout.size;
    return STATUS_OK;
}

enum status shard_build(char **out, size_t *size, const char *key, const struct source *source, uint32_t n_labels,
                        const struct tokenizer *tokenizer, const struct shard_options *options, struct pool *pool) {
    struct build build = {.source = source, .tokenizer = tokenizer, .options = options};
    unsigned threads = pool ? pool_threads(pool) : 1;
    build.n_blocks = (source->n + BLOCK_ROWS - 1) / BLOCK_ROWS;
    build.blocks = calloc(build.n_blocks ? build.n_blocks : 1, sizeof *build.blocks);
    build.encodings = calloc(threads, sizeof *build.encodings);
    enum status status = STATUS_OK;
    if (!build.blocks || !build.encodings)
        status = status_set(STATUS_SYSTEM, "no memory for tokens");
    if (status == STATUS_OK)
        status = blocks_encode(&build, pool);
    if (status == STATUS_OK)
        status = image_make(out, size, key, &build, n_labels);
    for (size_t i = 0; build.blocks && i < build.n_blocks; i++)
        block_release(&build.blocks[i]);
    for (unsigned i = 0; build.encodings && i < threads; i++)
        encoding_release(&build.encodings[i]);
    free(build.blocks);
    free(build.encodings);
    return status;
}
