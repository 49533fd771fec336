// SPDX-License-Identifier: Apache-2.0
// config.json to a model_config. What a key means and its default when it is missing follow Transformers'
// BertConfig and RobertaConfig; sizes have no default here, since a model without them is not one we can know.
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "model/config.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct parse {
    const json_t *root;
    const char *name; // of the file, for messages
};

static enum status bad(const struct parse *parse, const char *key, const char *what) {
    const json_t *value = json_object_get(parse->root, key);
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    enum status status =
        status_set(STATUS_DATA, "%s: %s is %.80s: %s", parse->name, key, text ? text : "missing", what);
    free(text);
    return status;
}

// A key that is missing or null.
static bool is_absent(const struct parse *parse, const char *key) {
    const json_t *value = json_object_get(parse->root, key);
    return !value || json_is_null(value);
}

static enum status integer(int64_t *out, const struct parse *parse, const char *key, int64_t low, int64_t high) {
    const json_t *value = json_object_get(parse->root, key);
    char range[96];
    snprintf(range, sizeof range, "a whole number from %lld to %lld is needed", (long long)low, (long long)high);
    if (!json_is_integer(value) || json_integer_value(value) < low || json_integer_value(value) > high)
        return bad(parse, key, range);
    *out = json_integer_value(value);
    return STATUS_OK;
}

static enum status size_read(uint32_t *out, const struct parse *parse, const char *key, uint32_t high) {
    int64_t value;
    TRY(integer(&value, parse, key, 1, high));
    *out = (uint32_t)value;
    return STATUS_OK;
}

static enum status number(double *out, const struct parse *parse, const char *key, double missing, double high) {
    *out = missing;
    if (is_absent(parse, key))
        return STATUS_OK;
    const json_t *value = json_object_get(parse->root, key);
    *out = json_number_value(value);
    if (!json_is_number(value) || !(*out >= 0) || !(*out < high))
        return bad(parse, key,
                   high == 1 ? "a number from 0 to below 1 is needed" : "a small number, 0 or above, is needed");
    return STATUS_OK;
}

static enum status string_among(const struct parse *parse, const char *key, const char *const *allowed,
                                const char *hint) {
    if (is_absent(parse, key))
        return STATUS_OK;
    const char *value = json_string_value(json_object_get(parse->root, key));
    for (; value && *allowed; allowed++)
        if (strcmp(value, *allowed) == 0)
            return STATUS_OK;
    return bad(parse, key, hint);
}

static enum status kind_read(struct model_config *out, const struct parse *parse) {
    const char *type = json_string_value(json_object_get(parse->root, "model_type"));
    if (!type || (strcmp(type, "roberta") != 0 && strcmp(type, "bert") != 0))
        return bad(parse, "model_type", "only roberta and bert models are known");
    out->kind = strcmp(type, "bert") == 0 ? MODEL_BERT : MODEL_ROBERTA;
    return STATUS_OK;
}

static bool ends_with(const char *string, const char *end) {
    size_t size = strlen(string), end_size = strlen(end);
    return size >= end_size && strcmp(string + size - end_size, end) == 0;
}

// The head that the first known entry of architectures names; classification if none does ("BertModel", …ForMaskedLM).
static enum status head_read(struct model_config *out, const struct parse *parse) {
    const json_t *list = json_object_get(parse->root, "architectures"), *entry;
    size_t i;
    if (!is_absent(parse, "architectures") && !json_is_array(list))
        return bad(parse, "architectures", "a list of class names is needed");
    json_array_foreach(list, i, entry) {
        const char *name = json_string_value(entry);
        if (!name)
            return bad(parse, "architectures", "a list of class names is needed");
        if (out->has_head_architecture)
            continue;
        if (ends_with(name, "ForQuestionAnswering"))
            out->head = HEAD_QUESTION_ANSWERING;
        out->has_head_architecture =
            ends_with(name, "ForSequenceClassification") || out->head == HEAD_QUESTION_ANSWERING;
    }
    return STATUS_OK;
}

