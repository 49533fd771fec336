// SPDX-License-Identifier: Apache-2.0
// A tokenizer from a model directory's files: vocab.json + merges.txt, vocab.txt, and the two config files.
#include "data/tokenizer_parts.h"

#include "base/file.h"
#include "base/text.h"
#include "data/unicode.h"

#include <stdlib.h>
#include <string.h>

const char *const tokenizer_file_names[TOKENIZER_FILES] = {
    "tokenizer.json",          "vocab.json",        "merges.txt", "vocab.txt", "tokenizer_config.json",
    "special_tokens_map.json", "added_tokens.json",
};

enum status tokenizer_json_load(json_t **out, const char *bytes, size_t size, size_t flags) {
    json_error_t error;
    *out = json_loadb(bytes, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | flags, &error);
    if (*out)
        return STATUS_OK;
    return status_set(STATUS_DATA, "line %d, column %d: %s", error.line, error.column,
                      vocabulary_quote(error.text, strlen(error.text)));
}

enum status tokenizer_added(struct tokenizer *tokenizer, json_t *object, int64_t id, const struct special *otherwise) {
    struct special special = *otherwise;
    bool word = false;
    json_t *content = json_object_get(object, "content"), *value;
    if (!json_is_string(content))
        return status_set(STATUS_DATA, "added token %lld: no content", (long long)id);
    const char *text = json_string_value(content);
    size_t size = json_string_length(content);
    const struct {
        const char *key;
        bool *flag;
    } flags[] = {{"lstrip", &special.lstrip},
                 {"rstrip", &special.rstrip},
                 {"normalized", &special.normalized},
                 {"special", &special.special},
                 {"single_word", &word}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (!(value = json_object_get(object, flags[i].key)))
            continue;
        if (!json_is_boolean(value))
            return status_set(STATUS_DATA, "added token \"%s\": %s is not true or false", vocabulary_quote(text, size),
                              flags[i].key);
        *flags[i].flag = json_is_true(value);
    }
    if (word)
        return status_set(STATUS_DATA, "added token \"%s\": single_word is not supported",
                          vocabulary_quote(text, size));
    int32_t known = tokenizer_find(tokenizer, text, size);
    if (known < 0 && id < 0)
        return status_set(STATUS_DATA, "the special token \"%s\" is not in the vocabulary",
                          vocabulary_quote(text, size));
    if (known < 0)
        TRY(vocabulary_add_outside(&tokenizer->vocabulary, text, size, id));
    else if (id >= 0 && known != id)
        return status_set(STATUS_DATA, "added token \"%s\" has id %lld, but %d in the vocabulary",
                          vocabulary_quote(text, size), (long long)id, known);
    special.id = known < 0 ? (int32_t)id : known;
    special.text = text;
    special.size = (uint32_t)size;
    return specials_set(&tokenizer->specials, &special);
}

// The next line of bytes[*at, size) without its "\n" or "\r\n"; false behind the last.
static bool line_next(const char **line, size_t *length, const char *bytes, size_t size, size_t *at) {
    if (*at >= size)
        return false;
    const char *begin = bytes + *at, *end = memchr(begin, '\n', size - *at);
    *length = end ? (size_t)(end - begin) : size - *at;
    *at += *length + 1;
    *line = begin;
    if (*length && begin[*length - 1] == '\r')
        --*length;
    return true;
}

enum status tokenizer_parse_vocab_json(struct tokenizer *tokenizer, json_t *vocab) {
    const char *text;
    json_t *id;
    if (!json_is_object(vocab))
        return status_set(STATUS_DATA, "the vocabulary is not an object of tokens and ids");
    json_object_foreach(vocab, text, id) {
        if (!json_is_integer(id))
            return status_set(STATUS_DATA, "token \"%s\": its id is not an integer",
                              vocabulary_quote(text, strlen(text)));
        TRY(vocabulary_add(&tokenizer->vocabulary, text, strlen(text), json_integer_value(id)));
    }
    return STATUS_OK;
}

static size_t lines_count(const char *bytes, size_t size) {
    const char *line;
    size_t length, lines = 0;
    for (size_t at = 0; line_next(&line, &length, bytes, size, &at);)
        lines++;
    return lines;
}

static enum status merges_parse(struct tokenizer *tokenizer, const char *bytes, size_t size) {
    const char *line;
    size_t length, at = 0;
    for (size_t number = 1; line_next(&line, &length, bytes, size, &at); number++) {
        if (number == 1 && length >= 8 && !memcmp(line, "#version", 8))
            continue;
        const char *space = memchr(line, ' ', length);
        if (!space || space == line || space + 1 == line + length ||
            memchr(space + 1, ' ', length - (size_t)(space + 1 - line)))
            return status_set(STATUS_DATA, "line %zu: \"%s\" is not two tokens and a space", number,
                              vocabulary_quote(line, length));
        enum status status = bpe_merge_add(&tokenizer->bpe, &tokenizer->vocabulary, line, (size_t)(space - line),
                                           space + 1, length - (size_t)(space + 1 - line));
        if (status != STATUS_OK)
            return status_add(status, "line %zu", number);
    }
    return STATUS_OK;
}

