// SPDX-License-Identifier: Apache-2.0
// Buckets of one rank: micro-batches give the tree over leaves, bit for bit, in few arenas.
#include "support.h"

#include "base/job.h"
#include "comm/bucket.h"

#include <math.h>

#define LEAVES 16

static void table_open(struct param_table *table) {
    assert_ok(param_add(table, "embedding", PARAM_ROWS, 1009, 41, true, 0)); // more than two slices of a task
    assert_ok(param_add(table, "dense", PARAM_TILES, 33, 20, true, 1));
    assert_ok(param_add(table, "head", PARAM_VECTOR, 3, 1, false, 2));
    assert_ok(param_finish(table));
}

// Leaf m's gradient: values whose sum depends on the order.
static float leaf_value(uint32_t m, uint64_t i) {
    uint32_t hash = (uint32_t)(i * 2654435761u) ^ (m * 40503u + 77u) * 2246822519u;
    hash ^= hash >> 15;
    if (i % 11 == 3)
        return -0.0f;
    return ldexpf((float)(int32_t)hash / 2147483648.0f, (int)(hash % 13) - 6);
}

static void leaf_fill(float *arena, const struct param_bucket *bucket, uint32_t m) {
    for (uint64_t i = bucket->offset; i < bucket->offset + bucket->size; i++)
        arena[i] = leaf_value(m, i);
}

static float tree(uint32_t first, uint32_t n, uint64_t i) {
    return n == 1 ? leaf_value(first, i) : tree(first, n / 2, i) + tree(first + n / 2, n / 2, i);
}

static float *step_run(struct buckets *buckets, const struct param_table *table, uint64_t cursor,
                       uint32_t micro_batches) {
    float *gradient;
    buckets_start(buckets, cursor, micro_batches, NULL);
    for (uint32_t m = 0; m < micro_batches; m++)
        for (unsigned l = (unsigned)table->n_buckets; l-- > 0;) {
            leaf_fill(bucket_arena(buckets, l, m), &table->buckets[l], m);
            assert_ok(bucket_begin(buckets, l, m));
        }
    assert_ok(buckets_finish(buckets, &gradient));
    return gradient;
}

static void tree_compare(const float *gradient, const struct param_table *table, uint32_t leaves) {
    for (size_t l = 0; l < table->n_buckets; l++)
        for (uint64_t i = table->buckets[l].offset; i < table->buckets[l].offset + table->buckets[l].size; i++) {
            float wanted = tree(0, leaves, i);
            if (memcmp(&wanted, &gradient[i], sizeof wanted) != 0)
                fail_msg("%u leaves, element %llu: %a, wanted %a", leaves, (unsigned long long)i, (double)gradient[i],
                         (double)wanted);
        }
}

struct fixture {
    struct param_table table;
    struct comm *comm;
};

static void fixture_open(struct fixture *f, const char *fault) {
    *f = (struct fixture){0};
    table_open(&f->table);
    if (fault)
        setenv("FINETUNED_FAULT", fault, 1);
    else
        unsetenv("FINETUNED_FAULT");
    assert_ok(comm_open(&f->comm, JOB_BACKEND_SELF));
}

static void fixture_close(struct fixture *f) {
    comm_close(f->comm);
    param_table_release(&f->table);
}

static void test_tree(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);
    for (unsigned threads = 1; threads <= 2; threads++) {
        struct pool *pool;
        struct buckets *buckets;
        assert_ok(pool_open(&pool, threads));
        assert_ok(buckets_open(&buckets, f.comm, &f.table, pool, LEAVES));
        for (uint32_t n = 1; n <= LEAVES; n *= 2) // also: a step's sums don't leak into the next
            tree_compare(step_run(buckets, &f.table, n, n), &f.table, n);
        for (uint32_t n = LEAVES; n >= 1; n /= 2)
            tree_compare(step_run(buckets, &f.table, n, n), &f.table, n);
        buckets_close(buckets);
        pool_close(pool);
    }
    fixture_close(&f);
}

// ---- rows: of the step's set each leaf reads some

static bool leaf_reads(uint32_t leaf, uint64_t row) {
    return (row + leaf) % 3 != 0;
}

static float rows_tree(uint32_t first, uint32_t n, uint64_t row, uint64_t i) {
    if (n == 1)
        return leaf_reads(first, row) ? leaf_value(first, i) : 0;
    return rows_tree(first, n / 2, row, i) + rows_tree(first + n / 2, n / 2, row, i);
}

// Writes what the leaf reads of the set, and finds 0 in all other rows.
static void rows_fill(float *arena, const struct param_table *table, const struct row_set *rows, uint32_t leaf) {
    for (uint64_t row = 0; row < table->rows; row++) {
        const struct param_piece piece = row_piece(table, row);
        bool reads = row_set_next(rows, row) == row && leaf_reads(leaf, row);
        for (uint64_t i = piece.offset; i < piece.offset + piece.n; i++) {
            assert_true(arena[i] == 0);
            arena[i] = reads ? leaf_value(leaf, i) : 0;
        }
    }
}

