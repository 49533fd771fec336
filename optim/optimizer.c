// SPDX-License-Identifier: Apache-2.0
// AdamW over the arenas, a bucket at a time. optimizer_step only notes what is to be done; bucket_current does it.
#include "optim/optimizer.h"

#include "optim/state.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#define UPDATE_RUN 16384 // floats of one task: 64 KiB of each of four arenas, so about what a second cache holds

// Blocks whose rows are odd in number are taken whole, since a pair of the bf16 copy does not go over a block's end;
// else neighbouring blocks are one row of pairs.
static uint64_t run_length(const struct param *param) {
    const bool odd = param->layout == PARAM_TILES && param->shape[1] % 2;
    return odd ? param->shape[1] * PARAM_TILE : UPDATE_RUN;
}

// Adds the parameter's runs at `runs` (NULL: only counts them); returns their number.
static size_t runs_cut(struct run *runs, const struct param *param) {
    const uint64_t length = run_length(param), pairs = length / PARAM_TILE / 2 + length / PARAM_TILE % 2;
    size_t n = 0;
    for (uint64_t at = 0; at < param->size; at += length, n++) {
        uint64_t left = param->size - at;
        if (runs)
            runs[n] = (struct run){.offset = param->offset + at,
                                   .pairs = param->pairs + n * pairs * PARAM_TILE,
                                   .n = (uint32_t)(left < length ? left : length),
                                   .decay = param->decay,
                                   .copied = param->layout == PARAM_TILES};
    }
    return n;
}

static enum status runs_open(struct optimizer_state *state, const struct param_table *table) {
    size_t n = 0;
    for (size_t i = table->embeddings; i < table->n; i++)
        n += runs_cut(NULL, &table->at[i]);
    state->runs = calloc(n + 1, sizeof *state->runs);
    state->bucket_runs = calloc(table->n_buckets + 1, sizeof *state->bucket_runs);
    if (!state->runs || !state->bucket_runs)
        return status_set(STATUS_SYSTEM, "optimizer: no memory for %zu runs", n);
    n = 0;
    for (size_t l = 0; l < table->n_buckets; l++) {
        const struct param_bucket *bucket = &table->buckets[l];
        for (size_t i = l == 0 ? table->embeddings : bucket->first; i < bucket->first + bucket->n; i++)
            n += runs_cut(state->runs + n, &table->at[i]);
        state->bucket_runs[l + 1] = n;
    }
    return STATUS_OK;
}

static enum status shares_open(struct optimizer_state *state, const struct param_table *table, const double *shares) {
    state->shares = malloc((table->n_buckets + 1) * sizeof *state->shares);
    if (!state->shares)
        return status_set(STATUS_SYSTEM, "optimizer: no memory");
    for (size_t l = 0; l < table->n_buckets; l++)
        state->shares[l] = shares ? shares[l] : 1;
    return STATUS_OK;
}

// Rows that never get a gradient have moments that are never touched.
static void moments_rows(const struct optimizer *optimizer) {
    const struct param_table *table = optimizer->table;
    if (table->embeddings == 0)
        return;
    const struct param *last = &table->at[table->embeddings - 1];
    arena_small_pages(optimizer->exp_avg, (last->offset + last->size) * sizeof(float));
    arena_small_pages(optimizer->exp_avg_sq, (last->offset + last->size) * sizeof(float));
}

static enum status moments_open(struct optimizer *optimizer, struct optimizer_state *state) {
    uint64_t floats = optimizer->table->floats;
    if (floats > SIZE_MAX / sizeof(float) / 4)
        return status_set(STATUS_SYSTEM, "optimizer: %llu floats are too many", (unsigned long long)floats);
    TRY(arena_init(&state->arena, 2 * arena_piece(floats * sizeof(float)), true));
    optimizer->exp_avg = arena_take(&state->arena, floats * sizeof(float));
    optimizer->exp_avg_sq = arena_take(&state->arena, floats * sizeof(float));
    moments_rows(optimizer);
    return STATUS_OK;
}

static enum status kernels_open(struct optimizer_state *state) {
    enum isa isa;
    TRY(isa_choose(&isa));
    state->kernels = optim_kernels(isa);
    state->ops = ops_table(isa);
    if (!state->kernels || !state->ops)
        return status_set(STATUS_DEVICE, "optimizer: this build has no kernels for %s", isa_name(isa));
    return STATUS_OK;
}