static enum status sizes_read(struct model_config *out, const struct parse *parse) {
    TRY(size_read(&out->layers, parse, "num_hidden_layers", MODEL_LAYERS_MAX));
    TRY(size_read(&out->hidden, parse, "hidden_size", MODEL_HIDDEN_MAX));
    TRY(size_read(&out->heads, parse, "num_attention_heads", MODEL_HEADS_MAX));
    TRY(size_read(&out->ffn, parse, "intermediate_size", MODEL_FFN_MAX));
    TRY(size_read(&out->vocab, parse, "vocab_size", MODEL_VOCAB_MAX));
    TRY(size_read(&out->max_positions, parse, "max_position_embeddings", MODEL_POSITIONS_MAX));
    out->types = 2;
    if (!is_absent(parse, "type_vocab_size"))
        TRY(size_read(&out->types, parse, "type_vocab_size", MODEL_TYPES_MAX));
    if (out->hidden % out->heads != 0)
        return bad(parse, "num_attention_heads", "hidden_size must be a multiple of it");
    return STATUS_OK;
}

static enum status id_read(int32_t *out, const struct parse *parse, const char *key, int32_t missing, uint32_t vocab) {
    *out = missing;
    if (is_absent(parse, key))
        return STATUS_OK;
    int64_t value;
    TRY(integer(&value, parse, key, 0, (int64_t)vocab - 1));
    *out = (int32_t)value;
    return STATUS_OK;
}

static enum status ids_read(struct model_config *out, const struct parse *parse) {
    TRY(id_read(&out->pad_id, parse, "pad_token_id", out->kind == MODEL_BERT ? 0 : 1, out->vocab));
    TRY(id_read(&out->bos_id, parse, "bos_token_id", -1, UINT32_C(1) << 31));
    TRY(id_read(&out->eos_id, parse, "eos_token_id", -1, UINT32_C(1) << 31));
    if ((uint32_t)out->pad_id >= out->vocab)
        return bad(parse, "vocab_size", "pad_token_id is not below it");
    if (out->max_positions <= model_first_position(out))
        return bad(parse, "max_position_embeddings", "no position is left behind pad_token_id");
    return STATUS_OK;
}

static enum status numbers_read(struct model_config *out, const struct parse *parse) {
    TRY(number(&out->layer_norm_eps, parse, "layer_norm_eps", 1e-12, 1));
    TRY(number(&out->initializer_range, parse, "initializer_range", 0.02, 1e3));
    TRY(number(&out->dropout_hidden, parse, "hidden_dropout_prob", 0.1, 1));
    TRY(number(&out->dropout_attention, parse, "attention_probs_dropout_prob", 0.1, 1));
    return number(&out->dropout_classifier, parse, "classifier_dropout", out->dropout_hidden, 1);
}

// What would make another function of the same weights.
static enum status variants_refuse(const struct parse *parse) {
    static const char *const acts[] = {"gelu", "gelu_python", NULL};
    static const char *const positions[] = {"absolute", NULL};
    static const char *const off[] = {"is_decoder", "add_cross_attention"};
    TRY(string_among(parse, "hidden_act", acts, "only gelu is known"));
    TRY(string_among(parse, "position_embedding_type", positions, "only absolute is known"));
    for (size_t i = 0; i < 2; i++)
        if (!is_absent(parse, off[i]) && !json_is_false(json_object_get(parse->root, off[i])))
            return bad(parse, off[i], "only encoders are known");
    return STATUS_OK;
}

// Puts `name` at `id`; ids must be 0..n-1, each once, and so must names.
static enum status label_put(struct model_config *out, json_t *seen, const struct parse *parse, const char *key,
                             int64_t id, const char *name) {
    if (id < 0 || id >= out->label_names.n || out->label_names.names[id])
        return bad(parse, key, "its ids must be 0, 1, 2, …, each once");
    if (!name || strlen(name) > LABELS_NAME_MAX)
        return bad(parse, key, "its names must be strings");
    if (json_object_get(seen, name))
        return bad(parse, key, "two labels have the same name");
    out->label_names.names[id] = strdup(name);
    if (!out->label_names.names[id] || json_object_set_new(seen, name, json_true()) != 0)
        return status_set(STATUS_SYSTEM, "%s: no memory", parse->name);
    return STATUS_OK;
}

