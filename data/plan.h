// SPDX-License-Identifier: Apache-2.0
// The sample plan: which examples make up global batch `cursor`, and how they are cut into G token-balanced parts.
// A function of (seed, cursor) alone, and G one of the job; ranks are only where parts run. Only in a world that is no
// power of two G is another one (plan_world_parts): the examples of a batch are the same there, its parts are not.
#ifndef FINETUNED_DATA_PLAN_H
#define FINETUNED_DATA_PLAN_H

#include "base/status.h"

#include <stdint.h>

struct plan {
    uint64_t seed;
    uint32_t n;           // examples of an epoch
    uint32_t batch;       // examples of a global batch; an epoch's last one may be smaller
    uint32_t parts;       // G
    uint64_t *lengths;    // [n] tokens, a copy
    uint32_t *order;      // [n] the current epoch's permutation
    uint64_t order_epoch; // which epoch `order` is for; UINT64_MAX = none yet
    uint32_t *scratch;    // by_part [m], part of each sample [m], part_offsets [G+1]; m = min(batch, n)
    uint64_t *keys;       // [m] the batch's samples, longest first
    uint64_t *sums;       // [G] tokens of each part
};

struct plan_batch {
    uint64_t epoch;          // from 0
    uint32_t size;           // examples
    const uint32_t *samples; // [size] example indices in the order of the global batch
    uint32_t *by_part;       // [size] the same indices, part after part (within a part: in the global batch's order)
    uint32_t *part_offsets;  // [G+1] into by_part; parts may be empty
};

// `shard_offsets` [n+1]: as in a shard, example i has offsets[i+1] - offsets[i] tokens (below 2^32). n > 0, batch > 0,
// parts > 0 (else STATUS_ARGUMENT).
enum status plan_open(struct plan *plan, uint64_t seed, uint32_t n, const uint64_t *shard_offsets, uint32_t batch,
                      uint32_t parts);
void plan_close(struct plan *plan);
// Global batches in an epoch: ceil(n / batch).
uint64_t plan_batches(const struct plan *plan);
// The batch of a cursor (from 0). Order of an epoch: Fisher-Yates from a stream of (seed, epoch). Parts: the longest
// example first, to the part with the fewest tokens (ties: the earlier example, the lower part). `out` is filled from
// the plan's own memory, valid until the next call.
void plan_at(struct plan *plan, uint64_t cursor, struct plan_batch *out);

// G for `auto`: the largest power of two <= min(batch, batch * mean tokens / 50), at least 1.
uint32_t plan_auto_parts(uint32_t batch, uint64_t tokens, uint32_t n);
// Into how many parts a world cuts a batch of a job of `parts` (a power of two) parts: the same power of two of them
// for each rank. `parts` itself if the world is a power of two, else world * parts / (the next power of two above
// world); 0 if there are more ranks than parts.
uint32_t plan_world_parts(uint32_t parts, uint32_t world);

#endif