enum status tokenizer_parse_bpe(struct tokenizer *tokenizer, const char *vocab, size_t vocab_size, const char *merges,
                                size_t merges_size) {
    json_t *root;
    tokenizer->kind = TOKENIZER_BPE;
    enum status status = tokenizer_json_load(&root, vocab, vocab_size, 0);
    if (status == STATUS_OK) {
        status = tokenizer_parse_vocab_json(tokenizer, root);
        json_decref(root);
    }
    if (status == STATUS_OK)
        status = bpe_init(&tokenizer->bpe, &tokenizer->vocabulary, lines_count(merges, merges_size));
    if (status != STATUS_OK)
        return status_add(status, "vocab.json");
    status = merges_parse(tokenizer, merges, merges_size);
    return status == STATUS_OK ? status : status_add(status, "merges.txt");
}

// A line of vocab.txt without white space at its end, as the library reads it.
static size_t line_trim(const char *line, size_t length) {
    while (length) {
        uint32_t code;
        size_t last = length - 1;
        while (last && unicode_is_inside(line[last]))
            last--;
        unicode_next(line + last, &code);
        if (!(unicode_flags(code) & UNICODE_SPACE))
            break;
        length = last;
    }
    return length;
}

enum status tokenizer_parse_wordpiece(struct tokenizer *tokenizer, const char *vocab, size_t size) {
    const char *line;
    size_t length, at = 0;
    tokenizer->kind = TOKENIZER_WORDPIECE;
    size_t valid = utf8_check(vocab, size);
    if (valid != size)
        return status_set(STATUS_DATA, "vocab.txt: not UTF-8 at byte %zu", valid);
    for (int64_t id = 0; line_next(&line, &length, vocab, size, &at); id++) {
        enum status status = vocabulary_add(&tokenizer->vocabulary, line, line_trim(line, length), id);
        if (status != STATUS_OK)
            return status_add(status, "vocab.txt:%lld", (long long)id + 1);
    }
    return STATUS_OK;
}

// Takes a file's bytes along if it is there.
static enum status file_take(struct tokenizer_file *file, const char *folder, const char *name) {
    char *path = path_join(folder, name);
    if (!path)
        return status_set(STATUS_SYSTEM, "tokenizer: no memory");
    enum status status = STATUS_OK;
    if (file_named(path))
        status = file_stays(folder, name);
    if (status == STATUS_OK && file_named(path))
        status = file_read(&file->bytes, &file->size, path, VOCABULARY_FILE_MAX);
    free(path);
    return status;
}

static bool holds_vocabulary(const char *folder) {
    static const enum tokenizer_file_name names[] = {FILE_TOKENIZER_JSON, FILE_VOCAB_JSON, FILE_VOCAB_TXT};
    bool holds = false;
    for (size_t i = 0; i < sizeof names / sizeof *names && !holds; i++) {
        char *path = path_join(folder, tokenizer_file_names[names[i]]);
        holds = path && file_named(path);
        free(path);
    }
    return holds;
}

// A folder of folders with tokenizers: the first of them. malloc'ed; NULL: there is none.
static char *vocabulary_below(const char *folder) {
    char **names, *found = NULL;
    size_t n;
    if (file_list(&names, &n, folder) != STATUS_OK)
        return NULL;
    for (size_t i = 0; i < n && !found; i++) {
        char *path = path_join(folder, names[i]);
        if (path && file_is_folder(path) && holds_vocabulary(path))
            found = path;
        else
            free(path);
    }
    file_list_free(names, n);
    return found;
}

static enum status vocabulary_none(const char *folder) {
    static const char *const wanted = "tokenizer.json, vocab.json + merges.txt, vocab.txt";
    if (!file_named(folder))
        return status_set(STATUS_DATA, "no tokenizer: it is not there");
    if (!file_is_folder(folder))
        return status_set(STATUS_DATA, "no tokenizer: it is a file: give a folder with one of %s", wanted);
    char *below = vocabulary_below(folder);
    enum status status = status_set(STATUS_DATA, "no tokenizer: the folder has none of %s%s%s%s", wanted,
                                    below ? ": did you mean " : "", below ? below : "", below ? "?" : "");
    free(below);
    return status;
}

