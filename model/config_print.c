// SPDX-License-Identifier: Apache-2.0
// A model_config as the config.json that Transformers reads.
#include "model/config.h"
#include "base/markup.h"

#include <jansson.h>
#include <stdlib.h>

static const char *architecture(const struct model_config *config) {
    bool answers = config->head == HEAD_QUESTION_ANSWERING;
    if (config->kind == MODEL_BERT)
        return answers ? "BertForQuestionAnswering" : "BertForSequenceClassification";
    return answers ? "RobertaForQuestionAnswering" : "RobertaForSequenceClassification";
}

// A failed set (no memory) leaves a key out; object_finish counts them.
static void put(json_t *object, unsigned *failed, const char *key, json_t *value) {
    if (json_object_set_new(object, key, value) != 0)
        ++*failed;
}

static void put_sizes(json_t *object, unsigned *failed, const struct model_config *config) {
    put(object, failed, "hidden_size", json_integer(config->hidden));
    put(object, failed, "num_hidden_layers", json_integer(config->layers));
    put(object, failed, "num_attention_heads", json_integer(config->heads));
    put(object, failed, "intermediate_size", json_integer(config->ffn));
    put(object, failed, "vocab_size", json_integer(config->vocab));
    put(object, failed, "max_position_embeddings", json_integer(config->max_positions));
    put(object, failed, "type_vocab_size", json_integer(config->types));
    put(object, failed, "pad_token_id", json_integer(config->pad_id));
    if (config->bos_id >= 0)
        put(object, failed, "bos_token_id", json_integer(config->bos_id));
    if (config->eos_id >= 0)
        put(object, failed, "eos_token_id", json_integer(config->eos_id));
}

static void put_numbers(json_t *object, unsigned *failed, const struct model_config *config) {
    put(object, failed, "hidden_act", json_string("gelu"));
    put(object, failed, "position_embedding_type", json_string("absolute"));
    put(object, failed, "layer_norm_eps", json_real(config->layer_norm_eps));
    put(object, failed, "initializer_range", json_real(config->initializer_range));
    put(object, failed, "hidden_dropout_prob", json_real(config->dropout_hidden));
    put(object, failed, "attention_probs_dropout_prob", json_real(config->dropout_attention));
    put(object, failed, "classifier_dropout", json_real(config->dropout_classifier));
}

static void put_labels(json_t *object, unsigned *failed, const struct model_config *config) {
    json_t *by_id = json_object(), *by_name = json_object();
    for (uint32_t i = 0; i < config->labels; i++) {
        char id[16], buffer[24];
        const char *name = model_label_name(config, i, buffer);
        snprintf(id, sizeof id, "%u", i);
        put(by_id, failed, id, json_string(name));
        put(by_name, failed, name, json_integer(i));
    }
    put(object, failed, "id2label", by_id);
    put(object, failed, "label2id", by_name);
    put(object, failed, "problem_type", json_string("single_label_classification"));
}

// 15 digits print 1e-05 as a person would; a value that needs 17 gets them.
static bool is_short(double value) {
    char digits[40];
    snprintf(digits, sizeof digits, "%.15g", value);
    return strtod(digits, NULL) == value;
}

static size_t digits_needed(const struct model_config *config) {
    bool all = is_short(config->layer_norm_eps) && is_short(config->initializer_range) &&
               is_short(config->dropout_hidden) && is_short(config->dropout_attention) &&
               is_short(config->dropout_classifier);
    return all ? 15 : 17;
}

enum status model_config_print(char **out, const struct model_config *config) {
    unsigned failed = 0;
    json_t *object = json_object();
    put(object, &failed, "architectures", json_pack("[s]", architecture(config)));
    put(object, &failed, "model_type", json_string(config->kind == MODEL_BERT ? "bert" : "roberta"));
    put_sizes(object, &failed, config);
    put_numbers(object, &failed, config);
    if (config->head == HEAD_CLASSIFICATION)
        put_labels(object, &failed, config);
    put(object, &failed, "dtype", json_string(config->stored_bf16 ? "bfloat16" : "float32"));
    put(object, &failed, "torch_dtype", json_string(config->stored_bf16 ? "bfloat16" : "float32"));
    *out = failed ? NULL : json_dumps_whole(object, JSON_INDENT(2) | JSON_REAL_PRECISION(digits_needed(config)));
    json_decref(object);
    return *out ? STATUS_OK : status_set(STATUS_SYSTEM, "config.json: no memory");
}
