// SPDX-License-Identifier: Apache-2.0
#include "model/model.h"

#include "base/file.h"
#include "base/text.h"
#include "model/weights.h"

#include <jansson.h>

#define SETTINGS_MAX ((size_t)1 << 20) // bytes
#define SETTINGS_FORMAT 1

bool model_is(const char *path) {
    char *config = path_join(path, "config.json");
    bool is = config && file_exists(config);
    free(config);
    return is;
}

// A name of a model on Hugging Face's hub, as owner/name, or bert-base-uncased; not a path to something.
static bool hint_is_hub(const char *path) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    size_t owner = strspn(path, allowed);
    if (path[0] != '.' && path[owner] == '\0' && strchr(path, '-') && !file_named(path))
        return true;
    bool form = owner && path[owner] == '/' && path[0] != '.' && path[owner + 1] && path[owner + 1] != '.' &&
                path[owner + 1 + strspn(path + owner + 1, allowed)] == '\0';
    char *folder = form ? strndup(path, owner) : NULL;
    bool hub = folder && !file_is_folder(folder);
    free(folder);
    return hub;
}

const char *model_hint(const char *path) {
    static _Thread_local char hint[640];
    char *inside = path_join(path, "model");
    *hint = '\0';
    if (hint_is_hub(path))
        snprintf(hint, sizeof hint,
                 "; nothing is downloaded: fetch it first (huggingface-cli download %.120s --local-dir DIR) and give "
                 "that folder",
                 path);
    else if (inside && model_is(inside))
        snprintf(hint, sizeof hint, ": did you mean %.480s/model?", path);
    else if (!file_named(path))
        snprintf(hint, sizeof hint, "; it is not there");
    free(inside);
    return hint;
}

// "<path>: <key> is <value>, must be <allowed>"
static enum status settings_refuse(const char *path, const char *key, const json_t *value, const char *allowed) {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    enum status status = status_set(STATUS_DATA, "%s: %s is %.64s, must be %s", path, key, text ? text : "?", allowed);
    free(text);
    return status;
}

static bool settings_integer(const json_t *value, json_int_t least, json_int_t most) {
    return !value ||
           (json_is_integer(value) && json_integer_value(value) >= least && json_integer_value(value) <= most);
}

static bool settings_word(const json_t *value, const char *a, const char *b) {
    const char *word = json_string_value(value);
    return !value || (word && (strcmp(word, a) == 0 || strcmp(word, b) == 0));
}

static enum status settings_switch(bool *out, const json_t *root, const char *key, const char *path) {
    const json_t *value = json_object_get(root, key);
    *out = json_is_true(value);
    return value && !json_is_boolean(value) ? settings_refuse(path, key, value, "true or false") : STATUS_OK;
}

static enum status settings_take(struct model_settings *out, const json_t *root, const char *path) {
    const json_t *format = json_object_get(root, "format"), *length = json_object_get(root, "max_length");
    const json_t *stride = json_object_get(root, "doc_stride");
    const json_t *special = json_object_get(root, "special_tokens"), *normalize = json_object_get(root, "normalize");
    if (!settings_integer(format, SETTINGS_FORMAT, SETTINGS_FORMAT))
        return settings_refuse(path, "format", format, "1: a newer finetuned wrote it");
    if (!settings_integer(length, 3, 1 << 20) && !settings_integer(length, 0, 0))
        return settings_refuse(path, "max_length", length, "0 (not recorded) or a whole number from 3 to 1048576");
    if (!settings_word(special, "literal", "parse"))
        return settings_refuse(path, "special_tokens", special, "literal or parse");
    if (!settings_word(normalize, "none", "tweet"))
        return settings_refuse(path, "normalize", normalize, "none or tweet");
    if (!settings_integer(stride, 1, 1 << 20))
        return settings_refuse(path, "doc_stride", stride, "a whole number from 1 to 1048576");
    out->normalize = normalize && strcmp(json_string_value(normalize), "tweet") == 0 ? NORMALIZE_TWEET : NORMALIZE_NONE;
    TRY(settings_switch(&out->no_answer, root, "no_answer", path));
    TRY(settings_switch(&out->pairs, root, "pairs", path));
    out->doc_stride = stride ? (uint32_t)json_integer_value(stride) : 0;
    out->max_length = length ? (uint32_t)json_integer_value(length) : 0;
    out->special = special && strcmp(json_string_value(special), "parse") == 0 ? TOKENIZER_PARSE : TOKENIZER_LITERAL;
    return STATUS_OK;
}

