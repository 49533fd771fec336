// SPDX-License-Identifier: Apache-2.0
// Text to tokens: rows are cut into blocks of a fixed size, blocks are tokenised by whoever is free, and joined in
// order; so the bytes do not depend on the number of threads.
#include "data/shard_parts.h"
#include "data/window.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_ROWS 512

struct block_example {
    uint32_t length, full; // tokens
    int32_t label, end;    // end, row, context: spans
    uint32_t row, context;
};

struct block {
    int32_t *ids;          // [tokens]
    uint8_t *types;        // [tokens]
    uint32_t *begin, *end; // [tokens] spans
    uint64_t tokens, tokens_room;
    struct block_example *examples; // [n]
    uint64_t n, n_room;
    enum status status; // of the first row that failed
    char *message;      // a message belongs to the thread that set it: carried over here
};

struct build {
    const struct source *source;
    const struct tokenizer *tokenizer;
    const struct shard_options *options;
    struct windows *windows; // [threads]; without spans only their encodings are used
    struct block *blocks;    // [n_blocks]
    size_t n_blocks;
};

static size_t block_rows(const struct build *build, size_t block) {
    size_t left = build->source->n - block * BLOCK_ROWS;
    return left < BLOCK_ROWS ? left : BLOCK_ROWS;
}

// realloc that leaves *memory as it was when it fails.
static bool array_grow(void *memory, uint64_t n, size_t size) {
    void **at = memory, *grown = n <= SIZE_MAX / size ? realloc(*at, n * size) : NULL;
    *at = grown ? grown : *at;
    return grown;
}

static enum status tokens_reserve(struct block *block, uint64_t more, bool spans) {
    uint64_t need = block->tokens + more, room = need + need / 2;
    if (need <= block->tokens_room)
        return STATUS_OK;
    if (!array_grow(&block->ids, room, sizeof *block->ids) || !array_grow(&block->types, room, sizeof *block->types) ||
        (spans && (!array_grow(&block->begin, room, sizeof *block->begin) ||
                   !array_grow(&block->end, room, sizeof *block->end))))
        return status_set(STATUS_SYSTEM, "no memory for tokens");
    block->tokens_room = room;
    return STATUS_OK;
}

static enum status block_add(struct block *block, const struct block_example *example) {
    uint64_t room = 2 * block->n + BLOCK_ROWS;
    if (block->n == block->n_room) {
        if (!array_grow(&block->examples, room, sizeof *block->examples))
            return status_set(STATUS_SYSTEM, "no memory for examples");
        block->n_room = room;
    }
    block->examples[block->n++] = *example;
    block->tokens += example->length;
    return STATUS_OK;
}

// Where a row stands, before this thread's message.
static enum status row_refuse(enum status status, const struct example *row) {
    if (row->id)
        return status_add(status, "%s: question %s", row->file, row->id);
    return status_add(status, "%s:%" PRIu32, row->file, row->line);
}

static enum status length_check(const struct build *build, uint32_t n) {
    const struct shard_options *options = build->options;
    if (options->truncation || !options->max_length || n <= options->max_length)
        return STATUS_OK;
    return status_set(STATUS_DATA,
                      "%" PRIu32 " tokens are more than data.max_length, %" PRIu32
                      "; raise it or set data.truncation to true",
                      n, options->max_length);
}

static enum status text_add(const struct build *build, struct block *block, struct encoding *encoding,
                            const struct example *row) {
    const struct shard_options *options = build->options;
    struct tokenizer_options how = {.special = options->special,
                                    .max_length = options->truncation ? options->max_length : 0,
                                    .normalize = options->normalize};
    TRY(tokenizer_encode(build->tokenizer, encoding, row->text, row->text_size, row->pair, row->pair_size, &how));
    TRY(length_check(build, encoding->n));
    TRY(tokens_reserve(block, encoding->n, false));
    if (encoding->n) {
        memcpy(block->ids + block->tokens, encoding->ids, encoding->n * sizeof *block->ids);
        memcpy(block->types + block->tokens, encoding->types, encoding->n);
    }
    return block_add(block, &(struct block_example){encoding->n, encoding->full, .label = row->label});
}

// Labels: the first answer, as run_qa.py trains on.
static enum status window_add(struct block *block, const struct windows *windows, uint32_t i, const struct example *row,
                              size_t index) {
    uint32_t length = windows_length(windows, i);
    struct block_example example = {length, length, .row = (uint32_t)index, .context = windows->context};
    TRY(tokens_reserve(block, length, true));
    windows_copy(windows, i, block->ids + block->tokens, block->types + block->tokens, block->begin + block->tokens,
                 block->end + block->tokens);
    if (row->n_answers)
        windows_label(windows, i, row->answers[0].begin, row->answers[0].end, &example.label, &example.end);
    else
        example.label = example.end = row->label < 0 ? -1 : 0;
    return block_add(block, &example);
}

