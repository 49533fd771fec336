// SPDX-License-Identifier: Apache-2.0
// A packed batch: real tokens only, example after example. Borrowed arrays live in memory allocated at start.
#ifndef FINETUNED_DATA_BATCH_H
#define FINETUNED_DATA_BATCH_H

#include "base/status.h"
#include "data/shard.h"

#include <stdint.h>

struct batch {
    uint32_t tokens;                          // T
    uint32_t size;                            // B examples
    uint32_t parts;                           // P, neighbouring parts of the global batch
    int32_t *ids;                             // (T)
    int32_t *positions;                       // (T) 0.. within the example; the model adds its own offset
    uint8_t *types;                           // (T) token_type_ids
    uint32_t *cu_seqlens;                     // (B+1) row of each example's first token
    int32_t *labels;                          // (B); question answering: the answer's first token in the example
    int32_t *ends;                            // (B) question answering: its last token; else -1
    uint32_t *examples;                       // (B) index in the data set: keys dropout
    uint32_t *part_examples;                  // (P+1) first example of each part
    uint32_t *part_tokens;                    // (P+1) first token of each part
    uint32_t longest;                         // tokens of the longest example
    uint32_t max_tokens, max_size, max_parts; // room
};

// Room for `max_tokens` tokens, `max_size` examples and `max_parts` parts.
enum status batch_open(struct batch *out, uint32_t max_tokens, uint32_t max_size, uint32_t max_parts);
void batch_close(struct batch *batch);

// Packs examples `indices[offsets[0] .. offsets[parts])`, part p being offsets[p]..offsets[p+1]. Room is the caller's
// business (asserted).
void batch_fill(struct batch *batch, const struct shard *shard, const uint32_t *indices, const uint32_t *offsets,
                uint32_t parts);
// One example given directly (predict); becomes part 0 of 1 together with those added before. Start with batch_clear.
void batch_clear(struct batch *batch);
void batch_add(struct batch *batch, const int32_t *ids, const uint8_t *types, uint32_t n, int32_t label,
               uint32_t example);

#endif