static void rows_step(struct buckets *buckets, const struct param_table *table, const struct row_set *rows,
                      uint32_t leaves) {
    float *gradient;
    buckets_start(buckets, 0, leaves, rows);
    for (uint32_t m = 0; m < leaves; m++)
        for (unsigned l = (unsigned)table->n_buckets; l-- > 0;) {
            float *arena = bucket_arena(buckets, l, m);
            if (l == 0)
                rows_fill(arena, table, rows, m);
            else
                leaf_fill(arena, &table->buckets[l], m);
            assert_ok(bucket_begin(buckets, l, m));
        }
    assert_ok(buckets_finish(buckets, &gradient));
    for (uint64_t row = 0; row < table->rows; row++) {
        const struct param_piece piece = row_piece(table, row);
        bool in = row_set_next(rows, row) == row;
        for (uint64_t i = piece.offset; i < piece.offset + piece.n; i++) {
            float wanted = in ? rows_tree(0, leaves, row, i) : 0;
            assert_memory_equal(&gradient[i], &wanted, sizeof wanted);
        }
    }
}

// Sets that change from step to step, and a step without a set in between.
static void test_rows(void **state) {
    (void)state;
    struct fixture f;
    struct pool *pool;
    struct buckets *buckets;
    struct row_set rows;
    fixture_open(&f, NULL);
    assert_ok(row_set_init(&rows, &f.table));
    assert_ok(pool_open(&pool, 2));
    assert_ok(buckets_open(&buckets, f.comm, &f.table, pool, LEAVES));
    for (uint32_t step = 0; step < 20; step++) {
        row_set_clear(&rows);
        for (uint64_t row = step; row < f.table.rows; row += 1 + step % 7 * 11)
            row_set_add(&rows, row);
        rows_step(buckets, &f.table, &rows, 1u << step % 5);
        if (step == 11)
            tree_compare(step_run(buckets, &f.table, step, 4), &f.table, 4);
    }
    buckets_close(buckets);
    pool_close(pool);
    row_set_release(&rows);
    fixture_close(&f);
}

static void test_bytes(void **state) {
    (void)state;
    struct fixture f;
    struct pool *pool;
    fixture_open(&f, NULL);
    assert_ok(pool_open(&pool, 1));
    uint64_t arena = f.table.floats * sizeof(float);
    for (uint32_t max = 1; max <= 1024; max *= 2) {
        struct buckets *buckets;
        assert_ok(buckets_open(&buckets, f.comm, &f.table, pool, max));
        uint64_t arenas = 1 + (uint64_t)log2(max);
        assert_in_range(buckets_bytes(buckets), arenas * arena, arenas * (arena + 64) + (4 << 20));
        buckets_close(buckets);
    }
    pool_close(pool);
    fixture_close(&f);
}

static void test_unfinished(void **state) {
    (void)state;
    struct fixture f;
    struct pool *pool;
    struct buckets *buckets;
    float *gradient;
    fixture_open(&f, NULL);
    assert_ok(pool_open(&pool, 1));
    assert_ok(buckets_open(&buckets, f.comm, &f.table, pool, 1));
    buckets_start(buckets, 0, 1, NULL);
    assert_ok(bucket_begin(buckets, 0, 0));
    assert_status(buckets_finish(buckets, &gradient), STATUS_ARGUMENT);
    assert_null(gradient);
    buckets_close(buckets);
    pool_close(pool);
    fixture_close(&f);
}

// Buckets below table.frozen are never begun; their gradient is 0 and the others' as ever.
static void test_frozen(void **state) {
    (void)state;
    struct fixture f;
    struct pool *pool;
    struct buckets *buckets;
    float *gradient;
    fixture_open(&f, NULL);
    f.table.frozen = 2;
    assert_ok(pool_open(&pool, 1));
    assert_ok(buckets_open(&buckets, f.comm, &f.table, pool, 4));
    for (uint32_t n = 1; n <= 4; n *= 2) {
        buckets_start(buckets, n, n, NULL);
        for (uint32_t m = 0; m < n; m++) {
            if (m + 1 == n) // one is missing
                assert_status(buckets_finish(buckets, &gradient), STATUS_ARGUMENT);
            leaf_fill(bucket_arena(buckets, 2, m), &f.table.buckets[2], m);
            assert_ok(bucket_begin(buckets, 2, m));
        }
        assert_ok(buckets_finish(buckets, &gradient));
        for (uint64_t i = 0; i < f.table.floats; i++) {
            bool trained = i >= f.table.buckets[2].offset && i < f.table.buckets[2].offset + f.table.buckets[2].size;
            float wanted = trained ? tree(0, n, i) : 0;
            assert_memory_equal(&wanted, &gradient[i], sizeof wanted);
        }
    }
    buckets_close(buckets);
    pool_close(pool);
    fixture_close(&f);
}

static unsigned count_nan(const float *gradient, const struct param_table *table) {
    unsigned n = 0;
    for (uint64_t i = 0; i < table->floats; i++)
        n += isnan(gradient[i]) != 0;
    return n;
}

static void test_fault(void **state) {
    (void)state;
    struct fixture f;
    struct pool *pool;
    struct buckets *buckets;
    fixture_open(&f, "nan:rank=0,cursor=3,count=2");
    assert_ok(pool_open(&pool, 1));
    assert_ok(buckets_open(&buckets, f.comm, &f.table, pool, 4));
    for (uint64_t cursor = 0; cursor < 7; cursor++)
        for (uint32_t n = 1; n <= 4; n *= 2)
            assert_int_equal(count_nan(step_run(buckets, &f.table, cursor, n), &f.table), cursor == 3 || cursor == 4);
    buckets_close(buckets);
    pool_close(pool);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree),       cmocka_unit_test(test_rows),   cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_unfinished), cmocka_unit_test(test_frozen), cmocka_unit_test(test_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