static enum status question_add(const struct build *build, struct block *block, struct windows *windows,
                                const struct example *row, size_t index) {
    const struct shard_options *options = build->options;
    struct window_options how = {options->special, options->truncation ? options->max_length : 0, options->doc_stride,
                                 options->normalize};
    TRY(windows_encode(windows, build->tokenizer, row->text, row->text_size, row->pair, row->pair_size, &how));
    TRY(length_check(build, windows->encoding.n));
    for (uint32_t i = 0; i < windows->n; i++)
        TRY(window_add(block, windows, i, row, index));
    return STATUS_OK;
}

static enum status row_add(const struct build *build, struct block *block, struct windows *windows, size_t index) {
    const struct example *row = &build->source->rows[index];
    enum status status = build->options->spans ? question_add(build, block, windows, row, index)
                                               : text_add(build, block, &windows->encoding, row);
    return status == STATUS_OK ? STATUS_OK : row_refuse(status, row);
}

static void block_encode(void *context, size_t task, unsigned thread) {
    struct build *build = context;
    struct block *block = &build->blocks[task];
    size_t rows = block_rows(build, task);
    for (size_t row = 0; row < rows && block->status == STATUS_OK; row++)
        block->status = row_add(build, block, &build->windows[thread], task * BLOCK_ROWS + row);
    if (block->status != STATUS_OK)
        block->message = strdup(status_message());
}

static void block_release(struct block *block) {
    free(block->ids);
    free(block->types);
    free(block->begin);
    free(block->end);
    free(block->examples);
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

static void tokens_join(const struct block *block, char *image, const struct shard_layout *layout, uint64_t token,
                        bool spans) {
    if (!block->tokens)
        return;
    memcpy(image + layout->ids + 4 * token, block->ids, 4 * block->tokens);
    memcpy(image + layout->types + token, block->types, block->tokens);
    if (!spans)
        return;
    memcpy(image + layout->begin + 4 * token, block->begin, 4 * block->tokens);
    memcpy(image + layout->end + 4 * token, block->end, 4 * block->tokens);
}

static void span_join(const struct block_example *example, char *image, const struct shard_layout *layout, uint64_t i) {
    ((int32_t *)(image + layout->ends))[i] = example->end;
    ((uint32_t *)(image + layout->rows))[i] = example->row;
    ((uint32_t *)(image + layout->context))[i] = example->context;
}

// Joins the blocks in order into the payload and frees them on the way; the longest example's tokens.
static uint32_t blocks_join(struct build *build, char *image, const struct shard_layout *layout) {
    uint64_t *offsets = (uint64_t *)(image + layout->offsets), token = 0, at = 0;
    int32_t *labels = (int32_t *)(image + layout->labels);
    uint32_t *full = (uint32_t *)(image + layout->full), longest = 0;
    offsets[0] = 0;
    for (size_t i = 0; i < build->n_blocks; i++) {
        struct block *block = &build->blocks[i];
        tokens_join(block, image, layout, token, build->options->spans);
        for (uint64_t j = 0; j < block->n; j++, at++) {
            const struct block_example *example = &block->examples[j];
            token += example->length;
            offsets[at + 1] = token;
            labels[at] = example->label;
            full[at] = example->full;
            longest = example->length > longest ? example->length : longest;
            if (build->options->spans)
                span_join(example, image, layout, at);
        }
        block_release(block);
    }
    return longest;
}

static enum status image_make(char **out, size_t *size, const char *key, struct build *build, uint32_t n_labels) {
    struct shard_layout layout;
    bool spans = build->options->spans;
    struct shard_facts facts = {.n_labels = n_labels,
                                .vocab_size = tokenizer_info(build->tokenizer).vocab_size,
                                .max_length = build->options->max_length,
                                .spans = spans,
                                .doc_stride = spans ? build->options->doc_stride : 0,
                                .questions = (uint32_t)build->source->n,
                                .key = key};
    for (size_t i = 0; i < build->n_blocks; i++) {
        facts.n += build->blocks[i].n;
        facts.tokens += build->blocks[i].tokens;
    }
    if (!shard_layout_make(&layout, facts.n, facts.tokens, spans))
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
    build.windows = calloc(threads, sizeof *build.windows);
    enum status status = STATUS_OK;
    if (!build.blocks || !build.windows)
        status = status_set(STATUS_SYSTEM, "no memory for tokens");
    if (status == STATUS_OK)
        status = blocks_encode(&build, pool);
    if (status == STATUS_OK)
        status = image_make(out, size, key, &build, n_labels);
    for (size_t i = 0; build.blocks && i < build.n_blocks; i++)
        block_release(&build.blocks[i]);
    for (unsigned i = 0; build.windows && i < threads; i++)
        windows_release(&build.windows[i]);
    free(build.blocks);
    free(build.windows);
    return status;
}