enum status model_settings_parse(struct model_settings *out, const char *bytes, size_t size, const char *path) {
    json_error_t error;
    *out = (struct model_settings){.special = TOKENIZER_LITERAL};
    json_t *root = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return status_set(STATUS_DATA, "%s:%d: not valid JSON: %s", path, error.line, error.text);
    enum status status =
        json_is_object(root) ? settings_take(out, root, path) : status_set(STATUS_DATA, "%s: not a JSON object", path);
    json_decref(root);
    return status;
}

enum status model_settings_read(struct model_settings *out, const char *folder) {
    *out = (struct model_settings){.special = TOKENIZER_LITERAL};
    char *path = path_join(folder, "finetuned.json");
    if (!path)
        return status_set(STATUS_SYSTEM, "model: no memory");
    enum status status = STATUS_OK;
    char *bytes = NULL;
    size_t size;
    if (file_named(path)) {
        TRY_GOTO(file_read(&bytes, &size, path, SETTINGS_MAX), done);
        status = model_settings_parse(out, bytes, size, path);
    }
done:
    free(bytes);
    free(path);
    return status;
}

enum status model_settings_write(const struct model_settings *settings, const char *folder) {
    struct text text = {0};
    const char *none = !settings->doc_stride ? ""
                       : settings->no_answer ? "  \"no_answer\": true,\n"
                                             : "  \"no_answer\": false,\n";
    text_puts(&text, "{\n");
    if (settings->doc_stride)
        text_printf(&text, "  \"doc_stride\": %u,\n", settings->doc_stride);
    const char *pairs = settings->pairs ? "  \"pairs\": true,\n" : "";
    text_printf(&text,
                "  \"format\": 1,\n  \"max_length\": %u,\n%s  \"normalize\": \"%s\",\n%s  \"special_tokens\": \"%s\",\n"
                "  \"version\": \"" FINETUNED_VERSION "\"\n}\n",
                settings->max_length, none, settings->normalize == NORMALIZE_TWEET ? "tweet" : "none", pairs,
                settings->special == TOKENIZER_PARSE ? "parse" : "literal");
    char *path = path_join(folder, "finetuned.json");
    enum status status = path && text_string(&text) ? file_replace(path, text_string(&text), text.size)
                                                    : status_set(STATUS_SYSTEM, "model: no memory");
    free(path);
    text_release(&text);
    return status;
}

enum status model_check_tokenizer(const struct model_config *config, const struct tokenizer *tokenizer,
                                  const char *folder) {
    uint32_t tokens = tokenizer_info(tokenizer).vocab_size;
    if (tokens > config->vocab)
        return status_set(
            STATUS_DATA,
            "%s: the tokenizer has %u tokens, but the model's vocab_size is %u: they don't belong together", folder,
            tokens, config->vocab);
    return STATUS_OK;
}

static enum status model_weights(struct model *model, const struct weight_files *files, const char *folder,
                                 struct pool *pool) {
    struct weights_report report = {0};
    TRY(weights_table(&model->table, &model->config));
    TRY(weights_check(&model->table, &model->config, files));
    TRY(arena_init(&model->arena, model->table.floats * sizeof(float), true));
    model->weights = arena_take(&model->arena, model->table.floats * sizeof(float));
    TRY(weights_load(model->weights, &report, &model->table, &model->config, &model->config, files, 0, pool));
    if (report.head_new || report.pooler_new)
        return status_set(STATUS_DATA, "%s: the model has no %s head (%s): fine-tune it first", folder,
                          model->config.head == HEAD_CLASSIFICATION ? "classification" : "question answering",
                          report.note);
    return STATUS_OK;
}

enum status model_open(struct model *out, const char *folder, struct pool *pool) {
    enum status status;
    struct weight_files files = {0};
    *out = (struct model){0};
    TRY_GOTO(model_config_read(&out->config, folder), done);
    TRY_GOTO(model_settings_read(&out->settings, folder), done);
    TRY_GOTO(tokenizer_open(&out->tokenizer, folder), done);
    TRY_GOTO(model_check_tokenizer(&out->config, out->tokenizer, folder), done);
    TRY_GOTO(weight_files_open(&files, folder), done);
    TRY_GOTO(model_weights(out, &files, folder, pool), done);
done:
    weight_files_close(&files);
    if (status != STATUS_OK)
        model_close(out);
    return status;
}

void model_close(struct model *model) {
    tokenizer_close(model->tokenizer);
    arena_release(&model->arena);
    param_table_release(&model->table);
    model_config_release(&model->config);
    *model = (struct model){0};
}
