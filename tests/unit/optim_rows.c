// SPDX-License-Identifier: Apache-2.0
// The row rule for embeddings against the dense, immediate update: the same bits whenever a row is read, and in the
// end.
#include "optim_support.h"
#include "support.h"

#include "base/rng.h"

#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#define WORDS 150
#define WIDE 37

struct model {
    struct param_table table;
    struct row_set rows; // of the batch
    struct row_set none;
    float *weights, *gradient;
    struct optimizer *o;
};

static struct pool *pool;

// Two embeddings, one of them without decay, a vector of their bucket, a matrix.
static void table_fill(struct param_table *table) {
    *table = (struct param_table){0};
    assert_ok(param_add(table, "words", PARAM_ROWS, WORDS, WIDE, true, 0));
    assert_ok(param_add(table, "positions", PARAM_ROWS, 21, WIDE, false, 0));
    assert_ok(param_add(table, "norm", PARAM_VECTOR, WIDE, 1, false, 0));
    assert_ok(param_add(table, "dense", PARAM_TILES, 33, 5, true, 1));
    assert_ok(param_finish(table));
}

static void model_open(struct model *model, const struct optimizer_options *options, size_t frozen) {
    table_fill(&model->table);
    model->table.frozen = frozen;
    assert_ok(row_set_init(&model->rows, &model->table));
    assert_ok(row_set_init(&model->none, &model->table));
    model->weights = calloc(model->table.floats, sizeof(float));
    model->gradient = calloc(model->table.floats, sizeof(float));
    struct rng rng = rng_stream(5, 5);
    for (uint64_t i = 0; i < model->table.floats; i++)
        model->weights[i] = (float)rng_normal(&rng);
    assert_ok(optimizer_open(&model->o, &model->table, pool, model->weights, options));
}

static void model_close(struct model *model) {
    optimizer_close(model->o);
    row_set_release(&model->rows);
    row_set_release(&model->none);
    free(model->weights);
    free(model->gradient);
    param_table_release(&model->table);
}

// Some rows are read, seldom or often; each third is never.
static void rows_draw(struct model *lazy, struct rng *rng) {
    row_set_clear(&lazy->rows);
    for (uint64_t row = 0; row < lazy->table.rows; row++)
        if (row < 5 || (row % 3 && rng_uniform(rng) < (row < 40 ? 0.2 : 0.004)))
            row_set_add(&lazy->rows, row);
}

// The gradient of rows that are not read is 0 in the dense model, and poison in the other.
static void gradient_draw(struct model *lazy, struct model *dense, struct rng *rng, uint64_t step) {
    for (uint64_t i = 0; i < lazy->table.floats; i++)
        lazy->gradient[i] = NAN, dense->gradient[i] = 0;
    for (size_t p = 0; p < lazy->table.n; p++)
        for (uint64_t i = 0; i < lazy->table.at[p].size; i++) {
            uint64_t at = lazy->table.at[p].offset + i;
            uint64_t row = p < 2 ? lazy->table.at[p].row + i / WIDE : 0;
            if (p < 2 && row_set_next(&lazy->rows, row) != row)
                continue;
            float value = row == 3 ? 0 : ldexpf((float)rng_normal(rng), -(int)(step % 9)); // row 3: a pad token's
            lazy->gradient[at] = dense->gradient[at] = value;
        }
}

static void reads_compare(const struct model *lazy, const struct model *dense, const struct row_set *reads) {
    for (uint64_t row = row_set_next(reads, 0); row != UINT64_MAX; row = row_set_next(reads, row + 1)) {
        const struct param_piece piece = row_piece(&lazy->table, row);
        if (memcmp(lazy->weights + piece.offset, dense->weights + piece.offset, piece.n * sizeof(float)) != 0)
            fail_msg("step %llu, row %llu", (unsigned long long)lazy->o->step, (unsigned long long)row);
    }
}

static void all_compare(const struct model *lazy, const struct model *dense) {
    size_t bytes = lazy->table.floats * sizeof(float);
    assert_memory_equal(lazy->weights, dense->weights, bytes);
    assert_memory_equal(lazy->o->exp_avg, dense->o->exp_avg, bytes);
    assert_memory_equal(lazy->o->exp_avg_sq, dense->o->exp_avg_sq, bytes);
}

// A new optimizer goes on from the old one's arenas, as from a checkpoint.
static void model_resume(struct model *model, const struct optimizer_options *options) {
    struct optimizer *old = model->o;
    size_t bytes = model->table.floats * sizeof(float);
    params_current(old);
    assert_ok(optimizer_open(&model->o, &model->table, pool, model->weights, options));
    memcpy(model->o->exp_avg, old->exp_avg, bytes);
    memcpy(model->o->exp_avg_sq, old->exp_avg_sq, bytes);
    optimizer_resume(model->o, old->step);
    optimizer_close(old);
}

// One batch: read (but for every fifth: a rank that has none of it), then an update, or (every seventh) none because it
// is skipped.
static void step_run(struct model *lazy, struct model *dense, struct rng *rng, uint64_t batch) {
    rows_draw(lazy, rng);
    for (unsigned l = 0; l < 2; l++)
        bucket_current(lazy->o, l, batch % 5 == 2 ? &lazy->none : &lazy->rows);
    reads_compare(lazy, dense, batch % 5 == 2 ? &lazy->none : &lazy->rows);
    gradient_draw(lazy, dense, rng, batch);
    if (batch % 7 == 3)
        return;
    struct gradient gradient = {.values = lazy->gradient, .rows = &lazy->rows};
    double norm = optimizer_norm(lazy->o, &gradient);
    assert_true(lazy->table.frozen || norm == norm_of(dense->o, dense->gradient));
    assert_true(optimizer_step(lazy->o, &gradient, norm) == step_of(dense->o, dense->gradient, norm));
    params_current(dense->o);
    assert_true(bucket_due(lazy->o, 0) == (lazy->table.frozen == 0));
}

