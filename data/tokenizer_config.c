// SPDX-License-Identifier: Apache-2.0
// tokenizer_config.json and special_tokens_map.json: the few keys that change ids. All others are Transformers' own
// business.
#include "data/tokenizer_parts.h"

#include "base/text.h"

#include <string.h>

// A key that is missing or null leaves *flag alone.
static enum status flag_read(json_t *root, const char *key, bool *flag) {
    json_t *value = json_object_get(root, key);
    if (!value || json_is_null(value))
        return STATUS_OK;
    if (!json_is_boolean(value))
        return status_set(STATUS_DATA, "%s is not true or false", key);
    *flag = json_is_true(value);
    return STATUS_OK;
}

// The classes that are what we build from vocab.json + merges.txt or vocab.txt; tokenizer.json says itself what it is.
static enum status class_check(const struct tokenizer *tokenizer, json_t *root) {
    static const char *const classes[2][9] = {
        [TOKENIZER_BPE] = {"RobertaTokenizer", "RobertaTokenizerFast", "LongformerTokenizer", "LongformerTokenizerFast",
                           "BartTokenizer", "BartTokenizerFast"},
        [TOKENIZER_WORDPIECE] = {"BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast",
                                 "ElectraTokenizer", "ElectraTokenizerFast"},
    };
    json_t *value = json_object_get(root, "tokenizer_class");
    if (tokenizer->from_json || !value || json_is_null(value))
        return STATUS_OK;
    const char *name = json_string_value(value);
    for (unsigned i = 0; name && classes[tokenizer->kind][i]; i++)
        if (!strcmp(name, classes[tokenizer->kind][i]))
            return STATUS_OK;
    return status_set(STATUS_DATA, "tokenizer_class \"%s\" is not supported from %s",
                      name ? vocabulary_quote(name, strlen(name)) : "",
                      tokenizer->kind == TOKENIZER_BPE ? "vocab.json" : "vocab.txt");
}

static enum status wordpiece_flags(struct tokenizer *tokenizer, json_t *root) {
    struct wordpiece *wordpiece = &tokenizer->wordpiece;
    bool basic = true;
    TRY(flag_read(root, "do_basic_tokenize", &basic));
    TRY(flag_read(root, "do_lower_case", &wordpiece->lower));
    TRY(flag_read(root, "tokenize_chinese_chars", &wordpiece->cjk));
    bool strip = wordpiece->lower;
    TRY(flag_read(root, "strip_accents", &strip));
    if (!basic)
        return status_set(STATUS_DATA, "do_basic_tokenize: false is not supported");
    if (strip != wordpiece->lower)
        return status_set(STATUS_DATA, "strip_accents %s with do_lower_case %s is not supported",
                          strip ? "true" : "false", wordpiece->lower ? "true" : "false");
    if (json_array_size(json_object_get(root, "never_split")))
        return status_set(STATUS_DATA, "never_split is not supported");
    return STATUS_OK;
}

// added_tokens_decoder: {"50264": {"content": "<mask>", "lstrip": true, …}, …}
static enum status decoder_read(struct tokenizer *tokenizer, json_t *decoder) {
    static const struct special plain;
    const char *key;
    json_t *object;
    if (!json_is_object(decoder))
        return status_set(STATUS_DATA, "added_tokens_decoder is not an object");
    json_object_foreach(decoder, key, object) {
        int64_t id;
        if (!text_to_i64(key, &id))
            return status_set(STATUS_DATA, "added_tokens_decoder: \"%s\" is not an id",
                              vocabulary_quote(key, strlen(key)));
        TRY(tokenizer_added(tokenizer, object, id, &plain));
    }
    return STATUS_OK;
}

// "mask_token": "<mask>", or {"content": "<mask>", "lstrip": true, …}. `flags`: the object's flags count (nothing newer
// has them).
static enum status role_read(struct tokenizer *tokenizer, json_t *root, enum tokenizer_role role, bool flags) {
    static const struct special plain = {.special = true};
    json_t *value = json_object_get(root, tokenizer_role_keys[role]);
    if (!value || json_is_null(value))
        return STATUS_OK;
    json_t *content = json_is_object(value) ? json_object_get(value, "content") : value;
    if (!json_is_string(content) || strlen(json_string_value(content)) != json_string_length(content))
        return status_set(STATUS_DATA, "%s is not a string", tokenizer_role_keys[role]);
    TRY(tokenizer_name(tokenizer, role, json_string_value(content)));
    if (json_is_object(value) && flags)
        return tokenizer_added(tokenizer, value, -1, &plain);
    return STATUS_OK;
}

static enum status additional_read(struct tokenizer *tokenizer, json_t *list) {
    static const struct special plain = {.special = true};
    json_t *value;
    size_t i;
    json_array_foreach(list, i, value) {
        const char *text = json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
        int32_t id = text ? tokenizer_find(tokenizer, text, strlen(text)) : -1;
        if (id < 0)
            return status_set(STATUS_DATA, "additional_special_tokens: \"%s\" is not in the vocabulary",
                              text ? vocabulary_quote(text, strlen(text)) : "");
        if (specials_find(&tokenizer->specials, id))
            continue;
        struct special special = plain;
        special.id = id;
        special.text = text;
        special.size = (uint32_t)strlen(text);
        TRY(json_is_object(value) ? tokenizer_added(tokenizer, value, id, &plain)
                                  : specials_set(&tokenizer->specials, &special));
    }
    return STATUS_OK;
}

static enum status config_read(struct tokenizer *tokenizer, json_t *root, bool *decoder) {
    if (!json_is_object(root))
        return status_set(STATUS_DATA, "not an object");
    TRY(class_check(tokenizer, root));
    if (tokenizer->kind == TOKENIZER_BPE)
        TRY(flag_read(root, "add_prefix_space", &tokenizer->bpe.add_prefix_space));
    else
        TRY(wordpiece_flags(tokenizer, root));
    json_t *added = json_object_get(root, "added_tokens_decoder");
    if (added) {
        *decoder = true;
        TRY(decoder_read(tokenizer, added));
    }
    for (enum tokenizer_role role = 0; role < ROLES; role++)
        TRY(role_read(tokenizer, root, role, !added));
    return additional_read(tokenizer, json_object_get(root, "additional_special_tokens"));
}

enum status tokenizer_parse_config(struct tokenizer *tokenizer, const char *bytes, size_t size, bool *decoder) {
    json_t *root;
    // Transformers writes 10^30 for "no limit", which is no integer for jansson; no integer is read here.
    TRY(tokenizer_json_load(&root, bytes, size, JSON_DECODE_INT_AS_REAL));
    enum status status = config_read(tokenizer, root, decoder);
    json_decref(root);
    return status;
}
