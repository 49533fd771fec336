// SPDX-License-Identifier: Apache-2.0
// What ranks do together, run under mpirun with the world size as argument. Every rank checks its own results; any
// failure ends all with 1.
#include "base/job.h"
#include "comm/bucket.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct comm *comm;

__attribute__((format(printf, 2, 3), noreturn)) static void failed(int line, const char *format, ...) {
    va_list arguments;
    fprintf(stderr, "comm_world.c:%d: rank %d of %d: ", line, comm ? comm->rank : -1, comm ? comm->world : 0);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, " (%s)\n", status_message());
    if (comm)
        comm_abort(comm, 1);
    _exit(1);
}

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            failed(__LINE__, "%s", #condition);                                                                        \
    } while (0)
#define OK(call) CHECK((call) == STATUS_OK)

// Values whose sum depends on the order; zeros of both signs.
static double leaf(int rank, size_t i) {
    uint32_t hash = ((uint32_t)i * 2654435761u) ^ ((uint32_t)rank * 40503u + 77u) * 2246822519u;
    hash ^= hash >> 15;
    if (i % 7 == 2)
        return -0.0;
    if (i % 7 == 3)
        return rank % 2 ? 0.0 : -0.0;
    return ldexp((double)(int32_t)hash / 2147483648.0, (int)(hash % 21) - 10);
}

static float leaf_float(int rank, size_t i) {
    return (float)leaf(rank, i);
}

// The serial definition: a binary tree over n leaves, a power of two.
static float tree_float(int first, int n, size_t i) {
    if (n == 1)
        return leaf_float(first, i);
    return tree_float(first, n / 2, i) + tree_float(first + n / 2, n / 2, i);
}

static double tree_double(int first, int n, size_t i) {
    if (n == 1)
        return leaf(first, i);
    return tree_double(first, n / 2, i) + tree_double(first + n / 2, n / 2, i);
}

// A world that is no power of two: rank after rank.
static float chain_float(int n, size_t i) {
    float sum = leaf_float(0, i);
    for (int r = 1; r < n; r++)
        sum += leaf_float(r, i);
    return sum;
}

static float wanted_float(size_t i) {
    return comm->world & (comm->world - 1) ? chain_float(comm->world, i) : tree_float(0, comm->world, i);
}

static void test_tree_sum(size_t n) {
    float *values = malloc((n + 1) * sizeof *values), *scratch = malloc((n + 1) * sizeof *scratch);
    for (size_t i = 0; i < n; i++)
        values[i] = leaf_float(comm->rank, i);
    values[n] = 42;
    OK(comm_tree_sum(comm, values, n, scratch));
    for (size_t i = 0; i < n; i++) {
        float wanted = wanted_float(i);
        if (memcmp(&wanted, &values[i], sizeof wanted) != 0)
            failed(__LINE__, "sum of %zu floats, element %zu: %a, wanted %a", n, i, (double)values[i], (double)wanted);
    }
    CHECK(values[n] == 42);
    free(values);
    free(scratch);
}

static void test_tree_sum_double(size_t n) {
    double *values = malloc((n + 1) * sizeof *values), *scratch = malloc((n + 1) * sizeof *scratch);
    for (size_t i = 0; i < n; i++)
        values[i] = leaf(comm->rank, i);
    OK(comm_tree_sum_double(comm, values, n, scratch));
    for (size_t i = 0; i < n && !(comm->world & (comm->world - 1)); i++) {
        double wanted = tree_double(0, comm->world, i);
        CHECK(memcmp(&wanted, &values[i], sizeof wanted) == 0);
    }
    free(values);
    free(scratch);
}

// A NaN or an infinity of one rank reaches all, with the same bits on all, and stays where it was.
static void test_not_finite(void) {
    float values[5] = {1, 1, 1, 1, 1}, scratch[5];
    if (comm->rank == comm->world - 1) {
        values[1] = NAN;
        values[3] = -INFINITY;
    }
    OK(comm_tree_sum(comm, values, 5, scratch));
    CHECK(isnan(values[1]) && isinf(values[3]) && values[0] == (float)comm->world && values[4] == values[0]);
    OK(comm_same(comm, values, sizeof values, "sums"));
}

