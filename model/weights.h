// SPDX-License-Identifier: Apache-2.0
// The parameter table of a model, and its weights from and to Hugging Face directories.
#ifndef FINETUNED_MODEL_WEIGHTS_H
#define FINETUNED_MODEL_WEIGHTS_H

#include "base/param.h"
#include "base/pool.h"
#include "base/status.h"
#include "model/config.h"
#include "model/weight_files.h"

#include <stdbool.h>

// Order of the parameters within the buckets of embeddings, an encoder layer and the head. Query, key and value are
// neighbours, weights and biases: with hidden % 32 == 0 their tiles are those of one matrix (3*hidden, hidden).
enum embedding_param {
    EMBEDDING_WORDS,
    EMBEDDING_POSITIONS,
    EMBEDDING_TYPES,
    EMBEDDING_NORM,
    EMBEDDING_NORM_BIAS,
    EMBEDDING_PARAMS
};
enum layer_param {
    LAYER_QUERY,
    LAYER_KEY,
    LAYER_VALUE,
    LAYER_QUERY_BIAS,
    LAYER_KEY_BIAS,
    LAYER_VALUE_BIAS,
    LAYER_CONTEXT, // attention.output.dense
    LAYER_CONTEXT_BIAS,
    LAYER_NORM1,
    LAYER_NORM1_BIAS,
    LAYER_FFN, // intermediate.dense
    LAYER_FFN_BIAS,
    LAYER_OUTPUT, // output.dense
    LAYER_OUTPUT_BIAS,
    LAYER_NORM2,
    LAYER_NORM2_BIAS,
    LAYER_PARAMS
};
enum head_param { HEAD_DENSE, HEAD_DENSE_BIAS, HEAD_OUTPUT, HEAD_OUTPUT_BIAS, HEAD_PARAMS }; // dense: BERT's pooler
enum qa_head_param { QA_OUTPUT, QA_OUTPUT_BIAS, QA_PARAMS };                                 // qa_outputs

static inline const struct param *weights_param(const struct param_table *table, unsigned bucket, unsigned i) {
    return &table->at[table->buckets[bucket].first + i];
}

// Fills the table with Hugging Face's names for the model class (`roberta.…`/`bert.…` prefix, classifier.dense/out_proj
// or bert.pooler + classifier; QA: qa_outputs). Decay is off for biases and LayerNorm. Buckets: base/param.h.
enum status weights_table(struct param_table *out, const struct model_config *config);
const char *weights_prefix(const struct model_config *config); // "roberta." or "bert."

// Whether the files (model/weight_files.h) hold every encoder weight of the table in its shape: known before memory is
// taken for them. STATUS_DATA as weights_load.
enum status weights_check(const struct param_table *table, const struct model_config *config,
                          const struct weight_files *files);

struct ops;

struct weights_report {
    bool head_new;    // the head was not in the file (or of another shape) and was initialised
    bool pooler_new;  // BERT: pooler missing, initialised
    unsigned ignored; // tensors of the file that the model has no use for (lm_head, position_ids, …)
    char note[256];   // one line for the log, "" if nothing to say
};
// Loads the files' weights into the arena (weights, table->floats floats, zeroed), copied by `pool` (NULL: this thread
// alone). Accepts the prefixes roberta., bert., or none and BERT's old gamma/beta. A missing encoder weight or a wrong
// shape: STATUS_DATA naming tensor and both shapes. A missing head: new from `seed`. If `base` has a head, rows of its
// output are permuted so that they follow config->label_names by name where the two hold the same names; else the head
// is new (report says so).
enum status weights_load(float *arena, struct weights_report *report, const struct param_table *table,
                         const struct model_config *config, const struct model_config *base,
                         const struct weight_files *files, uint64_t seed, struct pool *pool);
// All weights at random: normal(0, initializer_range), biases 0, LayerNorm 1 and 0, pad row 0. The same bits on any
// number of threads and by any instruction set's ops.
enum status weights_random(float *arena, const struct param_table *table, const struct model_config *config,
                           uint64_t seed, struct pool *pool, const struct ops *ops);
// Writes model.safetensors (F32 or BF16) in Hugging Face's names and layout, metadata {"format": "pt"}.
enum status weights_save(const float *arena, const struct param_table *table, const char *path, bool bf16);

#endif
