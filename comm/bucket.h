// SPDX-License-Identifier: Apache-2.0
// Gradient buckets: a bucket's sum over micro-batches and ranks. bucket_begin may be called as soon as a layer's
// gradient is written.
#ifndef FINETUNED_COMM_BUCKET_H
#define FINETUNED_COMM_BUCKET_H

#include "base/param.h"
#include "base/pool.h"
#include "base/row_set.h"
#include "comm/comm.h"

// One step's gradient sums. Micro-batches of a rank are leaves of the same binary tree as parts and ranks: their
// partial sums are a stack (like carries of a binary counter) of at most log2(micro-batches) arenas, allocated at open
// for `max_micro_batches`.
struct buckets;

enum status buckets_open(struct buckets **out, struct comm *comm, const struct param_table *table, struct pool *pool,
                         uint32_t max_micro_batches);
void buckets_close(struct buckets *buckets);
uint64_t buckets_bytes(const struct buckets *buckets); // of all its arenas

// A step begins: it has `micro_batches` (a power of two; at least 1) of them. `rows`: those of the embeddings that some
// rank's batch reads, the same on every rank; only they are added up and go over the ranks. NULL: all. Copied.
void buckets_start(struct buckets *buckets, uint64_t cursor, uint32_t micro_batches, const struct row_set *rows);
// The arena that micro-batch `m` (0, 1, … in order) writes bucket `l`'s gradient into. The embeddings' rows are 0 there
// (with `rows` NULL: anything).
float *bucket_arena(struct buckets *buckets, unsigned l, uint32_t m);
// Bucket `l` of micro-batch `m` is written: adds what can be added; after the last micro-batch, the sum over ranks
// begins (and may block).
enum status bucket_begin(struct buckets *buckets, unsigned l, uint32_t m);
// All buckets are complete: the global gradient, the same bits on every rank. Borrowed until the next start. Frozen
// buckets (table->frozen) are never begun; their part of it stays 0.
enum status buckets_finish(struct buckets *buckets, float **gradient);

#endif