static void test_broadcast(void) {
    for (int root = 0; root < comm->world; root++) {
        char bytes[10001];
        memset(bytes, comm->rank == root ? root + 1 : 99, sizeof bytes);
        OK(comm_broadcast(comm, bytes, sizeof bytes, root));
        for (size_t i = 0; i < sizeof bytes; i++)
            CHECK(bytes[i] == root + 1);
        OK(comm_broadcast(comm, NULL, 0, root));
    }
}

static void test_all_gather(void) {
    int32_t own[3] = {comm->rank, 2 * comm->rank, -comm->rank}, *all = calloc((size_t)comm->world, sizeof own);
    OK(comm_all_gather(comm, own, all, sizeof own));
    for (int r = 0; r < comm->world; r++)
        CHECK(all[3 * r] == r && all[3 * r + 1] == 2 * r && all[3 * r + 2] == -r);
    free(all);
    char bytes[5003], *longer = malloc((size_t)comm->world * sizeof bytes);
    memset(bytes, comm->rank + 1, sizeof bytes);
    OK(comm_all_gather(comm, bytes, longer, sizeof bytes));
    for (size_t i = 0; i < (size_t)comm->world * sizeof bytes; i++)
        CHECK(longer[i] == (char)(i / sizeof bytes + 1));
    free(longer);
}

// Different sizes each way, and nothing in one direction.
static void test_exchange(void) {
    int peer = comm->rank ^ 1;
    if (peer >= comm->world)
        return;
    size_t out = 1000 + (size_t)comm->rank, in = 1000 + (size_t)peer;
    char *bytes = malloc(2100), *got = calloc(1, 2100);
    memset(bytes, comm->rank + 1, 2100);
    OK(comm_exchange(comm, peer, bytes, out, got, in));
    CHECK(got[0] == peer + 1 && got[in - 1] == peer + 1 && got[in] == 0);
    memset(got, 0, 2100);
    OK(comm_exchange(comm, peer, bytes, comm->rank % 2 ? 0 : 7, got, comm->rank % 2 ? 7 : 0));
    CHECK(got[6] == (comm->rank % 2 ? peer + 1 : 0));
    free(bytes);
    free(got);
}

// A ring, odd ranks first receiving: each gets its left neighbour's rank.
static void test_send_receive(void) {
    if (comm->world == 1)
        return;
    int right = (comm->rank + 1) % comm->world, left = (comm->rank + comm->world - 1) % comm->world, got = -1;
    if (comm->rank == 0) {
        OK(comm_send(comm, right, &comm->rank, sizeof comm->rank));
        OK(comm_receive(comm, left, &got, sizeof got));
    } else {
        OK(comm_receive(comm, left, &got, sizeof got));
        OK(comm_send(comm, right, &comm->rank, sizeof comm->rank));
    }
    CHECK(got == left);
}

static void test_agree(void) {
    OK(comm_agree(comm, STATUS_OK));
    for (int bad = 0; bad < comm->world; bad++) {
        // `bad` and all above fail, each in its own way: the lowest one's status and words are taken.
        enum status mine = STATUS_OK;
        if (comm->rank >= bad)
            mine = status_set(comm->rank == bad ? STATUS_IO : STATUS_DATA, "rank-%d-says", comm->rank);
        else
            status_set(STATUS_OK, "an old message");
        CHECK(comm_agree(comm, mine) == STATUS_IO);
        char wanted[64], prefix[64];
        snprintf(wanted, sizeof wanted, "rank-%d-says", bad);
        snprintf(prefix, sizeof prefix, "rank %d (", bad);
        CHECK(strstr(status_message(), wanted));
        CHECK((strncmp(status_message(), prefix, strlen(prefix)) == 0) == (comm->rank != bad));
    }
    CHECK(comm->world == 1 || comm_agree(comm, STATUS_TIMEOUT) == STATUS_TIMEOUT); // alone, without waiting for anyone
}

