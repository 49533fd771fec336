// SPDX-License-Identifier: Apache-2.0
// tokenizer.json, as Hugging Face's tokenizers library writes it. What we don't do exactly is refused, never
// approximated: the objects that decide about ids may hold known keys only, and every setting must be one that bpe.c or
// wordpiece.c follows. `truncation`, `padding` and `decoder` don't decide about ids here and are ignored.
#include "data/tokenizer_parts.h"

#include "data/unicode.h"

#include <string.h>

static enum status keys_check(json_t *object, const char *where, const char *const *known, size_t n) {
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return status_set(STATUS_DATA, "%s is not an object", where);
    json_object_foreach(object, key, value) {
        size_t i = 0;
        while (i < n && strcmp(key, known[i]) != 0)
            i++;
        if (i == n)
            return status_set(STATUS_DATA, "%s.%s is not supported", where, vocabulary_quote(key, strlen(key)));
    }
    return STATUS_OK;
}

#define KEYS_CHECK(object, where, ...)                                                                                 \
    TRY(keys_check(object, where, (const char *const[]){__VA_ARGS__},                                                  \
                   sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

// "" if it is missing or no string.
static const char *string_at(json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static enum status type_check(json_t *object, const char *where, const char *wanted) {
    const char *type = string_at(object, "type");
    if (!strcmp(type, wanted))
        return STATUS_OK;
    return status_set(STATUS_DATA, "%s \"%s\" is not supported (%s is)", where, vocabulary_quote(type, strlen(type)),
                      wanted);
}

// A flag that may be missing (then it keeps its value); null counts as missing.
static enum status flag_at(json_t *object, const char *where, const char *key, bool *out) {
    json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value))
        return STATUS_OK;
    if (!json_is_boolean(value))
        return status_set(STATUS_DATA, "%s.%s is not true or false", where, key);
    *out = json_is_true(value);
    return STATUS_OK;
}

// A flag that must have this value, if it is there.
static enum status flag_check(json_t *object, const char *where, const char *key, bool wanted) {
    bool value = wanted;
    TRY(flag_at(object, where, key, &value));
    if (value != wanted)
        return status_set(STATUS_DATA, "%s.%s: %s is not supported", where, key, value ? "true" : "false");
    return STATUS_OK;
}

// Missing, null or "".
static enum status empty_check(json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value) || (json_is_string(value) && !json_string_length(value)))
        return STATUS_OK;
    return status_set(STATUS_DATA, "model.%s is not supported", key);
}

// "a b", or ["a", "b"].
static enum status merge_read(struct tokenizer *tokenizer, json_t *merge) {
    json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
    if (json_array_size(merge) == 2 && json_is_string(left) && json_is_string(right))
        return bpe_merge_add(&tokenizer->bpe, &tokenizer->vocabulary, json_string_value(left), json_string_length(left),
                             json_string_value(right), json_string_length(right));
    const char *text = json_string_value(merge), *space = text ? strchr(text, ' ') : NULL;
    if (!space || strchr(space + 1, ' ') || strlen(text) != json_string_length(merge))
        return status_set(STATUS_DATA, "not \"a b\" or [\"a\", \"b\"]");
    return bpe_merge_add(&tokenizer->bpe, &tokenizer->vocabulary, text, (size_t)(space - text), space + 1,
                         strlen(space + 1));
}

