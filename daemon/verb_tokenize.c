// SPDX-License-Identifier: Apache-2.0
// finetuned tokenize: a JSON line with ids, tokens and byte offsets for each text.
#include "daemon/verbs.h"

#include "base/text.h"
#include "daemon/flags.h"
#include "daemon/lines.h"
#include "daemon/subject.h"
#include "train/events.h"

#include <jansson.h>

struct tokenize_flags {
    const char *model, *file, *pair;
    int64_t max_length;
    int special, normalize;
    bool jsonl;
};

struct tokenize_state {
    const struct tokenizer *tokenizer;
    struct encoding encoding;
    struct tokenizer_options options;
    const char *pair; // of every text
    struct text line;
};

static enum status tokenize_print(struct tokenize_state *s) {
    struct text *line = &s->line;
    const struct encoding *e = &s->encoding;
    text_clear(line);
    for (uint32_t i = 0; i < e->n; i++) {
        text_puts(line, i ? ", " : "{\"ids\": [");
        text_unsigned(line, (uint32_t)e->ids[i]);
    }
    for (uint32_t i = 0; i < e->n; i++) {
        const char *token = tokenizer_token(s->tokenizer, e->ids[i]);
        text_puts(line, i ? ", " : "], \"tokens\": [");
        json_string_add(line, token ? token : "");
    }
    for (uint32_t i = 0; i < e->n; i++) {
        text_puts(line, i ? "], [" : "], \"offsets\": [[");
        text_unsigned(line, e->begin[i]);
        text_puts(line, ", ");
        text_unsigned(line, e->end[i]);
    }
    text_puts(line, "]]}\n"); // (a text has its special tokens at least)
    if (!text_string(line))
        return status_set(STATUS_SYSTEM, "tokenize: no memory for a line");
    return fwrite(line->at, 1, line->size, stdout) == line->size ? STATUS_OK
                                                                 : status_errno(STATUS_IO, "writing standard output");
}

// A line {"text": …, "pair": …}; NUL may occur.
static enum status tokenize_jsonl(struct tokenize_state *s, const char *line, size_t size, const struct lines *lines) {
    json_error_t error;
    json_t *root = json_loadb(line, size, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);
    json_t *text = json_object_get(root, "text"), *pair = json_object_get(root, "pair");
    enum status status;
    if (!root)
        status = status_set(STATUS_DATA, "%s:%zu: not valid JSON: %s", lines->name, lines->number, error.text);
    else if (!json_is_string(text) || (pair && !json_is_string(pair) && !json_is_null(pair)))
        status = status_set(STATUS_DATA, "%s:%zu: wanted {\"text\": string, \"pair\": string or null}", lines->name,
                            lines->number);
    else
        status = tokenizer_encode(s->tokenizer, &s->encoding, json_string_value(text), json_string_length(text),
                                  json_string_value(pair), json_string_length(pair), &s->options);
    json_decref(root);
    return status;
}

static enum status tokenize_all(struct tokenize_state *s, struct lines *lines, bool jsonl) {
    for (;;) {
        const char *line;
        size_t size;
        bool end;
        if (!lines_ready(lines))
            fflush(stdout); // whoever waits for an answer before sending more gets it
        TRY(lines_next(lines, &line, &size, &end));
        if (end)
            return STATUS_OK;
        if (jsonl)
            TRY(tokenize_jsonl(s, line, size, lines));
        else
            TRY(tokenizer_encode(s->tokenizer, &s->encoding, line, size, s->pair, s->pair ? strlen(s->pair) : 0,
                                 &s->options));
        TRY(tokenize_print(s));
    }
}

static enum status tokenize_run(const struct tokenize_flags *f, char **words, size_t n_words) {
    struct tokenizer *tokenizer = NULL;
    struct model_config config = {0};
    struct model_settings settings;
    struct lines lines = {0};
    struct tokenize_state s = {0};
    enum status status;
    if (f->jsonl && (n_words || f->pair))
        return status_set(
            STATUS_USAGE,
            "tokenize: --jsonl reads lines of standard input or --file; texts and --pair don't go with it");
    TRY_GOTO(lines_open(&lines, words, n_words, f->file), done);
    if (f->pair && utf8_check(f->pair, strlen(f->pair)) < strlen(f->pair)) {
        status = status_set(STATUS_DATA, "tokenize: --pair is not valid UTF-8");
        goto done;
    }
    TRY_GOTO(subject_tokenizer(&tokenizer, &settings, &config, f->model), done);
    s.tokenizer = tokenizer;
    s.pair = f->pair;
    s.options = (struct tokenizer_options){
        .special = f->special >= 0 ? (enum tokenizer_special)f->special : settings.special,
        .max_length = (uint32_t)f->max_length,
        .normalize = f->normalize >= 0 ? (enum tokenizer_normalize)f->normalize : settings.normalize,
    };
    status = tokenize_all(&s, &lines, f->jsonl);
done:
    encoding_release(&s.encoding);
    text_release(&s.line);
    tokenizer_close(tokenizer);
    model_config_release(&config);
    lines_close(&lines);
    return status;
}

static struct tokenize_flags given = {.special = -1, .normalize = -1};
static const char *const specials[] = {"literal", "parse", NULL};
static const char *const normalizers[] = {"none", "tweet", NULL};
static const struct flag flags[] = {
    {"--model", FLAG_STRING, &given.model, "DIR", "directory with tokenizer files", NULL, true},
    {"--pair", FLAG_STRING, &given.pair, "TEXT", "second text of every pair", NULL, false},
    {"--max-length", FLAG_COUNT, &given.max_length, "N", "cut to N tokens, special ones included (default: no cut)",
     NULL, false},
    {"--special", FLAG_CHOICE, &given.special, "MODE",
     "literal or parse: what \"<s>\" in a text is (default: the model's)", specials, false},
    {"--normalize", FLAG_CHOICE, &given.normalize, "MODE",
     "none, or tweet: words @… as @user, http… as http (default: the model's)", normalizers, false},
    {"--jsonl", FLAG_SWITCH, &given.jsonl, NULL, "input lines are {\"text\": …, \"pair\": …}", NULL, false},
    {"--file", FLAG_STRING, &given.file, "FILE", "texts, one a line", NULL, false},
    FLAGS_END,
};

const struct verb_flags verb_tokenize_flags = {
    .verb = "tokenize",
    .usage = "--model DIR [--pair TEXT] [--max-length N] [--special MODE] [--normalize MODE] [--jsonl] [--file FILE] "
             "[TEXT …]",
    .about = "Prints {\"ids\", \"tokens\", \"offsets\"} for each text; offsets are bytes.",
    .flags = flags,
    .max_words = SIZE_MAX,
    .words = "TEXT",
    .examples = "finetuned tokenize --model runs/emotion/model \"what a day @user\"",
};

int verb_tokenize(int argc, char **argv) {
    size_t words;
    bool helped;
    enum status status = flags_parse(&verb_tokenize_flags, argc, argv, argv, &words, &helped);
    if (status == STATUS_OK && given.max_length > 1 << 20)
        status = status_set(STATUS_USAGE, "tokenize: --max-length is %lld, at most %d", (long long)given.max_length,
                            1 << 20);
    return helped ? 0 : verb_exit(status == STATUS_OK ? tokenize_run(&given, argv, words) : status);
}
