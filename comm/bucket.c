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
//
// Of the embeddings' rows, an arena's are all 0 but those that its set names: these are set to 0 before the arena is
// written again, and the others are neither read nor written, so that their memory need not be there. Leaving out the
// additions of 0 changes no bit of a row: its sum has itself started from +0.
#include "comm/bucket.h"

#include "base/arena.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ADD_SLICE ((uint64_t)1 << 14)  // floats of one task
#define ADD_ROWS 512u                  // rows of one task, of which a few are in the set
#define RANK_SLICE ((uint64_t)1 << 20) // floats that go over the ranks at once: the size of the scratch memory

struct buckets {
    struct comm *comm;
    const struct param_table *table;
    struct pool *pool;
    struct arena arena;
    float **levels; // (n_levels) gradient arenas, the stack from its bottom
    unsigned n_levels;
    struct row_set *written; // (n_levels) rows of each arena that may be other than 0
    struct row_set rows;     // of this step
    bool all;                // it has no set: every row is written
    float *scratch;          // (scratch_floats)
    float *packed;           // (scratch_floats) rows on their way over the ranks
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

// A slice; at least a row.
static uint64_t scratch_floats(const struct buckets *buckets) {
    const struct param_table *table = buckets->table;
    uint64_t floats = table->floats < RANK_SLICE ? table->floats : RANK_SLICE;
    if (buckets->comm->world == 1)
        return 0;
    for (size_t i = 0; i < table->embeddings; i++)
        floats = table->at[i].shape[1] > floats ? table->at[i].shape[1] : floats;
    return floats;
}

// Floats of the bucket's rows, at its front.
static uint64_t bucket_rows_size(const struct buckets *buckets, const struct param_bucket *bucket) {
    const struct param_table *table = buckets->table;
    if (bucket != table->buckets || table->embeddings == 0)
        return 0;
    const struct param *last = &table->at[table->embeddings - 1];
    return last->offset + last->size;
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
    TRY(arena_init(&buckets->arena, total + 2 * arena_piece(scratch * sizeof(float)), true));
    for (unsigned i = 0; i < buckets->n_levels; i++) {
        buckets->levels[i] = arena_take(&buckets->arena, floats * sizeof(float));
        if (buckets->table->rows > 0)
            arena_small_pages(buckets->levels[i], bucket_rows_size(buckets, buckets->table->buckets) * sizeof(float));
    }
    buckets->scratch = arena_take(&buckets->arena, scratch * sizeof(float));
    buckets->packed = arena_take(&buckets->arena, scratch * sizeof(float));
    return STATUS_OK;
}

static enum status buckets_sets(struct buckets *buckets) {
    buckets->written = calloc(buckets->n_levels, sizeof *buckets->written);
    if (!buckets->written)
        return status_set(STATUS_SYSTEM, "buckets: no memory");
    for (unsigned i = 0; i < buckets->n_levels; i++)
        TRY(row_set_init(&buckets->written[i], buckets->table));
    return row_set_init(&buckets->rows, buckets->table);
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
    if (status == STATUS_OK)
        status = buckets_sets(buckets);
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
    for (unsigned i = 0; buckets->written && i < buckets->n_levels; i++)
        row_set_release(&buckets->written[i]);
    row_set_release(&buckets->rows);
    free(buckets->written);
    free(buckets->levels);
    free(buckets);
}

uint64_t buckets_bytes(const struct buckets *buckets) {
    return buckets->arena.size;
}

void buckets_start(struct buckets *buckets, uint64_t cursor, uint32_t micro_batches, const struct row_set *rows) {
    assert(micro_batches > 0 && (micro_batches & (micro_batches - 1)) == 0);
    assert(levels_for(micro_batches) <= buckets->n_levels);
    buckets->cursor = cursor;
    buckets->micro_batches = micro_batches;
    buckets->begun = 0;
    buckets->all = !rows;
    if (rows)
        row_set_copy(&buckets->rows, rows);
    else
        row_set_fill(&buckets->rows, buckets->table);
}

// What is done to the rows of a set, a run of numbers a task.
struct rows_work {
    const struct buckets *buckets;
    const struct row_set *rows;
    float *to;
    const float *from; // NULL: `to` becomes 0
};

static void rows_task(void *context, size_t task, unsigned thread) {
    (void)thread;
    const struct rows_work *work = context;
    uint64_t begin = task * ADD_ROWS, row = row_set_next(work->rows, begin);
    for (; row < begin + ADD_ROWS; row = row_set_next(work->rows, row + 1)) {
        const struct param_piece piece = row_piece(work->buckets->table, row);
        if (work->from)
            comm_add(work->to + piece.offset, work->from + piece.offset, piece.n);
        else
            memset(work->to + piece.offset, 0, piece.n * sizeof(float));
    }
}

static void rows_run(const struct buckets *buckets, const struct row_set *rows, float *to, const float *from) {
    struct rows_work work = {buckets, rows, to, from};
    pool_run(buckets->pool, rows_task, &work, (size_t)((buckets->table->rows + ADD_ROWS - 1) / ADD_ROWS));
}

float *bucket_arena(struct buckets *buckets, unsigned l, uint32_t m) {
    assert(m < buckets->micro_batches && l < buckets->table->n_buckets);
    float *arena = buckets->levels[ones(m)];
    if (l == 0) {
        if (!buckets->all)
            rows_run(buckets, &buckets->written[ones(m)], arena, NULL);
        row_set_copy(&buckets->written[ones(m)], &buckets->rows);
    }
    return arena;
}

// The carries of one bucket after micro-batch m, a slice of it a task; its rows are added by rows_run.
struct carry {
    const struct buckets *buckets;
    uint64_t offset, size; // floats
    unsigned top, count;   // levels top, top-1, …: level top-i is added to top-i-1
};

static void carry_slice(void *context, size_t task, unsigned thread) {
    (void)thread;
    const struct carry *carry = context;
    uint64_t begin = task * ADD_SLICE, left = carry->size - begin;
    uint64_t n = left < ADD_SLICE ? left : ADD_SLICE, at = carry->offset + begin;
    for (unsigned i = 0; i < carry->count; i++)
        comm_add(carry->buckets->levels[carry->top - i - 1] + at, carry->buckets->levels[carry->top - i] + at, n);
}

static void bucket_carry(struct buckets *buckets, const struct param_bucket *bucket, uint32_t m) {
    uint64_t rows = bucket_rows_size(buckets, bucket);
    struct carry carry = {buckets, bucket->offset + rows, bucket->size - rows, ones(m), trailing_ones(m)};
    if (carry.count == 0)
        return;
    pool_run(buckets->pool, carry_slice, &carry, (size_t)((carry.size + ADD_SLICE - 1) / ADD_SLICE));
    for (unsigned top = carry.top; rows > 0 && top > carry.top - carry.count; top--)
        rows_run(buckets, &buckets->rows, buckets->levels[top - 1], buckets->levels[top]);
}

// Copies rows from `*row` on between the bottom arena and `packed`, as many as there is room for; moves *row on.
// Returns their floats.
static uint64_t rows_pack(struct buckets *buckets, uint64_t *row, bool back) {
    uint64_t n = 0, room = scratch_floats(buckets);
    for (; *row != UINT64_MAX; *row = row_set_next(&buckets->rows, *row + 1)) {
        const struct param_piece piece = row_piece(buckets->table, *row);
        float *arena = buckets->levels[0] + piece.offset, *packed = buckets->packed + n;
        if (piece.n > room - n)
            break;
        memcpy(back ? arena : packed, back ? packed : arena, piece.n * sizeof(float));
        n += piece.n;
    }
    return n;
}

static enum status rows_sum(struct buckets *buckets) {
    for (uint64_t row = row_set_next(&buckets->rows, 0); row != UINT64_MAX;) {
        uint64_t first = row, n = rows_pack(buckets, &row, false);
        TRY(comm_tree_sum(buckets->comm, buckets->packed, n, buckets->scratch));
        rows_pack(buckets, &first, true);
    }
    return STATUS_OK;
}

static enum status bucket_sum(struct buckets *buckets, const struct param_bucket *bucket) {
    uint64_t rows = bucket_rows_size(buckets, bucket);
    if (rows > 0)
        TRY(rows_sum(buckets));
    for (uint64_t begin = rows; begin < bucket->size; begin += RANK_SLICE) {
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
        buckets->levels[ones(m)][buckets->table->at[buckets->table->n - 1].offset] = NAN;
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
