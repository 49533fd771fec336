// SPDX-License-Identifier: Apache-2.0
#include "data/batch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum status batch_open(struct batch *out, uint32_t max_tokens, uint32_t max_size, uint32_t max_parts) {
    size_t tokens = max_tokens, size = max_size, parts = max_parts > 0 ? max_parts : 1;
    *out = (struct batch){.max_tokens = max_tokens, .max_size = max_size, .max_parts = (uint32_t)parts};
    out->ids = calloc(tokens + 1, sizeof *out->ids);
    out->positions = calloc(tokens + 1, sizeof *out->positions);
    out->types = calloc(tokens + 1, sizeof *out->types);
    out->cu_seqlens = calloc(size + 1, sizeof *out->cu_seqlens);
    out->labels = calloc(size + 1, sizeof *out->labels);
    out->ends = calloc(size + 1, sizeof *out->ends);
    out->examples = calloc(size + 1, sizeof *out->examples);
    out->part_examples = calloc(parts + 1, sizeof *out->part_examples);
    out->part_tokens = calloc(parts + 1, sizeof *out->part_tokens);
    if (out->ids && out->positions && out->types && out->cu_seqlens && out->labels && out->ends && out->examples &&
        out->part_examples && out->part_tokens)
        return STATUS_OK;
    batch_close(out);
    return status_set(STATUS_SYSTEM, "batch: no memory for %u tokens", max_tokens);
}

void batch_close(struct batch *batch) {
    free(batch->ids);
    free(batch->positions);
    free(batch->types);
    free(batch->cu_seqlens);
    free(batch->labels);
    free(batch->ends);
    free(batch->examples);
    free(batch->part_examples);
    free(batch->part_tokens);
    *batch = (struct batch){0};
}

// Puts an example behind the others.
static void example_put(struct batch *batch, const int32_t *ids, const uint8_t *types, uint32_t n, int32_t label,
                        uint32_t example) {
    uint32_t at = batch->tokens;
    assert(n <= batch->max_tokens - at && batch->size < batch->max_size);
    if (n) {
        memcpy(batch->ids + at, ids, n * sizeof *ids);
        memcpy(batch->types + at, types, n);
    }
    for (uint32_t i = 0; i < n; i++)
        batch->positions[at + i] = (int32_t)i;
    batch->labels[batch->size] = label;
    batch->ends[batch->size] = -1;
    batch->examples[batch->size] = example;
    batch->tokens = at + n;
    batch->cu_seqlens[++batch->size] = batch->tokens;
    batch->longest = n > batch->longest ? n : batch->longest;
}

static void batch_empty(struct batch *batch, uint32_t parts) {
    batch->tokens = batch->size = batch->longest = 0;
    batch->parts = parts;
    batch->cu_seqlens[0] = batch->part_examples[0] = batch->part_tokens[0] = 0;
}

void batch_fill(struct batch *batch, const struct shard *shard, const uint32_t *indices, const uint32_t *offsets,
                uint32_t parts) {
    assert(parts <= batch->max_parts);
    batch_empty(batch, parts);
    for (uint32_t part = 0; part < parts; part++) {
        for (uint32_t i = offsets[part]; i < offsets[part + 1]; i++) {
            uint32_t example = indices[i];
            assert(example < shard->n);
            uint64_t begin = shard->offsets[example];
            example_put(batch, shard->ids + begin, shard->types + begin,
                        (uint32_t)(shard->offsets[example + 1] - begin), shard->labels[example], example);
            if (shard->spans)
                batch->ends[batch->size - 1] = shard->ends[example];
        }
        batch->part_examples[part + 1] = batch->size;
        batch->part_tokens[part + 1] = batch->tokens;
    }
}

void batch_clear(struct batch *batch) {
    batch_empty(batch, 1);
    batch->part_examples[1] = batch->part_tokens[1] = 0;
}

void batch_add(struct batch *batch, const int32_t *ids, const uint8_t *types, uint32_t n, int32_t label,
               uint32_t example) {
    example_put(batch, ids, types, n, label, example);
    batch->part_examples[1] = batch->size;
    batch->part_tokens[1] = batch->tokens;
}
