// SPDX-License-Identifier: Apache-2.0
// Micro-batches are leaves of the binary tree over parts; their partial sums are a stack. Like the carries of a binary
// counter, micro-batch m, once written at depth d = (number of ones in m), is added to the partial sums below it as
// often as m ends in ones:
//
//   m        0    1      2      3
//   arena    0    1      1      2
//   adds     -    0+=1   -      1+=2, 0+=1    after the last one all is in arena 0
//
// Both the additions and the tree's shape are those of the parts inside a micro-batch and of the ranks, so the cut does
// not show in the bits.
#include "comm/bucket.h"

#include "base/arena.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define ADD_SLICE ((uint64_t)1 << 14)  // floats of one task
#define RANK_SLICE ((uint64_t)1 << 20) // floats that go over the ranks at once: the size of the scratch memory

struct buckets {
    struct comm *comm;
    const struct param_table *table;
    struct pool *pool;
    struct arena arena;
    float **levels; // (n_levels) gradient arenas, the stack from its bottom
    unsigned n_levels;
    float *scratch; // (RANK_SLICE or less)
    uint64_t cursor;
    uint32_t micro_batches;
    uint64_t begun; // bucket_begin calls since the start
};

static unsigned ones(uint32_t m) {
    return (unsigned)__builtin_popcount(m);
}

static unsigned trailing_ones(uint32_t m) {
    return (unsigned)__builtin_ctz(~m); // m is below a power of two that fits: never all ones
}

// Room for the stack of the largest power of two <= max_micro_batches: one arena more than its logarithm.
static unsigned levels_for(uint32_t max_micro_batches) {
    return 32 - (unsigned)__builtin_clz(max_micro_batches);
}

static uint64_t scratch_floats(const struct buckets *buckets) {
    if (buckets->comm->world == 1)
        return 0;
    return buckets->table->floats < RANK_SLICE ? buckets->table->floats : RANK_SLICE;
}

static uint64_t buckets_each(const struct buckets *buckets) {
    return buckets->table->n_buckets - buckets->table->frozen;
}

static enum status buckets_allocate(struct buckets *buckets) {
    uint64_t floats = buckets->table->floats, scratch = scratch_floats(buckets);
    buckets->levels = calloc(buckets->n_levels, sizeof *buckets->levels);
    if (!buckets->levels || floats > SIZE_MAX / sizeof(float) / 64)
        return status_set(STATUS_SYSTEM, "buckets: no memory for gradients of %llu floats", (unsigned long long)floats);
    size_t piece = arena_piece(floats * sizeof(float)), total;
    if (__builtin_mul_overflow(piece, (size_t)buckets->n_levels, &total))
        return status_set(STATUS_SYSTEM, "buckets: %u gradients of %zu bytes are too large", buckets->n_levels, piece);
    TRY(arena_init(&buckets->arena, total + arena_piece(scratch * sizeof(float)), true));
    for (unsigned i = 0; i < buckets->n_levels; i++)
        buckets->levels[i] = arena_take(&buckets->arena, floats * sizeof(float));
    buckets->scratch = arena_take(&buckets->arena, scratch * sizeof(float));
    return STATUS_OK;
}

enum status buckets_open(struct buckets **out, struct comm *comm, const struct param_table *table, struct pool *pool,
                         uint32_t max_micro_batches) {
    assert(max_micro_batches > 0);
    *out = NULL;
    struct buckets *buckets = calloc(1, sizeof *buckets);
    if (!buckets)
        return status_set(STATUS_SYSTEM, "buckets: no memory");
    buckets->comm = comm;
    buckets->table = table;
    buckets->pool = pool;
    buckets->n_levels = levels_for(max_micro_batches);
    enum status status = buckets_allocate(buckets);
    if (status != STATUS_OK) {
        buckets_close(buckets);
        return status;
    }
    *out = buckets;
    return STATUS_OK;
}

void buckets_close(struct buckets *buckets) {
    if (!buckets)
        return;
    arena_release(&buckets->arena);
    free(buckets->levels);
    free(buckets);
}

uint64_t buckets_bytes(const struct buckets *buckets) {
    return buckets->arena.size;
}

void buckets_start(struct buckets *buckets, uint64_t cursor, uint32_t micro_batches) {
    assert(micro_batches > 0 && (micro_batches & (micro_batches - 1)) == 0);
    assert(levels_for(micro_batches) <= buckets->n_levels);
    buckets->cursor = cursor;
    buckets->micro_batches = micro_batches;
    buckets->begun = 0;
}

float *buckets_arena(struct buckets *buckets, uint32_t m) {
    assert(m < buckets->micro_batches);
    return buckets->levels[ones(m)];
}

// The carries of one bucket after micro-batch m, a slice of it a task.
struct carry {
    const struct buckets *buckets;
    const struct param_bucket *bucket;
    unsigned top, count; // levels top, top-1, …: level top-i is added to top-i-1
};

static void carry_slice(void *context, size_t task, unsigned thread) {
    (void)thread;
    const struct carry *carry = context;
    uint64_t begin = task * ADD_SLICE, left = carry->bucket->size - begin;
    uint64_t n = left < ADD_SLICE ? left : ADD_SLICE, at = carry->bucket->offset + begin;
    for (unsigned i = 0; i < carry->count; i++)
        comm_add(carry->buckets->levels[carry->top - i - 1] + at, carry->buckets->levels[carry->top - i] + at, n);
}

static void bucket_carry(struct buckets *buckets, const struct param_bucket *bucket, uint32_t m) {
    struct carry carry = {buckets, bucket, ones(m), trailing_ones(m)};
    if (carry.count > 0)
        pool_run(buckets->pool, carry_slice, &carry, (bucket->size + ADD_SLICE - 1) / ADD_SLICE);
}

static enum status bucket_sum(struct buckets *buckets, const struct param_bucket *bucket) {
    for (uint64_t begin = 0; begin < bucket->size; begin += RANK_SLICE) {
        uint64_t left = bucket->size - begin;
        TRY(comm_tree_sum(buckets->comm, buckets->levels[0] + bucket->offset + begin,
                          left < RANK_SLICE ? left : RANK_SLICE, buckets->scratch));
    }
    return STATUS_OK;
}

enum status bucket_begin(struct buckets *buckets, unsigned l, uint32_t m) {
    assert(l >= buckets->table->frozen && l < buckets->table->n_buckets && m < buckets->micro_batches);
    const struct param_bucket *bucket = &buckets->table->buckets[l];
    bool last = m + 1 == buckets->micro_batches;
    buckets->begun++;
    // The injected NaN goes into the head's last parameter: every run trains it, and as a bias it is summed after this.
    if (last && l + 1 == buckets->table->n_buckets && comm_fault_nan(buckets->comm, buckets->cursor))
        buckets_arena(buckets, m)[buckets->table->at[buckets->table->n - 1].offset] = NAN;
    bucket_carry(buckets, bucket, m);
    return last && buckets->comm->world > 1 ? bucket_sum(buckets, bucket) : STATUS_OK;
}

enum status buckets_finish(struct buckets *buckets, float **gradient) {
    *gradient = NULL;
    uint64_t wanted = buckets->micro_batches * buckets_each(buckets);
    if (buckets->begun != wanted)
        return status_set(STATUS_ARGUMENT, "buckets: %llu of %llu were begun", (unsigned long long)buckets->begun,
                          (unsigned long long)wanted);
    *gradient = buckets->levels[0];
    return STATUS_OK;
}