static enum status bpe_model_read(struct tokenizer *tokenizer, json_t *model) {
    KEYS_CHECK(model, "model", "type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
               "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges");
    json_t *dropout = json_object_get(model, "dropout"), *merges = json_object_get(model, "merges"), *merge;
    if (dropout && !json_is_null(dropout) && json_number_value(dropout) != 0)
        return status_set(STATUS_DATA, "model.dropout is not supported");
    TRY(empty_check(model, "continuing_subword_prefix"));
    TRY(empty_check(model, "end_of_word_suffix"));
    TRY(flag_check(model, "model", "byte_fallback", false));
    TRY(flag_check(model, "model", "ignore_merges", false));
    TRY(tokenizer_parse_vocab_json(tokenizer, json_object_get(model, "vocab")));
    if (!json_is_array(merges))
        return status_set(STATUS_DATA, "model.merges is not a list");
    TRY(bpe_init(&tokenizer->bpe, &tokenizer->vocabulary, json_array_size(merges)));
    size_t i;
    json_array_foreach(merges, i, merge) {
        enum status status = merge_read(tokenizer, merge);
        if (status != STATUS_OK)
            return status_add(status, "model.merges[%zu]", i);
    }
    return STATUS_OK;
}

static enum status wordpiece_model_read(struct tokenizer *tokenizer, json_t *model) {
    KEYS_CHECK(model, "model", "type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab");
    json_t *characters = json_object_get(model, "max_input_chars_per_word"), *prefix;
    prefix = json_object_get(model, "continuing_subword_prefix");
    if (prefix && strcmp(string_at(model, "continuing_subword_prefix"), WORDPIECE_PREFIX) != 0)
        return status_set(STATUS_DATA, "model.continuing_subword_prefix is not \"%s\"", WORDPIECE_PREFIX);
    if (characters) {
        json_int_t n = json_integer_value(characters);
        if (n < 1 || n > WORDPIECE_CHARACTERS_MAX)
            return status_set(STATUS_DATA, "model.max_input_chars_per_word is not in 1..%u", WORDPIECE_CHARACTERS_MAX);
        tokenizer->wordpiece.characters = (uint32_t)n;
    }
    if (json_is_string(json_object_get(model, "unk_token")))
        TRY(tokenizer_name(tokenizer, ROLE_UNK, string_at(model, "unk_token")));
    return tokenizer_parse_vocab_json(tokenizer, json_object_get(model, "vocab"));
}

// Early files have no model.type: merges make it BPE, as in the library.
static enum status model_read(struct tokenizer *tokenizer, json_t *model) {
    json_t *type = json_object_get(model, "type");
    const char *name = json_string_value(type);
    if (!type)
        name = json_object_get(model, "merges")                     ? "BPE"
               : json_object_get(model, "max_input_chars_per_word") ? "WordPiece"
                                                                    : "";
    if (name && !strcmp(name, "BPE")) {
        tokenizer->kind = TOKENIZER_BPE;
        return bpe_model_read(tokenizer, model);
    }
    if (name && !strcmp(name, "WordPiece")) {
        tokenizer->kind = TOKENIZER_WORDPIECE;
        return wordpiece_model_read(tokenizer, model);
    }
    return status_set(STATUS_DATA, "model.type \"%s\" is not supported (BPE and WordPiece are)",
                      name ? vocabulary_quote(name, strlen(name)) : "");
}

static enum status byte_level_read(struct tokenizer *tokenizer, json_t *root) {
    json_t *normalizer = json_object_get(root, "normalizer"), *cutter = json_object_get(root, "pre_tokenizer");
    if (normalizer && !json_is_null(normalizer))
        return status_set(STATUS_DATA, "normalizer \"%s\" is not supported with BPE",
                          vocabulary_quote(string_at(normalizer, "type"), strlen(string_at(normalizer, "type"))));
    TRY(type_check(cutter, "pre_tokenizer", "ByteLevel"));
    KEYS_CHECK(cutter, "pre_tokenizer", "type", "add_prefix_space", "trim_offsets", "use_regex");
    TRY(flag_check(cutter, "pre_tokenizer", "use_regex", true));
    tokenizer->bpe.add_prefix_space = true; // the library's default; files always say it
    return flag_at(cutter, "pre_tokenizer", "add_prefix_space", &tokenizer->bpe.add_prefix_space);
}

