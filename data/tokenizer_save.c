// SPDX-License-Identifier: Apache-2.0
// The built-in vocabulary of bytes, and a tokenizer's files in a model directory.
#include "data/tokenizer_parts.h"
#include "base/markup.h"

#include "base/file.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

// <s> 0, <pad> 1, </s> 2, <unk> 3, byte b 4 + b, <mask> 260: the order of RoBERTa's special tokens.
static enum status bytes_fill(struct tokenizer *tokenizer) {
    static const char *const first[] = {"<s>", "<pad>", "</s>", "<unk>"};
    struct vocabulary *vocabulary = &tokenizer->vocabulary;
    tokenizer->kind = TOKENIZER_BPE;
    for (unsigned i = 0; i < 4; i++)
        TRY(vocabulary_add(vocabulary, first[i], strlen(first[i]), i));
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[4];
        unsigned size = bpe_alphabet(byte, text);
        TRY(vocabulary_add(vocabulary, text, size, 4 + byte));
    }
    TRY(vocabulary_add(vocabulary, "<mask>", 6, 260));
    TRY(bpe_init(&tokenizer->bpe, vocabulary, 0));
    return tokenizer_finish(tokenizer);
}

enum status tokenizer_open_bytes(struct tokenizer **out) {
    struct tokenizer *tokenizer;
    TRY(tokenizer_init(&tokenizer));
    enum status status = bytes_fill(tokenizer);
    if (status != STATUS_OK) {
        tokenizer_close(tokenizer);
        return status;
    }
    *out = tokenizer;
    return STATUS_OK;
}

static enum status bytes_put(const char *folder, const char *name, const char *bytes, size_t size) {
    char *path = path_join(folder, name);
    enum status status = path ? file_replace(path, bytes, size) : status_set(STATUS_SYSTEM, "tokenizer: no memory");
    free(path);
    return status;
}

// A JSON object on its way; a key that found no memory must not just be missing.
struct object {
    json_t *root;
    bool failed;
};

static void object_set(struct object *object, const char *key, json_t *value) {
    if (json_object_set_new(object->root, key, value) != 0)
        object->failed = true;
}

// Takes what it holds over. One key a line.
static enum status object_put(const char *folder, enum tokenizer_file_name name, struct object *object) {
    json_t *root = object->root;
    char *text = object->failed ? NULL : json_dumps_whole(root, JSON_INDENT(2));
    json_decref(root);
    if (!text)
        return status_set(STATUS_SYSTEM, "tokenizer: no memory for %s", tokenizer_file_names[name]);
    enum status status = bytes_put(folder, tokenizer_file_names[name], text, strlen(text));
    free(text);
    return status;
}

static const char *role_text(const struct tokenizer *tokenizer, enum tokenizer_role role) {
    return tokenizer_token(tokenizer, tokenizer->roles[role]);
}

static void roles_set(const struct tokenizer *tokenizer, struct object *object) {
    for (enum tokenizer_role role = 0; role < ROLES; role++)
        if (role_text(tokenizer, role))
            object_set(object, tokenizer_role_keys[role], json_string(role_text(tokenizer, role)));
    if (tokenizer->kind == TOKENIZER_BPE) {
        object_set(object, "bos_token", json_string(role_text(tokenizer, ROLE_CLS)));
        object_set(object, "eos_token", json_string(role_text(tokenizer, ROLE_SEP)));
    }
}

// All added tokens with their flags: without it Transformers would give <mask> no lstrip.
static json_t *decoder_make(const struct tokenizer *tokenizer) {
    struct object decoder = {.root = json_object()};
    for (uint32_t i = 0; i < tokenizer->specials.n; i++) {
        const struct special *special = &tokenizer->specials.list[i];
        char key[16];
        snprintf(key, sizeof key, "%d", special->id);
        object_set(&decoder, key,
                   json_pack("{s:s, s:b, s:b, s:b, s:b, s:b}", "content", special->text, "lstrip", special->lstrip,
                             "normalized", special->normalized, "rstrip", special->rstrip, "single_word", false,
                             "special", special->special));
    }
    if (decoder.failed)
        json_decref(decoder.root);
    return decoder.failed ? NULL : decoder.root;
}

static struct object config_make(const struct tokenizer *tokenizer, unsigned model_max_length) {
    bool bpe = tokenizer->kind == TOKENIZER_BPE;
    struct object config = {.root = json_object()};
    object_set(&config, "tokenizer_class", json_string(bpe ? "RobertaTokenizer" : "BertTokenizer"));
    object_set(&config, "model_max_length", json_integer(model_max_length));
    if (bpe) {
        object_set(&config, "add_prefix_space", json_boolean(tokenizer->bpe.add_prefix_space));
        object_set(&config, "errors", json_string("replace"));
        object_set(&config, "trim_offsets", json_boolean(tokenizer->bpe.trim));
    } else {
        object_set(&config, "do_lower_case", json_boolean(tokenizer->wordpiece.lower));
        object_set(&config, "strip_accents", json_null());
        object_set(&config, "tokenize_chinese_chars", json_boolean(tokenizer->wordpiece.cjk));
    }
    roles_set(tokenizer, &config);
    object_set(&config, "added_tokens_decoder", decoder_make(tokenizer));
    return config;
}

static enum status bytes_vocabulary_put(const struct tokenizer *tokenizer, const char *folder) {
    static const char merges[] = "#version: 0.2\n";
    struct object vocabulary = {.root = json_object()};
    for (uint32_t id = 0; id < tokenizer->vocabulary.size; id++)
        object_set(&vocabulary, tokenizer_token(tokenizer, (int32_t)id), json_integer(id));
    TRY(object_put(folder, FILE_VOCAB_JSON, &vocabulary));
    return bytes_put(folder, tokenizer_file_names[FILE_MERGES], merges, sizeof merges - 1);
}

enum status tokenizer_save(const struct tokenizer *tokenizer, const char *folder, unsigned model_max_length) {
    bool files = false;
    for (int i = 0; i < TOKENIZER_FILES; i++) {
        const struct tokenizer_file *file = &tokenizer->files[i];
        files |= file->bytes && i < FILE_CONFIG;
        if (file->bytes)
            TRY(bytes_put(folder, tokenizer_file_names[i], file->bytes, file->size));
    }
    if (!files)
        TRY(bytes_vocabulary_put(tokenizer, folder));
    if (!tokenizer->files[FILE_CONFIG].bytes) {
        struct object config = config_make(tokenizer, model_max_length);
        TRY(object_put(folder, FILE_CONFIG, &config));
    }
    if (!tokenizer->files[FILE_SPECIAL_MAP].bytes) {
        struct object map = {.root = json_object()};
        roles_set(tokenizer, &map);
        TRY(object_put(folder, FILE_SPECIAL_MAP, &map));
    }
    return STATUS_OK;
}