static void test_flags_and_same(void) {
    uint32_t flags = 1u << comm->rank;
    OK(comm_flags(comm, &flags));
    CHECK(flags == (1u << comm->world) - 1);
    char bytes[] = "the same";
    OK(comm_same(comm, bytes, sizeof bytes, "words"));
    OK(comm_same(comm, NULL, 0, "nothing"));
    if (comm->world == 1)
        return;
    if (comm->rank == comm->world - 1)
        bytes[4] = 'S';
    CHECK(comm_same(comm, bytes, sizeof bytes, "words") == STATUS_DATA);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "words: rank %d holds", comm->world - 1);
    CHECK(strstr(status_message(), wanted));
    OK(comm_barrier(comm));
}

// ---- buckets ----

#define LEAVES 8

static void bucket_fill(float *arena, const struct param_bucket *bucket, uint32_t first, uint32_t n) {
    for (uint64_t i = bucket->offset; i < bucket->offset + bucket->size; i++)
        arena[i] = tree_float((int)first, (int)n, i); // a micro-batch sums its own leaves in the tree
}

// Leaves of each rank: a power of two, as many as fit into eight.
static uint32_t leaves_own(void) {
    uint32_t own = LEAVES;
    while (own * (uint32_t)comm->world > LEAVES)
        own /= 2;
    return own;
}

// In a world that is no power of two the ranks' trees are added rank after rank.
static float leaves_float(uint32_t own, size_t i) {
    if (!(comm->world & (comm->world - 1)))
        return tree_float(0, LEAVES, i);
    float sum = tree_float(0, (int)own, i);
    for (int r = 1; r < comm->world; r++)
        sum += tree_float(r * (int)own, (int)own, i);
    return sum;
}

// Eight leaves or less over the ranks and this many micro-batches each.
static void test_buckets(const struct param_table *table, struct pool *pool, uint32_t micro_batches) {
    uint32_t own = leaves_own(), each = own / micro_batches;
    struct buckets *buckets;
    float *gradient;
    OK(buckets_open(&buckets, comm, table, pool, micro_batches));
    for (int step = 0; step < 2; step++) {
        buckets_start(buckets, (uint64_t)step, micro_batches, NULL);
        for (uint32_t m = 0; m < micro_batches; m++)
            for (unsigned l = (unsigned)table->n_buckets; l-- > 0;) {
                uint32_t first = (uint32_t)comm->rank * own + m * each;
                bucket_fill(bucket_arena(buckets, l, m), &table->buckets[l], first, each);
                OK(bucket_begin(buckets, l, m));
            }
        OK(buckets_finish(buckets, &gradient));
        for (uint64_t i = 0; i < table->floats; i++) {
            float wanted = leaves_float(own, i);
            if (memcmp(&wanted, &gradient[i], sizeof wanted) != 0)
                failed(__LINE__, "%u micro-batches, element %llu: %a, wanted %a", micro_batches, (unsigned long long)i,
                       (double)gradient[i], (double)wanted);
        }
    }
    buckets_close(buckets);
}

// ---- rows of the embeddings: of the step's set each leaf reads some

static float rows_float(uint32_t first, uint32_t n, uint64_t row, uint64_t i) {
    if (n == 1)
        return (row + first) % 3 ? tree_float((int)first, 1, i) : 0;
    return rows_float(first, n / 2, row, i) + rows_float(first + n / 2, n / 2, row, i);
}

static float rows_wanted(uint32_t own, uint64_t row, uint64_t i) {
    if (!(comm->world & (comm->world - 1)))
        return rows_float(0, LEAVES, row, i);
    float sum = rows_float(0, own, row, i);
    for (uint32_t r = 1; r < (uint32_t)comm->world; r++)
        sum += rows_float(r * own, own, row, i);
    return sum;
}