static enum status bert_read(struct tokenizer *tokenizer, json_t *root) {
    json_t *normalizer = json_object_get(root, "normalizer"), *cutter = json_object_get(root, "pre_tokenizer");
    struct wordpiece *wordpiece = &tokenizer->wordpiece;
    TRY(type_check(normalizer, "normalizer", "BertNormalizer"));
    KEYS_CHECK(normalizer, "normalizer", "type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase");
    TRY(type_check(cutter, "pre_tokenizer", "BertPreTokenizer"));
    KEYS_CHECK(cutter, "pre_tokenizer", "type");
    TRY(flag_check(normalizer, "normalizer", "clean_text", true));
    TRY(flag_at(normalizer, "normalizer", "handle_chinese_chars", &wordpiece->cjk));
    TRY(flag_at(normalizer, "normalizer", "lowercase", &wordpiece->lower));
    return flag_check(normalizer, "normalizer", "strip_accents", wordpiece->lower);
}

// RobertaProcessing's and BertProcessing's ["<s>", 0].
static enum status outer_read(struct tokenizer *tokenizer, json_t *processor, const char *key,
                              enum tokenizer_role role) {
    json_t *pair = json_object_get(processor, key), *text = json_array_get(pair, 0), *id = json_array_get(pair, 1);
    if (json_array_size(pair) != 2 || !json_is_string(text) || !json_is_integer(id))
        return status_set(STATUS_DATA, "post_processor.%s is not [token, id]", key);
    int32_t known = tokenizer_find(tokenizer, json_string_value(text), json_string_length(text));
    if (known != json_integer_value(id))
        return status_set(STATUS_DATA, "post_processor.%s: \"%s\" does not have id %lld in the vocabulary", key,
                          vocabulary_quote(json_string_value(text), json_string_length(text)),
                          (long long)json_integer_value(id));
    return tokenizer_name(tokenizer, role, json_string_value(text));
}

// One step of a template: {"SpecialToken": {"id": "[CLS]", "type_id": 0}} or {"Sequence": {"id": "A", "type_id": 0}}.
struct template_step {
    const char *kind;
    const char *id; // NULL: a special token, to be taken from the file
    int type;
    enum tokenizer_role role;
};

static enum status template_read(struct tokenizer *tokenizer, json_t *list, const char *where,
                                 const struct template_step *steps, size_t n) {
    if (json_array_size(list) != n)
        return status_set(STATUS_DATA, "post_processor.%s is not BERT's", where);
    for (size_t i = 0; i < n; i++) {
        json_t *step = json_object_get(json_array_get(list, i), steps[i].kind);
        json_t *type = json_object_get(step, "type_id");
        const char *id = string_at(step, "id"), *wanted = steps[i].id;
        if (!wanted && tokenizer->names[steps[i].role])
            wanted = tokenizer->names[steps[i].role];
        if (!*id || (wanted && strcmp(id, wanted) != 0) || !json_is_integer(type) ||
            json_integer_value(type) != steps[i].type)
            return status_set(STATUS_DATA, "post_processor.%s[%zu] is not BERT's", where, i);
        if (!wanted)
            TRY(tokenizer_name(tokenizer, steps[i].role, id));
    }
    return STATUS_OK;
}

// special_tokens: {"[CLS]": {"id": "[CLS]", "ids": [101], "tokens": ["[CLS]"]}, …}: each stands for itself alone.
static enum status template_specials(struct tokenizer *tokenizer, json_t *specials) {
    const enum tokenizer_role roles[] = {ROLE_CLS, ROLE_SEP};
    for (size_t i = 0; i < 2; i++) {
        const char *name = tokenizer->names[roles[i]];
        json_t *entry = json_object_get(specials, name), *ids = json_object_get(entry, "ids");
        json_t *id = json_array_get(ids, 0);
        int32_t known = tokenizer_find(tokenizer, name, strlen(name));
        if (json_array_size(ids) != 1 || !json_is_integer(id) || json_integer_value(id) != known)
            return status_set(STATUS_DATA,
                              "post_processor.special_tokens: \"%s\" does not have its id %d in the vocabulary",
                              vocabulary_quote(name, strlen(name)), known);
    }
    return STATUS_OK;
}