static enum status optimizer_fill(struct optimizer *optimizer) {
    struct optimizer_state *state = optimizer->state = calloc(1, sizeof *state);
    struct optimizer_pending *pending = optimizer->pending = calloc(1, sizeof *pending);
    if (!state || !pending)
        return status_set(STATUS_SYSTEM, "optimizer: no memory");
    pending->due = calloc(optimizer->table->n_buckets + 1, sizeof *pending->due);
    if (!pending->due)
        return status_set(STATUS_SYSTEM, "optimizer: no memory");
    TRY(kernels_open(state));
    TRY(runs_open(state, optimizer->table));
    TRY(shares_open(state, optimizer->table, optimizer->options.shares));
    TRY(norm_open(&state->norm, optimizer->table));
    TRY(rows_open(&state->rows, optimizer->table));
    return moments_open(optimizer, state);
}

// eps must stay positive in float: rows without a gradient, and the padding of tiles, divide 0 by it.
static enum status options_check(const struct optimizer_options *o) {
    if (!(o->beta1 >= 0 && o->beta1 < 1 && o->beta2 >= 0 && o->beta2 < 1))
        return status_set(STATUS_USAGE, "train.betas: [%g, %g]: each must be at least 0 and below 1", o->beta1,
                          o->beta2);
    if (!((float)o->eps >= FLT_MIN && isfinite(o->eps)))
        return status_set(STATUS_USAGE, "train.eps: %g: must be at least %g", o->eps, (double)FLT_MIN);
    return STATUS_OK;
}

enum status optimizer_open(struct optimizer **out, const struct param_table *table, struct pool *pool, float *weights,
                           const struct optimizer_options *options) {
    *out = NULL;
    TRY(options_check(options));
    struct optimizer *optimizer = calloc(1, sizeof *optimizer);
    if (!optimizer)
        return status_set(STATUS_SYSTEM, "optimizer: no memory");
    optimizer->table = table;
    optimizer->pool = pool;
    optimizer->options = *options;
    optimizer->weights = weights;
    enum status status = optimizer_fill(optimizer);
    if (status != STATUS_OK) {
        optimizer_close(optimizer);
        return status;
    }
    *out = optimizer;
    return STATUS_OK;
}

void optimizer_close(struct optimizer *optimizer) {
    if (!optimizer)
        return;
    struct optimizer_state *state = optimizer->state;
    if (state) {
        arena_release(&state->arena);
        norm_close(&state->norm);
        rows_close(&state->rows);
        free(state->runs);
        free(state->bucket_runs);
        free(state->shares);
        free(state);
    }
    if (optimizer->pending)
        free(optimizer->pending->due);
    free(optimizer->pending);
    free(optimizer);
}

// min(1, clip / (norm + 1e-6)) in float, as torch.nn.utils.clip_grad_norm_.
static float clip_scale(double clip, double norm) {
    if (!(clip > 0))
        return 1;
    float scale = (float)clip / ((float)norm + 1e-6f);
    return scale < 1 ? scale : 1;
}

bool optimizer_takes(const struct optimizer *optimizer, double norm) {
    const double most = sqrt((double)FLT_MAX);
    return isfinite(norm) && norm * (double)clip_scale(optimizer->options.clip, norm) <= most;
}

struct adamw_rates rates_at(const struct optimizer *optimizer, unsigned l, uint64_t step, float scale) {
    const struct optimizer_options *o = &optimizer->options;
    double t = (double)step, lr = schedule_lr(&o->schedule, step - 1);
    lr *= ((const struct optimizer_state *)optimizer->state)->shares[l];
    return (struct adamw_rates){
        .scale = scale,
        .keep = (float)(1 - lr * o->weight_decay),
        .beta1 = (float)o->beta1,
        .beta2 = (float)o->beta2,
        .one_beta1 = (float)(1 - o->beta1),
        .one_beta2 = (float)(1 - o->beta2),
        .step = (float)(lr / (1 - pow(o->beta1, t))),
        .root = (float)(1 / sqrt(1 - pow(o->beta2, t))),
        .eps = (float)o->eps,
    };
}