static void rows_step(const struct param_table *table, struct buckets *buckets, const struct row_set *rows,
                      uint32_t micro_batches) {
    uint32_t own = leaves_own(), each = own / micro_batches;
    float *gradient;
    buckets_start(buckets, 0, micro_batches, rows);
    for (uint32_t m = 0; m < micro_batches; m++)
        for (unsigned l = (unsigned)table->n_buckets; l-- > 0;) {
            uint32_t first = (uint32_t)comm->rank * own + m * each;
            float *arena = bucket_arena(buckets, l, m);
            if (l > 0)
                bucket_fill(arena, &table->buckets[l], first, each);
            for (uint64_t row = row_set_next(rows, 0); l == 0 && row != UINT64_MAX; row = row_set_next(rows, row + 1)) {
                const struct param_piece piece = row_piece(table, row);
                for (uint64_t i = piece.offset; i < piece.offset + piece.n; i++)
                    arena[i] = rows_float(first, each, row, i);
            }
            OK(bucket_begin(buckets, l, m));
        }
    OK(buckets_finish(buckets, &gradient));
    for (uint64_t row = 0; row < table->rows; row++) {
        const struct param_piece piece = row_piece(table, row);
        bool in = row_set_next(rows, row) == row;
        for (uint64_t i = piece.offset; i < piece.offset + piece.n; i++) {
            float wanted = in ? rows_wanted(own, row, i) : 0;
            if (memcmp(&wanted, &gradient[i], sizeof wanted) != 0)
                failed(__LINE__, "%u micro-batches, row %llu, element %llu: %a, wanted %a", micro_batches,
                       (unsigned long long)row, (unsigned long long)i, (double)gradient[i], (double)wanted);
        }
    }
}

// Nearly all rows, more than go over the ranks at once; then few, and others.
static void test_rows(const struct param_table *table, struct pool *pool, uint32_t micro_batches) {
    struct buckets *buckets;
    struct row_set rows;
    OK(row_set_init(&rows, table));
    OK(buckets_open(&buckets, comm, table, pool, micro_batches));
    for (uint64_t step = 0; step < 3; step++) {
        row_set_clear(&rows);
        for (uint64_t row = 0; row < table->rows; row++)
            if (step == 0 ? row % 100 != 7 : row % 100 == step)
                row_set_add(&rows, row);
        rows_step(table, buckets, &rows, micro_batches);
    }
    buckets_close(buckets);
    row_set_release(&rows);
}

static void test_all_buckets(void) {
    struct param_table table = {0};
    struct pool *pool;
    OK(param_add(&table, "embedding", PARAM_ROWS, 4099, 272, true,
                 0)); // above the slice that goes over the ranks at once
    OK(param_add(&table, "dense", PARAM_TILES, 64, 24, true, 1));
    OK(param_add(&table, "head", PARAM_VECTOR, 16, 1, true, 2));
    OK(param_finish(&table));
    OK(pool_open(&pool, 1));
    for (uint32_t m = 1; m <= leaves_own(); m *= 2)
        test_buckets(&table, pool, m), test_rows(&table, pool, m);
    pool_close(pool);
    param_table_release(&table);
}

int main(int argc, char **argv) {
    int world = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1;
    if (comm_open(&comm, JOB_BACKEND_AUTO) != STATUS_OK)
        failed(__LINE__, "comm_open");
    CHECK(comm->world == world && comm->rank >= 0 && comm->rank < world && strcmp(comm->ops->name, "mpi") == 0);
    CHECK(comm->local_world == world && comm->local_rank == comm->rank && comm->host[0]); // all on this host
    static const size_t sizes[] = {0, 1, 2, 3, 1000, 65536, 65537, 1 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        test_tree_sum(sizes[i]);
    for (size_t i = 0; i < 5; i++)
        test_tree_sum_double(sizes[i]);
    test_not_finite();
    test_broadcast();
    test_all_gather();
    test_exchange();
    test_send_receive();
    test_agree();
    test_flags_and_same();
    test_all_buckets();
    OK(comm_barrier(comm));
    if (comm->rank == 0)
        printf("comm_world: %d ranks: all checks passed\n", world);
    comm_close(comm);
    return 0;
}
