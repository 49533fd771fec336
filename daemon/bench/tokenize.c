// SPDX-License-Identifier: Apache-2.0
// finetuned bench tokenize: how many texts a second become token ids, on one thread: encoding alone, no reading of
// files, no printing.
#include "daemon/bench/bench.h"

#include "base/clock.h"
#include "base/pool.h"
#include "daemon/bench/texts.h"
#include "data/tokenizer.h"
#include "train/trainer.h"

#include <math.h>

#define MADE_TEXTS 20000
#define PASSES_MIN 3
#define PASSES_MAX 1000

static struct {
    const char *model, *file, *dir, *task;
    int64_t seconds;
    bool json;
} given = {.seconds = 2};

struct tokenize_bench {
    struct tokenizer *tokenizer;
    struct bench_texts texts;
    struct encoding encoding;
    uint64_t tokens;
    size_t passes;
    double first_s, pass_s; // of one pass over all texts: the first, and the middle one of those behind it
};

// All texts once; seconds.
static enum status tokenize_pass(struct tokenize_bench *b, double *seconds) {
    const struct tokenizer_options options = {.special = TOKENIZER_LITERAL};
    const double begin = pool_thread_seconds();
    b->tokens = 0;
    for (size_t i = 0; i < b->texts.n; i++) {
        TRY(tokenizer_encode(b->tokenizer, &b->encoding, b->texts.at[i].at, b->texts.at[i].size, NULL, 0, &options));
        b->tokens += b->encoding.n;
    }
    *seconds = pool_thread_seconds() - begin;
    return STATUS_OK;
}

// The first pass finds an empty word cache; those behind it are what a long file sees.
static enum status tokenize_measure(struct tokenize_bench *b) {
    double *passes = calloc(PASSES_MAX, sizeof *passes);
    if (!passes)
        return status_set(STATUS_SYSTEM, "bench: no memory");
    enum status status = tokenize_pass(b, &b->first_s);
    const double end = clock_seconds() + (double)given.seconds;
    while (status == STATUS_OK && b->passes < PASSES_MAX && (b->passes < PASSES_MIN || clock_seconds() < end))
        status = tokenize_pass(b, &passes[b->passes++]);
    b->pass_s = bench_median(passes, b->passes);
    free(passes);
    return status;
}

static void tokenize_json(const struct tokenize_bench *b, struct text *json) {
    text_puts(json, "{");
    bench_string(json, "kind", tokenizer_info(b->tokenizer).kind == TOKENIZER_BPE ? "bpe" : "wordpiece");
    bench_number(json, "threads", 1);
    bench_number(json, "tweets", (double)b->texts.n);
    bench_number(json, "tokens", (double)b->tokens);
    bench_number(json, "bytes", (double)b->texts.bytes);
    bench_number(json, "tweets_per_s", (double)b->texts.n / b->pass_s);
    bench_number(json, "tokens_per_s", (double)b->tokens / b->pass_s);
    bench_number(json, "mb_per_s", 1e-6 * (double)b->texts.bytes / b->pass_s);
    bench_number(json, "first_tweets_per_s", (double)b->texts.n / b->first_s);
    text_puts(json, "}");
}

static void tokenize_print(const struct tokenize_bench *b) {
    bool bpe = tokenizer_info(b->tokenizer).kind == TOKENIZER_BPE;
    printf("%s, one thread, %zu texts: %.1f bytes and %.1f tokens on average\n", bpe ? "byte-level BPE" : "WordPiece",
           b->texts.n, (double)b->texts.bytes / (double)b->texts.n, (double)b->tokens / (double)b->texts.n);
    printf("%-12s %12s %12s %8s\n", "pass", "tweets/s", "tokens/s", "MB/s");
    const double seconds[] = {b->first_s, b->pass_s};
    for (int i = 0; i < 2; i++)
        printf("%-12s %12.0f %12.0f %8.1f\n", i ? "the middle" : "the first", (double)b->texts.n / seconds[i],
               (double)b->tokens / seconds[i], 1e-6 * (double)b->texts.bytes / seconds[i]);
}

static enum status tokenize_open(struct tokenize_bench *b, char **words, size_t n) {
    if ((given.dir != NULL) != (given.task != NULL))
        return status_set(STATUS_USAGE, "bench tokenize: --data.dir and --data.task go together");
    if ((given.file != NULL) + (given.dir != NULL) + (n > 0) > 1)
        return status_set(STATUS_USAGE, "bench tokenize: give files or --data.dir and --data.task, not both");
    TRY(given.model ? tokenizer_open(&b->tokenizer, given.model) : tokenizer_open_bytes(&b->tokenizer));
    if (given.dir)
        return bench_texts_task(&b->texts, given.dir, given.task);
    if (given.file)
        return bench_texts_files(&b->texts, &given.file, 1);
    return n ? bench_texts_files(&b->texts, (const char *const *)words, n) : bench_texts_make(&b->texts, MADE_TEXTS);
}

static enum status tokenize_run(struct text *json, char **words, size_t n) {
    struct tokenize_bench b = {0};
    enum status status = tokenize_open(&b, words, n);
    if (status == STATUS_OK)
        status = tokenize_measure(&b);
    if (status == STATUS_OK && given.json)
        tokenize_json(&b, json);
    else if (status == STATUS_OK)
        tokenize_print(&b);
    encoding_release(&b.encoding);
    bench_texts_close(&b.texts);
    tokenizer_close(b.tokenizer);
    return status;
}

static const struct flag flags[] = {
    {"--model", FLAG_STRING, &given.model, "DIR", "directory with tokenizer files (default: a vocabulary of bytes)",
     NULL, false},
    {"--vocab", FLAG_STRING, &given.model, "DIR", "the same", NULL, false},
    {"--file", FLAG_STRING, &given.file, "FILE", "texts, one a line (default: made ones, as long as tweets)", NULL,
     false},
    {"--data.dir", FLAG_STRING, &given.dir, "DIR", "the train texts of a task in TweetEval's layout", NULL, false},
    {"--data.task", FLAG_STRING, &given.task, "TASK", "that task", NULL, false},
    {"--seconds", FLAG_COUNT, &given.seconds, "N", "measure at least so long (default 2)", NULL, false},
    {"--json", FLAG_SWITCH, &given.json, NULL, "one JSON object", NULL, false},
    FLAGS_END,
};

const struct verb_flags bench_tokenize_flags = {
    .verb = "bench tokenize",
    .usage = "[--json] [--model DIR] [--data.dir DIR --data.task TASK | FILE …]",
    .about = "Texts, tokens and megabytes a second of one thread that does nothing but encode (CPU time). The first "
             "pass over the texts starts with an empty word cache; of the passes behind it the middle one is taken.",
    .flags = flags,
    .max_words = SIZE_MAX,
    .words = "FILE",
};

enum status bench_tokenize(int argc, char **argv, struct text *json) {
    size_t words;
    bool helped;
    TRY(flags_parse(&bench_tokenize_flags, argc, argv, argv, &words, &helped));
    return helped ? STATUS_OK : tokenize_run(json, argv, words);
}