static enum status bert_template(struct tokenizer *tokenizer, json_t *processor) {
    static const struct template_step single[] = {
        {"SpecialToken", NULL, 0, ROLE_CLS}, {"Sequence", "A", 0, ROLES}, {"SpecialToken", NULL, 0, ROLE_SEP}};
    static const struct template_step pair[] = {{"SpecialToken", NULL, 0, ROLE_CLS},
                                                {"Sequence", "A", 0, ROLES},
                                                {"SpecialToken", NULL, 0, ROLE_SEP},
                                                {"Sequence", "B", 1, ROLES},
                                                {"SpecialToken", NULL, 1, ROLE_SEP}};
    KEYS_CHECK(processor, "post_processor", "type", "single", "pair", "special_tokens");
    TRY(template_read(tokenizer, json_object_get(processor, "single"), "single", single, 3));
    TRY(template_read(tokenizer, json_object_get(processor, "pair"), "pair", pair, 5));
    return template_specials(tokenizer, json_object_get(processor, "special_tokens"));
}

static enum status processor_read(struct tokenizer *tokenizer, json_t *processor) {
    struct bpe *bpe = &tokenizer->bpe;
    if (tokenizer->kind == TOKENIZER_WORDPIECE && !strcmp(string_at(processor, "type"), "TemplateProcessing"))
        return bert_template(tokenizer, processor);
    if (tokenizer->kind == TOKENIZER_WORDPIECE) {
        TRY(type_check(processor, "post_processor", "BertProcessing"));
        KEYS_CHECK(processor, "post_processor", "type", "cls", "sep");
    } else {
        bool prefix = bpe->add_prefix_space;
        TRY(type_check(processor, "post_processor", "RobertaProcessing"));
        KEYS_CHECK(processor, "post_processor", "type", "cls", "sep", "trim_offsets", "add_prefix_space");
        TRY(flag_at(processor, "post_processor", "trim_offsets", &bpe->trim));
        TRY(flag_at(processor, "post_processor", "add_prefix_space", &prefix));
        if (prefix != bpe->add_prefix_space)
            return status_set(STATUS_DATA, "pre_tokenizer and post_processor differ in add_prefix_space");
    }
    TRY(outer_read(tokenizer, processor, "cls", ROLE_CLS));
    return outer_read(tokenizer, processor, "sep", ROLE_SEP);
}

static enum status added_read(struct tokenizer *tokenizer, json_t *list) {
    static const struct special plain;
    json_t *object;
    size_t i;
    json_array_foreach(list, i, object) {
        json_t *id = json_object_get(object, "id");
        if (!json_is_integer(id) || json_integer_value(id) < 0)
            return status_set(STATUS_DATA, "added_tokens[%zu] has no id", i);
        TRY(tokenizer_added(tokenizer, object, json_integer_value(id), &plain));
    }
    return STATUS_OK;
}

static enum status root_read(struct tokenizer *tokenizer, json_t *root) {
    KEYS_CHECK(root, "tokenizer", "version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
               "post_processor", "decoder", "model");
    tokenizer->from_json = true;
    TRY(model_read(tokenizer, json_object_get(root, "model")));
    TRY(tokenizer->kind == TOKENIZER_BPE ? byte_level_read(tokenizer, root) : bert_read(tokenizer, root));
    TRY(added_read(tokenizer, json_object_get(root, "added_tokens")));
    return processor_read(tokenizer, json_object_get(root, "post_processor"));
}

enum status tokenizer_parse_json(struct tokenizer *tokenizer, const char *bytes, size_t size) {
    json_t *root;
    TRY(tokenizer_json_load(&root, bytes, size, 0));
    enum status status = root_read(tokenizer, root);
    json_decref(root);
    return status;
}
