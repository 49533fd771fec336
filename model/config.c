// SPDX-License-Identifier: Apache-2.0
#include "model/config.h"

#include <stdlib.h>
#include <string.h>

void model_config_release(struct model_config *config) {
    labels_release(&config->label_names);
    *config = (struct model_config){0};
}

static enum status names_copy(struct labels *out, const struct labels *in) {
    *out = (struct labels){0};
    if (in->n == 0)
        return STATUS_OK;
    out->names = calloc(in->n, sizeof *out->names);
    if (!out->names)
        return status_set(STATUS_SYSTEM, "labels: no memory");
    for (uint32_t i = 0; i < in->n; i++, out->n++)
        if (!(out->names[i] = strdup(in->names[i]))) {
            labels_release(out);
            return status_set(STATUS_SYSTEM, "labels: no memory");
        }
    return STATUS_OK;
}

enum status model_config_copy(struct model_config *out, const struct model_config *in) {
    struct labels names;
    TRY(names_copy(&names, &in->label_names));
    *out = *in;
    out->label_names = names;
    return STATUS_OK;
}

void model_config_set_spans(struct model_config *config) {
    config->head = HEAD_QUESTION_ANSWERING;
    labels_release(&config->label_names);
    config->labels = 2;
    config->has_labels = false;
}

void model_config_set_labels(struct model_config *config, const struct labels *labels, enum status *status) {
    struct labels names;
    *status = names_copy(&names, labels);
    if (*status != STATUS_OK)
        return;
    labels_release(&config->label_names);
    config->label_names = names;
    config->labels = labels->n;
    config->has_labels = true;
}

const char *model_label_name(const struct model_config *config, uint32_t id, char buffer[24]) {
    if (id < config->label_names.n)
        return config->label_names.names[id];
    snprintf(buffer, 24, "LABEL_%u", id);
    return buffer;
}

enum status model_config_random(struct model_config *out, const char *name, uint32_t vocab, int32_t pad_id) {
    static const struct {
        const char *name;
        uint32_t layers, hidden, heads;
    } shapes[] = {{"random:tiny", 2, 64, 4}, {"random:mini", 6, 384, 12}, {"random:base", 12, 768, 12}};
    size_t i = 0;
    while (i < 3 && strcmp(name, shapes[i].name) != 0)
        i++;
    if (i == 3)
        return status_set(STATUS_USAGE, "model.base: %s is not random:tiny, random:mini or random:base", name);
    *out = (struct model_config){
        .kind = MODEL_ROBERTA,
        .head = HEAD_CLASSIFICATION,
        .layers = shapes[i].layers,
        .hidden = shapes[i].hidden,
        .heads = shapes[i].heads,
        .ffn = 4 * shapes[i].hidden,
        .vocab = vocab,
        .max_positions = 512 + (uint32_t)pad_id + 1,
        .types = 1,
        .labels = 2,
        .pad_id = pad_id,
        .bos_id = pad_id == 1 ? 0 : -1,
        .eos_id = pad_id == 1 ? 2 : -1,
        .layer_norm_eps = 1e-5,
        .initializer_range = 0.02,
        .dropout_hidden = 0.1,
        .dropout_attention = 0.1,
        .dropout_classifier = 0.1,
        .has_head_architecture = true,
    };
    return STATUS_OK;
}

uint32_t model_first_position(const struct model_config *config) {
    return config->kind == MODEL_ROBERTA ? (uint32_t)config->pad_id + 1 : 0;
}

uint32_t model_usable_length(const struct model_config *config) {
    return config->max_positions - model_first_position(config);
}