// id2label {"0": "joy", …}, or label2id {"joy": 0, …} where only that is there.
static enum status labels_fill(struct model_config *out, json_t *seen, const struct parse *parse, const char *key,
                               bool by_id) {
    const char *entry;
    json_t *value;
    json_object_foreach(json_object_get(parse->root, key), entry, value) {
        int64_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (by_id && !text_to_i64(entry, &id))
            return bad(parse, key, "its keys must be numbers");
        TRY(label_put(out, seen, parse, key, id, by_id ? json_string_value(value) : entry));
    }
    return STATUS_OK;
}

static enum status labels_from(struct model_config *out, const struct parse *parse, const char *key, bool by_id) {
    const json_t *map = json_object_get(parse->root, key);
    size_t n = json_object_size(map);
    if (!json_is_object(map) || n == 0 || n > MODEL_LABELS_MAX)
        return bad(parse, key, "a map of 1 to 100000 labels is needed");
    out->label_names.names = calloc(n, sizeof *out->label_names.names);
    json_t *seen = json_object();
    if (!out->label_names.names || !seen) {
        json_decref(seen);
        return status_set(STATUS_SYSTEM, "%s: no memory", parse->name);
    }
    out->label_names.n = (uint32_t)n;
    out->labels = (uint32_t)n;
    out->has_labels = true;
    enum status status = labels_fill(out, seen, parse, key, by_id);
    json_decref(seen);
    return status;
}

// label2id must not say otherwise than id2label; Transformers would go by id2label, so a difference is only said.
static void labels_compare(const struct model_config *out, const struct parse *parse) {
    const json_t *map = json_object_get(parse->root, "label2id");
    for (uint32_t i = 0; json_is_object(map) && i < out->labels; i++) {
        const json_t *id = json_object_get(map, out->label_names.names[i]);
        if (json_is_integer(id) && json_integer_value(id) == i)
            continue;
        log_warn("%s: label2id and id2label differ for \"%s\"; id2label is taken", parse->name,
                 out->label_names.names[i]);
        return;
    }
}

static enum status labels_read_all(struct model_config *out, const struct parse *parse) {
    out->labels = 2;
    if (!is_absent(parse, "id2label")) {
        TRY(labels_from(out, parse, "id2label", true));
        labels_compare(out, parse);
    } else if (!is_absent(parse, "label2id")) {
        TRY(labels_from(out, parse, "label2id", false));
    } else if (!is_absent(parse, "num_labels")) {
        TRY(size_read(&out->labels, parse, "num_labels", MODEL_LABELS_MAX));
        out->has_labels = true;
    }
    if (out->head == HEAD_QUESTION_ANSWERING)
        out->labels = 2;
    return STATUS_OK;
}

static bool is_bf16(const struct parse *parse, const char *key) {
    const char *value = json_string_value(json_object_get(parse->root, key));
    return value && strcmp(value, "bfloat16") == 0;
}

static enum status config_fill(struct model_config *out, const struct parse *parse) {
    TRY(kind_read(out, parse));
    TRY(head_read(out, parse));
    TRY(variants_refuse(parse));
    TRY(sizes_read(out, parse));
    TRY(ids_read(out, parse));
    TRY(numbers_read(out, parse));
    out->stored_bf16 = is_bf16(parse, "dtype") || is_bf16(parse, "torch_dtype");
    return labels_read_all(out, parse);
}

enum status model_config_parse(struct model_config *out, const char *bytes, size_t size, const char *name) {
    *out = (struct model_config){0};
    json_error_t error;
    if (size > MODEL_CONFIG_MAX)
        return status_set(STATUS_DATA, "%s: %zu bytes are too many for a config.json", name, size);
    json_t *root = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return status_set(STATUS_DATA, "%s:%d: %s", name, error.line, error.text);
    struct parse parse = {root, name};
    enum status status =
        json_is_object(root) ? config_fill(out, &parse) : status_set(STATUS_DATA, "%s: not a JSON object", name);
    json_decref(root);
    if (status != STATUS_OK)
        model_config_release(out);
    return status;
}

enum status model_config_read(struct model_config *out, const char *folder) {
    char *bytes = NULL, *path = path_join(folder, "config.json");
    size_t size;
    *out = (struct model_config){0};
    if (!path)
        return status_set(STATUS_SYSTEM, "%s: no memory", folder);
    enum status status = file_read(&bytes, &size, path, MODEL_CONFIG_MAX);
    if (status == STATUS_OK)
        status = model_config_parse(out, bytes, size, path);
    free(bytes);
    free(path);
    return status;
}
