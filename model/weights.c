// SPDX-License-Identifier: Apache-2.0
// Weights at random, and weights out to a safetensors file.
#include "model/weights.h"

#include "base/hash.h"
#include "base/rng.h"
#include "model/ops.h"
#include "model/safetensors.h"
#include "model/weights_fill.h"

#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *string, const char *end) {
    size_t size = strlen(string), end_size = strlen(end);
    return size >= end_size && strcmp(string + size - end_size, end) == 0;
}

enum status weights_buffer(float **out, size_t *floats, const struct param_table *table, size_t copies) {
    uint64_t widest = 1;
    for (size_t i = 0; i < table->n; i++)
        if (table->at[i].shape[1] > widest)
            widest = table->at[i].shape[1];
    *floats = widest * PARAM_TILE;
    *out = calloc(copies, *floats * sizeof **out);
    return *out ? STATUS_OK : status_set(STATUS_SYSTEM, "weights: no memory for %u rows", PARAM_TILE);
}

// ---- tasks

enum status weights_tasks_init(struct weights_tasks *out, const struct param_table *table) {
    *out = (struct weights_tasks){.table = table, .first = calloc(table->n + 1, sizeof *out->first)};
    if (!out->first)
        return status_set(STATUS_SYSTEM, "weights: no memory for %zu parameters", table->n);
    for (size_t i = 0; i < table->n; i++) {
        out->first[i] = out->n;
        out->n += (table->at[i].shape[0] + PARAM_TILE - 1) / PARAM_TILE;
    }
    return STATUS_OK;
}

void weights_tasks_release(struct weights_tasks *tasks) {
    free(tasks->first);
    *tasks = (struct weights_tasks){0};
}

struct weights_rows weights_task(const struct weights_tasks *tasks, size_t task) {
    size_t low = 0, high = tasks->table->n;
    while (high - low > 1) { // the last parameter whose first task is not behind this one
        size_t middle = low + (high - low) / 2;
        if (tasks->first[middle] <= task)
            low = middle;
        else
            high = middle;
    }
    const struct param *param = &tasks->table->at[low];
    uint64_t row = (task - tasks->first[low]) * PARAM_TILE, left = param->shape[0] - row;
    return (struct weights_rows){param, row, left < PARAM_TILE ? left : PARAM_TILE};
}

// ---- at random

// Transformers' _init_weights: matrices and embeddings normal(0, initializer_range), the pad token's row 0, biases 0,
// LayerNorm weights 1.
static bool constant_fill(float *rows, const struct weights_rows *at) {
    float value = ends_with(at->param->name, "LayerNorm.weight") ? 1.0f : 0.0f;
    for (uint64_t i = 0; i < at->rows && at->param->layout == PARAM_VECTOR; i++)
        rows[i] = value;
    return at->param->layout == PARAM_VECTOR;
}

static void pad_clear(float *rows, const struct weights_rows *at, const struct model_config *config) {
    uint64_t pad = (uint64_t)config->pad_id, k = at->param->shape[1];
    if (ends_with(at->param->name, "word_embeddings.weight") && pad >= at->row && pad < at->row + at->rows)
        memset(rows + (pad - at->row) * k, 0, k * sizeof *rows);
}

// The stream depends on (seed, name) alone.
void weights_draw(float *arena, const struct param *param, const struct model_config *config, uint64_t seed,
                  float *rows) {
    struct rng rng = rng_stream(seed, hash64(param->name, strlen(param->name)));
    for (uint64_t row = 0; row < param->shape[0]; row += PARAM_TILE) {
        uint64_t left = param->shape[0] - row;
        struct weights_rows at = {param, row, left < PARAM_TILE ? left : PARAM_TILE};
        if (!constant_fill(rows, &at))
            for (uint64_t i = 0; i < at.rows * param->shape[1]; i++)
                rows[i] = (float)(config->initializer_range * rng_normal(&rng));
        param_write_rows(arena, param, rows, row, at.rows);
    }
}

struct drawing {
    float *arena;
    const struct model_config *config;
    const struct ops *ops;
    uint64_t seed;
    struct weights_tasks tasks;
    float *rows; // (threads, row_floats)
    size_t row_floats;
};

// PARAM_TILE rows have a stream of their own: of (seed, name, number of the first row).
static void drawing_run(void *context, size_t task, unsigned thread) {
    const struct drawing *d = context;
    struct weights_rows at = weights_task(&d->tasks, task);
    float *rows = d->rows + thread * d->row_floats;
    uint64_t key = rng_mix(rng_mix(d->seed, hash64(at.param->name, strlen(at.param->name))), at.row);
    if (!constant_fill(rows, &at)) {
        d->ops->normals(rows, at.rows * at.param->shape[1], key, (float)d->config->initializer_range);
        pad_clear(rows, &at, d->config);
    }
    param_write_rows(d->arena, at.param, rows, at.row, at.rows);
}

enum status weights_random(float *arena, const struct param_table *table, const struct model_config *config,
                           uint64_t seed, struct pool *pool, const struct ops *ops) {
    struct drawing d = {.arena = arena, .config = config, .ops = ops, .seed = seed};
    TRY(weights_tasks_init(&d.tasks, table));
    enum status status = weights_buffer(&d.rows, &d.row_floats, table, pool_threads(pool));
    if (status == STATUS_OK)
        pool_run(pool, drawing_run, &d, d.tasks.n);
    free(d.rows);
    weights_tasks_release(&d.tasks);
    return status;
}

// ---- to a file

static enum status param_put(struct safetensors_writer *w, const float *arena, const struct param *param, float *rows) {
    for (uint64_t row = 0; row < param->shape[0]; row += PARAM_TILE) {
        uint64_t n = param->shape[0] - row < PARAM_TILE ? param->shape[0] - row : PARAM_TILE;
        param_read_rows(rows, arena, param, row, n);
        TRY(safetensors_put(w, rows, n * param->shape[1]));
    }
    return STATUS_OK;
}

static enum status params_put(struct safetensors_writer *w, const float *arena, const struct param_table *table,
                              enum tensor_dtype dtype, float *rows) {
    for (size_t i = 0; i < table->n; i++)
        TRY(safetensors_announce(w, table->at[i].name, dtype, table->at[i].shape, table->at[i].rank));
    for (size_t i = 0; i < table->n; i++)
        TRY(param_put(w, arena, &table->at[i], rows));
    return STATUS_OK;
}

enum status weights_save(const float *arena, const struct param_table *table, const char *path, bool bf16) {
    struct safetensors_writer *w;
    float *rows;
    size_t floats;
    TRY(weights_buffer(&rows, &floats, table, 1));
    enum status status = safetensors_begin(&w, path);
    if (status == STATUS_OK) {
        status = params_put(w, arena, table, bf16 ? TENSOR_BF16 : TENSOR_F32, rows);
        if (status == STATUS_OK)
            status = safetensors_commit(w);
        else
            safetensors_rollback(w);
    }
    free(rows);
    return status;
}