double optimizer_step(struct optimizer *optimizer, const struct gradient *gradient, double norm) {
    struct optimizer_pending *pending = optimizer->pending;
    const struct optimizer_options *options = &optimizer->options;
    assert(pending->n_due == 0 && optimizer_takes(optimizer, norm));
    pending->gradient = gradient->values;
    pending->scale = clip_scale(options->clip, norm);
    for (size_t l = optimizer->table->frozen; l < optimizer->table->n_buckets; l++, pending->n_due++)
        pending->due[l] = true;
    optimizer->step++;
    if (optimizer->table->frozen == 0 && optimizer->table->rows > 0)
        rows_note(optimizer, gradient->rows);
    return schedule_lr(&options->schedule, optimizer->step - 1);
}

struct update_work {
    const struct optimizer *optimizer;
    const struct run *runs;
    struct adamw_rates rates; // with decay
};

static void run_copy(const struct optimizer *optimizer, const struct run *run) {
    const struct optimizer_state *state = optimizer->state;
    float *copy = optimizer->options.copy;
    if (copy && run->copied)
        state->ops->pairs_tile(copy + run->pairs, optimizer->weights + run->offset, run->n / PARAM_TILE);
}

static void update_task(void *context, size_t task, unsigned thread) {
    (void)thread;
    const struct update_work *work = context;
    const struct optimizer *optimizer = work->optimizer;
    const struct optimizer_state *state = optimizer->state;
    const struct run *run = &work->runs[task];
    struct adamw_rates rates = work->rates;
    rates.keep = run->decay ? rates.keep : 1;
    state->kernels->adamw(optimizer->weights + run->offset, optimizer->exp_avg + run->offset,
                          optimizer->exp_avg_sq + run->offset, optimizer->pending->gradient + run->offset, run->n,
                          &rates);
    run_copy(optimizer, run);
}

bool bucket_due(const struct optimizer *optimizer, unsigned l) {
    assert(l < optimizer->table->n_buckets);
    return optimizer->pending->due[l] || (l == 0 && ((const struct optimizer_state *)optimizer->state)->rows.behind);
}

static void bucket_update(struct optimizer *optimizer, unsigned l) {
    struct optimizer_pending *pending = optimizer->pending;
    struct optimizer_state *state = optimizer->state;
    struct update_work work = {.optimizer = optimizer,
                               .runs = state->runs + state->bucket_runs[l],
                               .rates = rates_at(optimizer, l, optimizer->step, pending->scale)};
    pool_run(optimizer->pool, update_task, &work, state->bucket_runs[l + 1] - state->bucket_runs[l]);
    if (l == 0 && optimizer->table->rows > 0)
        rows_update(optimizer);
    pending->due[l] = false;
    pending->n_due--;
}

void bucket_current(struct optimizer *optimizer, unsigned l, const struct row_set *reads) {
    assert(l < optimizer->table->n_buckets);
    if (optimizer->pending->due[l])
        bucket_update(optimizer, l);
    if (l == 0)
        rows_current(optimizer, reads);
}

void bucket_rows(const struct optimizer *optimizer, struct row_set *out, const struct row_set *reads) {
    const struct optimizer_state *state = optimizer->state;
    row_set_copy(out, reads);
    if (optimizer->pending->due[0])
        row_set_join(out, &state->rows.due);
}

void params_current(struct optimizer *optimizer) {
    for (unsigned l = 0; l < optimizer->table->n_buckets; l++)
        bucket_current(optimizer, l, NULL);
}

void optimizer_resume(struct optimizer *optimizer, uint64_t step) {
    assert(optimizer->pending->n_due == 0);
    optimizer->step = step;
    rows_resume(optimizer);
}

static void copy_task(void *context, size_t task, unsigned thread) {
    const struct optimizer *optimizer = context;
    (void)thread;
    run_copy(optimizer, &((const struct optimizer_state *)optimizer->state)->runs[task]);
}

void optimizer_copy(struct optimizer *optimizer) {
    const struct optimizer_state *state = optimizer->state;
    if (optimizer->options.copy)
        pool_run(optimizer->pool, copy_task, optimizer, state->bucket_runs[optimizer->table->n_buckets]);
}
