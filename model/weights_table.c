// SPDX-License-Identifier: Apache-2.0
// The parameter table of RoBERTa and BERT for sequence classification and question answering, in the order of Hugging
// Face's modules, but with query, key and value side by side.
#include "model/weights.h"

#include <stdio.h>

const char *weights_prefix(const struct model_config *config) {
    return config->kind == MODEL_BERT ? "bert." : "roberta.";
}

struct builder {
    struct param_table *table;
    const char *prefix; // of the names added next
    unsigned bucket;
};

static enum status add(struct builder *b, const char *name, enum param_layout layout, uint64_t rows, uint64_t columns,
                       bool decay) {
    char full[PARAM_NAME + 64];
    snprintf(full, sizeof full, "%s%s", b->prefix, name);
    return param_add(b->table, full, layout, rows, columns, decay, b->bucket);
}

static enum status matrix_add(struct builder *b, const char *name, uint64_t rows, uint64_t columns) {
    return add(b, name, PARAM_TILES, rows, columns, true);
}

static enum status vector_add(struct builder *b, const char *name, uint64_t n) {
    return add(b, name, PARAM_VECTOR, n, 1, false);
}

static enum status embeddings_add(struct builder *b, const struct model_config *config) {
    TRY(add(b, "embeddings.word_embeddings.weight", PARAM_ROWS, config->vocab, config->hidden, true));
    TRY(add(b, "embeddings.position_embeddings.weight", PARAM_ROWS, config->max_positions, config->hidden, true));
    TRY(add(b, "embeddings.token_type_embeddings.weight", PARAM_ROWS, config->types, config->hidden, true));
    TRY(vector_add(b, "embeddings.LayerNorm.weight", config->hidden));
    return vector_add(b, "embeddings.LayerNorm.bias", config->hidden);
}

static enum status layer_add(struct builder *b, const struct model_config *config) {
    uint64_t hidden = config->hidden, ffn = config->ffn;
    TRY(matrix_add(b, "attention.self.query.weight", hidden, hidden));
    TRY(matrix_add(b, "attention.self.key.weight", hidden, hidden));
    TRY(matrix_add(b, "attention.self.value.weight", hidden, hidden));
    TRY(vector_add(b, "attention.self.query.bias", hidden));
    TRY(vector_add(b, "attention.self.key.bias", hidden));
    TRY(vector_add(b, "attention.self.value.bias", hidden));
    TRY(matrix_add(b, "attention.output.dense.weight", hidden, hidden));
    TRY(vector_add(b, "attention.output.dense.bias", hidden));
    TRY(vector_add(b, "attention.output.LayerNorm.weight", hidden));
    TRY(vector_add(b, "attention.output.LayerNorm.bias", hidden));
    TRY(matrix_add(b, "intermediate.dense.weight", ffn, hidden));
    TRY(vector_add(b, "intermediate.dense.bias", ffn));
    TRY(matrix_add(b, "output.dense.weight", hidden, ffn));
    TRY(vector_add(b, "output.dense.bias", hidden));
    TRY(vector_add(b, "output.LayerNorm.weight", hidden));
    return vector_add(b, "output.LayerNorm.bias", hidden);
}

static enum status head_add(struct builder *b, const struct model_config *config) {
    bool bert = config->kind == MODEL_BERT;
    b->prefix = "";
    if (config->head == HEAD_QUESTION_ANSWERING) {
        TRY(matrix_add(b, "qa_outputs.weight", config->labels, config->hidden));
        return vector_add(b, "qa_outputs.bias", config->labels);
    }
    TRY(matrix_add(b, bert ? "bert.pooler.dense.weight" : "classifier.dense.weight", config->hidden, config->hidden));
    TRY(vector_add(b, bert ? "bert.pooler.dense.bias" : "classifier.dense.bias", config->hidden));
    TRY(matrix_add(b, bert ? "classifier.weight" : "classifier.out_proj.weight", config->labels, config->hidden));
    return vector_add(b, bert ? "classifier.bias" : "classifier.out_proj.bias", config->labels);
}

static enum status table_fill(struct param_table *table, const struct model_config *config) {
    struct builder b = {table, weights_prefix(config), 0};
    TRY(embeddings_add(&b, config));
    for (unsigned l = 1; l <= config->layers; l++) {
        char prefix[64];
        snprintf(prefix, sizeof prefix, "%sencoder.layer.%u.", weights_prefix(config), l - 1);
        b.prefix = prefix;
        b.bucket = l;
        TRY(layer_add(&b, config));
    }
    b.bucket = config->layers + 1;
    TRY(head_add(&b, config));
    return param_finish(table);
}

enum status weights_table(struct param_table *out, const struct model_config *config) {
    *out = (struct param_table){0};
    enum status status = table_fill(out, config);
    if (status != STATUS_OK)
        param_table_release(out);
    return status;
}
