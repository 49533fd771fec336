// SPDX-License-Identifier: Apache-2.0
#include "model/model.h"

#include "base/file.h"
#include "base/text.h"
#include "model/weights.h"

#include <jansson.h>

#define SETTINGS_MAX ((size_t)1 << 20) // bytes

bool model_is(const char *path) {
    char *config = path_join(path, "config.json");
    bool is = config && file_exists(config);
    free(config);
    return is;
}

static enum status settings_parse(struct model_settings *out, const char *bytes, size_t size, const char *path) {
    json_error_t error;
    json_t *root = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return status_set(STATUS_DATA, "%s:%d: not valid JSON: %s", path, error.line, error.text);
    json_t *length = json_object_get(root, "max_length");
    const char *special = json_string_value(json_object_get(root, "special_tokens"));
    enum status status = STATUS_OK;
    if (length && (!json_is_integer(length) || json_integer_value(length) < 0 || json_integer_value(length) > 1 << 20))
        status = status_set(STATUS_DATA, "%s: max_length must be an integer from 0 to %d", path, 1 << 20);
    else if (special && strcmp(special, "literal") != 0 && strcmp(special, "parse") != 0)
        status = status_set(STATUS_DATA, "%s: special_tokens is '%s', not literal or parse", path, special);
    out->max_length = length && status == STATUS_OK ? (uint32_t)json_integer_value(length) : 0;
    out->special = special && strcmp(special, "parse") == 0 ? TOKENIZER_PARSE : TOKENIZER_LITERAL;
    json_decref(root);
    return status;
}

enum status model_settings_read(struct model_settings *out, const char *folder) {
    *out = (struct model_settings){0, TOKENIZER_LITERAL};
    char *path = path_join(folder, "finetuned.json");
    if (!path)
        return status_set(STATUS_SYSTEM, "model: no memory");
    enum status status = STATUS_OK;
    char *bytes = NULL;
    size_t size;
    if (file_exists(path)) {
        TRY_GOTO(file_read(&bytes, &size, path, SETTINGS_MAX), done);
        status = settings_parse(out, bytes, size, path);
    }
done:
    free(bytes);
    free(path);
    return status;
}

enum status model_settings_write(const struct model_settings *settings, const char *folder) {
    struct text text = {0};
    text_printf(
        &text,
        "{\n  \"format\": 1,\n  \"max_length\": %u,\n  \"normalize\": \"none\",\n  \"special_tokens\": \"%s\",\n"
        "  \"version\": \"" FINETUNED_VERSION "\"\n}\n",
        settings->max_length, settings->special == TOKENIZER_PARSE ? "parse" : "literal");
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

static enum status model_weights(struct model *model, const char *folder) {
    struct weights_report report = {0};
    TRY(weights_table(&model->table, &model->config));
    TRY(arena_init(&model->arena, model->table.floats * sizeof(float), true));
    model->weights = arena_take(&model->arena, model->table.floats * sizeof(float));
    TRY(weights_load(model->weights, &report, &model->table, &model->config, &model->config, folder, 0));
    if (report.head_new || report.pooler_new)
        return status_set(STATUS_DATA, "%s: the model has no classification head (%s): fine-tune it first", folder,
                          report.note);
    return STATUS_OK;
}

enum status model_open(struct model *out, const char *folder) {
    enum status status;
    *out = (struct model){0};
    TRY_GOTO(model_config_read(&out->config, folder), failed);
    TRY_GOTO(model_settings_read(&out->settings, folder), failed);
    TRY_GOTO(tokenizer_open(&out->tokenizer, folder), failed);
    TRY_GOTO(model_check_tokenizer(&out->config, out->tokenizer, folder), failed);
    TRY_GOTO(model_weights(out, folder), failed);
    return STATUS_OK;
failed:
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
