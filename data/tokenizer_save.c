// SPDX-License-Identifier: Apache-2.0
// The built-in vocabulary of bytes, and a tokenizer's files in a model directory.
#include "data/tokenizer_parts.h"

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

// Takes `root` over. One key a line.
static enum status json_put(const char *folder, enum tokenizer_file_name name, json_t *root) {
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
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

static void roles_set(const struct tokenizer *tokenizer, json_t *root) {
    for (enum tokenizer_role role = 0; role < ROLES; role++)
        if (role_text(tokenizer, role))
            json_object_set_new(root, tokenizer_role_keys[role], json_string(role_text(tokenizer, role)));
    if (tokenizer->kind == TOKENIZER_BPE) {
        json_object_set_new(root, "bos_token", json_string(role_text(tokenizer, ROLE_CLS)));
        json_object_set_new(root, "eos_token", json_string(role_text(tokenizer, ROLE_SEP)));
    }
}

// All added tokens with their flags: without it Transformers would give <mask> no lstrip.
static json_t *decoder_make(const struct tokenizer *tokenizer) {
    json_t *decoder = json_object();
    for (uint32_t i = 0; i < tokenizer->specials.n; i++) {
        const struct special *special = &tokenizer->specials.list[i];
        char key[16];
        snprintf(key, sizeof key, "%d", special->id);
        json_object_set_new(decoder, key,
                            json_pack("{s:s, s:b, s:b, s:b, s:b, s:b}", "content", special->text, "lstrip",
                                      special->lstrip, "normalized", special->normalized, "rstrip", special->rstrip,
                                      "single_word", false, "special", special->special));
    }
    return decoder;
}

static json_t *config_make(const struct tokenizer *tokenizer, unsigned model_max_length) {
    bool bpe = tokenizer->kind == TOKENIZER_BPE;
    json_t *root = json_object();
    json_object_set_new(root, "tokenizer_class", json_string(bpe ? "RobertaTokenizer" : "BertTokenizer"));
    json_object_set_new(root, "model_max_length", json_integer(model_max_length));
    if (bpe) {
        json_object_set_new(root, "add_prefix_space", json_boolean(tokenizer->bpe.add_prefix_space));
        json_object_set_new(root, "errors", json_string("replace"));
        json_object_set_new(root, "trim_offsets", json_boolean(tokenizer->bpe.trim));
    } else {
        json_object_set_new(root, "do_lower_case", json_boolean(tokenizer->wordpiece.lower));
        json_object_set_new(root, "strip_accents", json_null());
        json_object_set_new(root, "tokenize_chinese_chars", json_boolean(tokenizer->wordpiece.cjk));
    }
    roles_set(tokenizer, root);
    json_object_set_new(root, "added_tokens_decoder", decoder_make(tokenizer));
    return root;
}

static enum status bytes_vocabulary_put(const struct tokenizer *tokenizer, const char *folder) {
    static const char merges[] = "#version: 0.2\n";
    json_t *root = json_object();
    for (uint32_t id = 0; id < tokenizer->vocabulary.size; id++)
        json_object_set_new(root, tokenizer_token(tokenizer, (int32_t)id), json_integer(id));
    TRY(json_put(folder, FILE_VOCAB_JSON, root));
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
    if (!tokenizer->files[FILE_CONFIG].bytes)
        TRY(json_put(folder, FILE_CONFIG, config_make(tokenizer, model_max_length)));
    if (!tokenizer->files[FILE_SPECIAL_MAP].bytes) {
        json_t *root = json_object();
        roles_set(tokenizer, root);
        TRY(json_put(folder, FILE_SPECIAL_MAP, root));
    }
    return STATUS_OK;
}
