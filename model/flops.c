// SPDX-License-Identifier: Apache-2.0
#include "model/flops.h"

#include <string.h>

// Elements of a bucket's GEMM weights, or of those of its keys and values alone.
static double gemm_elements(const struct param_table *table, unsigned bucket, bool only_key_value) {
    const struct param_bucket *b = &table->buckets[bucket];
    uint64_t sum = 0;
    for (size_t i = b->first; i < b->first + b->n; i++) {
        const struct param *p = &table->at[i];
        bool key_value = strstr(p->name, ".self.key.") || strstr(p->name, ".self.value.");
        if (p->layout == PARAM_TILES && (!only_key_value || key_value))
            sum += param_elements(p);
    }
    return (double)sum;
}

// Layers `first` … L and the head.
static double flops_from(const struct param_table *table, const struct model_config *config, unsigned first,
                         double tokens, double squares, double texts) {
    bool all = config->head == HEAD_QUESTION_ANSWERING;
    unsigned last = config->layers;
    double head = gemm_elements(table, last + 1, false), attention = 0;
    double by_token = all ? head : 0, by_text = all ? 0 : head;
    for (unsigned l = first; l < last; l++) {
        by_token += gemm_elements(table, l, false);
        attention += squares;
    }
    if (first <= last) {
        double layer = gemm_elements(table, last, false), key_value = gemm_elements(table, last, true);
        by_token += all ? layer : key_value;
        by_text += all ? 0 : layer - key_value;
        attention += all ? squares : tokens;
    }
    return 2 * tokens * by_token + 2 * texts * by_text + 4.0 * config->hidden * attention;
}

double flops_forward(const struct param_table *table, const struct model_config *config, double tokens, double squares,
                     double texts) {
    return flops_from(table, config, 1, tokens, squares, texts);
}

double flops_step(const struct param_table *table, const struct model_config *config, double tokens, double squares,
                  double texts) {
    unsigned trained = table->frozen > 1 ? (unsigned)table->frozen : 1;
    return flops_from(table, config, 1, tokens, squares, texts) +
           2 * flops_from(table, config, trained, tokens, squares, texts);
}
