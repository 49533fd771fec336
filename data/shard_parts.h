// SPDX-License-Identifier: Apache-2.0
// Inside the token shard: its image in memory and the tokenising that fills it. For data/shard*.c alone.
#ifndef FINETUNED_DATA_SHARD_PARTS_H
#define FINETUNED_DATA_SHARD_PARTS_H

#include "base/pool.h"
#include "base/status.h"
#include "data/shard.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Where the payload's arrays start, in bytes from the file's start.
struct shard_layout {
    uint64_t offsets, ids, labels, full, ends, rows, context, begin, end, types, size; // ends .. end: with spans
};
// false: no such shard can be (sizes above what an address space or this format holds).
bool shard_layout_make(struct shard_layout *out, uint64_t n, uint64_t tokens, bool spans);

// What the header says beside the sizes.
struct shard_facts {
    uint64_t n, tokens;
    uint32_t longest, n_labels, vocab_size, max_length;
    bool spans;
    uint32_t doc_stride, questions;
    const char *key; // 32 hex digits
};
// Writes the header in front of a payload that stands at image + SHARD_HEADER, hashes included.
void shard_seal(char *image, const struct shard_layout *layout, const struct shard_facts *facts);

// Tokenises all rows in parallel; `out` is a malloc'ed image of a whole shard of `size` bytes.
enum status shard_build(char **out, size_t *size, const char *key, const struct source *source, uint32_t n_labels,
                        const struct tokenizer *tokenizer, const struct shard_options *options, struct pool *pool);

#endif