struct plan {
    const char *isa;
    double decay, clip;
    uint64_t batches, evaluate, resume; // each so many batches
    size_t frozen;
};

static void run_check(const struct plan *run) {
    struct optimizer_options options = {
        .beta1 = 0.9,
        .beta2 = 0.999,
        .eps = 1e-8,
        .weight_decay = run->decay,
        .clip = run->clip,
        .schedule = {.kind = SCHEDULE_LINEAR, .base_lr = 0.01, .warmup = 20, .total = run->batches},
        .shares = (const double[]){0.4, 1},
    };
    struct model lazy, dense;
    struct rng rng = rng_stream(1, run->batches);
    setenv("FINETUNED_ISA", run->isa, 1);
    model_open(&lazy, &options, run->frozen);
    model_open(&dense, &options, run->frozen);
    for (uint64_t batch = 0; batch < run->batches; batch++) {
        step_run(&lazy, &dense, &rng, batch);
        if (batch % run->evaluate == run->evaluate - 1) {
            params_current(lazy.o);
            assert_false(bucket_due(lazy.o, 0));
            all_compare(&lazy, &dense);
        }
        if (batch % run->resume == run->resume - 1)
            model_resume(&lazy, &options);
    }
    params_current(lazy.o);
    all_compare(&lazy, &dense);
    unsetenv("FINETUNED_ISA");
    model_close(&lazy);
    model_close(&dense);
}

static void test_equal_bits(void **state) {
    (void)state;
    for (enum isa isa = ISA_PLAIN; isa <= isa_best(); isa++)
        for (int decay = 0; decay < 2; decay++)
            run_check(&(struct plan){isa_name(isa), 0.1 * decay, 0.5, 200, 61, 83, 0});
    run_check(&(struct plan){"plain", 0.01, 0, 150, 1000, 40, 0});
}

// Rows that are not read for longer than rates are kept.
static void test_long_unread(void **state) {
    (void)state;
    run_check(&(struct plan){isa_name(isa_best()), 0.1, 1, 2 * ROWS_RATES, UINT64_MAX, UINT64_MAX, 0});
}

static void test_frozen(void **state) {
    (void)state;
    run_check(&(struct plan){"plain", 0.1, 0.5, 30, 11, 13, 1});
}

// Pages of the moments that are resident.
static size_t resident(const float *at, uint64_t floats) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t)at / page * page, end = (uintptr_t)(at + floats);
    size_t n = (end - begin + page - 1) / page, count = 0;
    unsigned char *pages = malloc(n);
    assert_int_equal(mincore((void *)begin, end - begin, pages), 0);
    for (size_t i = 0; i < n; i++)
        count += pages[i] & 1;
    free(pages);
    return count;
}

// Rows that never have a gradient cost no memory in moments, whether they decay or not, read or not.
static void test_untouched_moments(void **state) {
    (void)state;
    for (int decay = 0; decay < 2; decay++) {
        struct optimizer_options options = {.beta1 = 0.9,
                                            .beta2 = 0.999,
                                            .eps = 1e-8,
                                            .weight_decay = 0.1 * decay,
                                            .schedule = {.kind = SCHEDULE_CONSTANT, .base_lr = 0.1}};
        struct param_table table = {0};
        struct row_set rows;
        struct optimizer *o;
        assert_ok(param_add(&table, "words", PARAM_ROWS, 20000, 256, true, 0));
        assert_ok(param_finish(&table));
        assert_ok(row_set_init(&rows, &table));
        float *weights = calloc(table.floats, sizeof(float)), *gradient = calloc(table.floats, sizeof(float));
        for (uint64_t i = 0; i < table.floats; i++)
            weights[i] = 1;
        assert_ok(optimizer_open(&o, &table, pool, weights, &options));
        for (uint64_t row = 100; row < 150; row++) {
            row_set_clear(&rows);
            row_set_add(&rows, row);
            gradient[row * 256] = 1;
            bucket_current(o, 0, &rows);
            optimizer_step(o, &(struct gradient){.values = gradient, .rows = &rows}, 1);
        }
        params_current(o);
        assert_true(optimizer_finite(o, o->exp_avg) && optimizer_finite(o, o->exp_avg_sq)); // reads no other either
        assert_true(weights[100 * 256] < 1 && (decay ? weights[0] < 1 : weights[0] == 1));
        assert_true(resident(o->exp_avg, table.floats) <= 50 * 256 / 1024 + 2);
        assert_true(resident(o->exp_avg_sq, table.floats) <= 50 * 256 / 1024 + 2);
        o->exp_avg_sq[149 * 256 + 255] = INFINITY;
        assert_true(optimizer_finite(o, o->exp_avg) && !optimizer_finite(o, o->exp_avg_sq));
        optimizer_close(o);
        row_set_release(&rows);
        free(weights);
        free(gradient);
        param_table_release(&table);
    }
}

static int pool_start(void **state) {
    (void)state;
    assert_ok(pool_open(&pool, 2));
    return 0;
}

static int pool_end(void **state) {
    (void)state;
    pool_close(pool);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_bits),
        cmocka_unit_test(test_long_unread),
        cmocka_unit_test(test_frozen),
        cmocka_unit_test(test_untouched_moments),
    };
    return cmocka_run_group_tests(tests, pool_start, pool_end);
}
