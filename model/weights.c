// SPDX-License-Identifier: Apache-2.0
// Weights at random, and weights out to a safetensors file.
#include "model/weights.h"

#include "base/hash.h"
#include "base/pulse.h"
#include "base/rng.h"
#include "model/safetensors.h"
#include "model/weights_fill.h"

#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *string, const char *end) {
    size_t size = strlen(string), end_size = strlen(end);
    return size >= end_size && strcmp(string + size - end_size, end) == 0;
}

enum status weights_buffer(float **out, const struct param_table *table) {
    uint64_t widest = 1;
    for (size_t i = 0; i < table->n; i++)
        if (table->at[i].shape[1] > widest)
            widest = table->at[i].shape[1];
    *out = calloc(widest, PARAM_TILE * sizeof **out);
    return *out ? STATUS_OK : status_set(STATUS_SYSTEM, "weights: no memory for %u rows", PARAM_TILE);
}

static void rows_draw(float *out, uint64_t n, struct rng *rng, double range) {
    for (uint64_t i = 0; i < n; i++)
        out[i] = (float)(range * rng_normal(rng));
}

// Transformers' _init_weights: matrices and embeddings normal(0, initializer_range), the pad token's row 0, biases 0,
// LayerNorm weights 1. The stream depends on (seed, name) alone.
void weights_draw(float *arena, const struct param *param, const struct model_config *config, uint64_t seed,
                  float *rows) {
    struct rng rng = rng_stream(seed, hash64(param->name, strlen(param->name)));
    bool words = ends_with(param->name, "word_embeddings.weight");
    float constant = ends_with(param->name, "LayerNorm.weight") ? 1.0f : 0.0f;
    for (uint64_t row = 0; row < param->shape[0]; row += PARAM_TILE) {
        uint64_t n = param->shape[0] - row < PARAM_TILE ? param->shape[0] - row : PARAM_TILE, k = param->shape[1];
        if (param->layout != PARAM_VECTOR)
            rows_draw(rows, n * k, &rng, config->initializer_range);
        else
            for (uint64_t i = 0; i < n; i++)
                rows[i] = constant;
        uint64_t pad = (uint64_t)config->pad_id;
        if (words && pad >= row && pad < row + n)
            memset(rows + (pad - row) * k, 0, k * sizeof *rows);
        param_write_rows(arena, param, rows, row, n);
    }
}

enum status weights_random(float *arena, const struct param_table *table, const struct model_config *config,
                           uint64_t seed) {
    float *rows;
    TRY(weights_buffer(&rows, table));
    for (size_t i = 0; i < table->n; i++) {
        weights_draw(arena, &table->at[i], config, seed, rows);
        pulse_beat();
    }
    free(rows);
    return STATUS_OK;
}

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
    TRY(weights_buffer(&rows, table));
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