static enum status vocabulary_parse(struct tokenizer *tokenizer, const char *folder) {
    const struct tokenizer_file *files = tokenizer->files;
    const struct tokenizer_file *json = &files[FILE_TOKENIZER_JSON], *vocab = &files[FILE_VOCAB_JSON],
                                *merges = &files[FILE_MERGES], *pieces = &files[FILE_VOCAB_TXT];
    if (json->bytes) {
        enum status status = tokenizer_parse_json(tokenizer, json->bytes, json->size);
        return status == STATUS_OK ? status : status_add(status, "tokenizer.json");
    }
    if (vocab->bytes && merges->bytes)
        return tokenizer_parse_bpe(tokenizer, vocab->bytes, vocab->size, merges->bytes, merges->size);
    if (pieces->bytes)
        return tokenizer_parse_wordpiece(tokenizer, pieces->bytes, pieces->size);
    if (vocab->bytes || merges->bytes)
        return status_set(STATUS_DATA, "%s is there, but %s is not", vocab->bytes ? "vocab.json" : "merges.txt",
                          vocab->bytes ? "merges.txt" : "vocab.json");
    return vocabulary_none(folder);
}

static enum status config_parse(struct tokenizer *tokenizer, enum tokenizer_file_name name, bool *decoder) {
    const struct tokenizer_file *file = &tokenizer->files[name];
    if (!file->bytes)
        return STATUS_OK;
    enum status status = tokenizer_parse_config(tokenizer, file->bytes, file->size, decoder);
    return status == STATUS_OK ? status : status_add(status, "%s", tokenizer_file_names[name]);
}

// added_tokens.json is how older versions wrote what added_tokens_decoder says now; it may only repeat what is known.
enum status tokenizer_check_added(const struct tokenizer *tokenizer, const char *bytes, size_t size) {
    const char *text;
    json_t *root, *id;
    enum status status = STATUS_OK;
    TRY(tokenizer_json_load(&root, bytes, size, 0));
    if (!json_is_object(root))
        status = status_set(STATUS_DATA, "not an object of tokens and ids");
    json_object_foreach(root, text, id) {
        if (status == STATUS_OK &&
            (!json_is_integer(id) || tokenizer_find(tokenizer, text, strlen(text)) != json_integer_value(id)))
            status = status_set(STATUS_DATA,
                                "\"%s\" is not in the vocabulary: save the tokenizer with a newer "
                                "Transformers, which writes tokenizer.json",
                                vocabulary_quote(text, strlen(text)));
    }
    json_decref(root);
    return status;
}

static enum status added_check(const struct tokenizer *tokenizer) {
    const struct tokenizer_file *file = &tokenizer->files[FILE_ADDED_TOKENS];
    enum status status = file->bytes ? tokenizer_check_added(tokenizer, file->bytes, file->size) : STATUS_OK;
    return status == STATUS_OK ? status : status_add(status, "%s", tokenizer_file_names[FILE_ADDED_TOKENS]);
}

// A file that is not needed here is copied into what is made of the model all the same: it is at least a JSON object.
static enum status unused_check(const struct tokenizer *tokenizer, enum tokenizer_file_name name) {
    const struct tokenizer_file *file = &tokenizer->files[name];
    json_t *root = NULL;
    enum status status = file->bytes ? tokenizer_json_load(&root, file->bytes, file->size, 0) : STATUS_OK;
    if (status == STATUS_OK && root && !json_is_object(root))
        status = status_set(STATUS_DATA, "not an object");
    json_decref(root);
    return status == STATUS_OK ? status : status_add(status, "%s", tokenizer_file_names[name]);
}

static enum status folder_parse(struct tokenizer *tokenizer, const char *folder) {
    bool decoder = false;
    for (int i = 0; i < TOKENIZER_FILES; i++)
        TRY(file_take(&tokenizer->files[i], folder, tokenizer_file_names[i]));
    TRY(vocabulary_parse(tokenizer, folder));
    TRY(config_parse(tokenizer, FILE_CONFIG, &decoder));
    TRY(decoder ? unused_check(tokenizer, FILE_SPECIAL_MAP) : config_parse(tokenizer, FILE_SPECIAL_MAP, &decoder));
    if (tokenizer->from_json)
        TRY(unused_check(tokenizer, FILE_VOCAB_JSON));
    TRY(added_check(tokenizer));
    return tokenizer_finish(tokenizer);
}

enum status tokenizer_open(struct tokenizer **out, const char *folder) {
    struct tokenizer *tokenizer;
    TRY(tokenizer_init(&tokenizer));
    enum status status = folder_parse(tokenizer, folder);
    if (status != STATUS_OK) {
        tokenizer_close(tokenizer);
        return status_add(status, "%s", folder);
    }
    *out = tokenizer;
    return STATUS_OK;
}
