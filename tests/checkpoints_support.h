// SPDX-License-Identifier: Apache-2.0
// A small model's parameters and state for the tests of checkpoints: tiles with a last block that is not full,
// embeddings of many pieces, vectors, and a matrix under 128 KiB.
#ifndef FINETUNED_TESTS_CHECKPOINTS_SUPPORT_H
#define FINETUNED_TESTS_CHECKPOINTS_SUPPORT_H

#include "base/file.h"
#include "base/job.h"
#include "base/rng.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/pieces.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sample {
    struct param_table table;
    struct checkpoint_arenas arenas;
};

static inline enum status sample_table(struct param_table *table) {
    *table = (struct param_table){0};
    TRY(param_add(table, "bert.embeddings.word_embeddings.weight", PARAM_ROWS, 1003, 48, true, 0));
    TRY(param_add(table, "bert.embeddings.LayerNorm.bias", PARAM_VECTOR, 48, 1, false, 0));
    TRY(param_add(table, "bert.encoder.layer.0.intermediate.dense.weight", PARAM_TILES, 437, 96, true, 1));
    TRY(param_add(table, "bert.encoder.layer.0.intermediate.dense.bias", PARAM_VECTOR, 437, 1, false, 1));
    TRY(param_add(table, "bert.encoder.layer.0.output.dense.weight", PARAM_TILES, 48, 437, true, 1));
    TRY(param_add(table, "classifier.weight", PARAM_TILES, 3, 48, true, 2));
    TRY(param_add(table, "classifier.bias", PARAM_VECTOR, 3, 1, false, 2));
    return param_finish(table);
}

// Values of element (row, column) of a tensor, by arena: the same whatever the layout; some are denormal or negative
// zero.
static inline void sample_fill_arena(float *arena, const struct param_table *table, uint64_t seed) {
    for (size_t i = 0; i < table->n; i++) {
        const struct param *param = &table->at[i];
        struct rng rng = rng_stream(seed, i);
        float *row = calloc(param->shape[1], sizeof *row);
        for (uint64_t r = 0; r < param->shape[0]; r++) {
            for (uint64_t c = 0; c < param->shape[1]; c++)
                row[c] = (float)rng_normal(&rng);
            if (r % 7 == 0)
                row[0] = -0.0f;
            if (r % 11 == 0)
                row[0] = 1e-42f;
            if (param->layout == PARAM_TILES) {
                float *at = arena + param->offset + r / PARAM_TILE * param->shape[1] * PARAM_TILE + r % PARAM_TILE;
                for (uint64_t c = 0; c < param->shape[1]; c++)
                    at[c * PARAM_TILE] = row[c];
            } else {
                memcpy(arena + param->offset + r * param->shape[1], row, param->shape[1] * sizeof *row);
            }
        }
        free(row);
    }
}

static inline void sample_arenas(struct checkpoint_arenas *arenas, const struct param_table *table) {
    arenas->weights = calloc(table->floats, sizeof(float));
    arenas->exp_avg = calloc(table->floats, sizeof(float));
    arenas->exp_avg_sq = calloc(table->floats, sizeof(float));
}

static inline void sample_fill(struct sample *sample, uint64_t seed) {
    sample_fill_arena(sample->arenas.weights, &sample->table, seed * 3);
    sample_fill_arena(sample->arenas.exp_avg, &sample->table, seed * 3 + 1);
    sample_fill_arena(sample->arenas.exp_avg_sq, &sample->table, seed * 3 + 2);
}

static inline void sample_arenas_free(struct checkpoint_arenas *arenas) {
    free(arenas->weights);
    free(arenas->exp_avg);
    free(arenas->exp_avg_sq);
    *arenas = (struct checkpoint_arenas){0};
}

static inline bool sample_same(const struct checkpoint_arenas *a, const struct checkpoint_arenas *b,
                               const struct param_table *table) {
    size_t size = table->floats * sizeof(float);
    return memcmp(a->weights, b->weights, size) == 0 && memcmp(a->exp_avg, b->exp_avg, size) == 0 &&
           memcmp(a->exp_avg_sq, b->exp_avg_sq, size) == 0;
}

// `config` and `labels` are borrowed literals: not for trainer_state_release.
static inline struct trainer_state sample_state(uint64_t step) {
    return (struct trainer_state){.step = step,
                                  .cursor = step + 2,
                                  .epoch = 1 + step / 100,
                                  .seed = 0xfedcba9876543210u,
                                  .world = 1,
                                  .batch = 16,
                                  .parts = 4,
                                  .precision = "fp32",
                                  .steps_total = 600,
                                  .skips_in_a_row = 1,
                                  .best_metric = 0.123456789012345678,
                                  .evaluations_without_gain = 2,
                                  .config_hash = "0123456789abcdef0123456789abcdef",
                                  .data_hash = "00112233445566778899aabbccddeeff",
                                  .base_hash = "ffeeddccbbaa99887766554433221100",
                                  .format = CHECKPOINT_FORMAT,
                                  .run_id = "11111111111111111111111111111111",
                                  .config = (char *)(uintptr_t) "{\"train.lr\": 5e-05, \"text\": \"\xc3\xa9\"}",
                                  .labels = (char *)(uintptr_t) "[\"anger\", \"joy\", \"\xf0\x9f\x98\x8e\"]"};
}

#endif
