// SPDX-License-Identifier: Apache-2.0
// finetuned prepare: text to token shards, as run does when they are missing.
#include "daemon/verbs.h"

#include "base/job.h"
#include "base/text.h"
#include "daemon/flags.h"
#include "daemon/paths/taken.h"
#include "train/inputs.h"

static void prepare_print_windows(const struct inputs *inputs) {
    printf("%-6s %9s %9s %9s %9s %7s %6s %6s %8s\n", "split", "questions", "windows", "answered", "tokens", "mean",
           "p50", "p99", "longest");
    for (int split = 0; split < SPLITS; split++) {
        if (inputs->shards[split].n == 0) // no test split
            continue;
        struct shard_report r = shard_report(&inputs->shards[split]);
        printf("%-6s %9u %9u %9u %9llu %7.1f %6u %6u %8u\n", split_names[split], r.questions, r.n, r.answered,
               (unsigned long long)r.tokens, r.mean, r.p50, r.p99, r.longest);
    }
}

static void prepare_print_texts(const struct inputs *inputs) {
    printf("%-6s %9s %9s %7s %6s %6s %8s %9s %11s\n", "split", "texts", "tokens", "mean", "p50", "p99", "longest",
           "cut", "tokens cut");
    for (int split = 0; split < SPLITS; split++) {
        if (inputs->shards[split].n == 0) // no test split
            continue;
        struct shard_report r = shard_report(&inputs->shards[split]);
        printf("%-6s %9u %9llu %7.1f %6u %6u %8u %9u %11llu\n", split_names[split], r.n, (unsigned long long)r.tokens,
               r.mean, r.p50, r.p99, r.longest, r.cut, (unsigned long long)r.tokens_cut);
    }
}

static void prepare_print(const struct inputs *inputs, const char *folder) {
    if (inputs->shards[SPLIT_TRAIN].spans)
        prepare_print_windows(inputs);
    else
        prepare_print_texts(inputs);
    printf("shards in %s\n", folder);
}

// --out names the shards' folder here; without it a job file's data.cache does.
static enum status prepare_cache(struct job *job, const struct job_words *words) {
    bool given = false;
    for (size_t i = 0; i < words->n_options; i++)
        given = given || strcmp(words->options[i], "--out") == 0 || strncmp(words->options[i], "--out=", 6) == 0;
    if (!given && !words->file)
        return status_set(STATUS_USAGE, "prepare: --out DIR is required: the folder for the shards");
    char *cache = strdup(given ? job->out : job->data.cache);
    if (!cache)
        return status_set(STATUS_SYSTEM, "prepare: no memory");
    free(job->data.cache);
    job->data.cache = cache;
    return STATUS_OK;
}

static enum status prepare_run(const struct job *job) {
    struct base base = {0};
    struct inputs inputs = {0};
    struct pool *pool = NULL;
    enum status status;
    const char *key = "prepare: the shards' folder";
    TRY(file_place(key, job->data.cache));
    TRY(taken_check(&(struct taken_ask){key, job->data.cache, .as = TAKEN_KEPT}));
    TRY_GOTO(pool_open(&pool, (unsigned)job->threads), done);
    TRY_GOTO(base_open(&base, job, NULL), done);
    TRY_GOTO(inputs_open(&inputs, job, &base, pool), done);
    prepare_print(&inputs, job->data.cache);
done:
    inputs_close(&inputs);
    base_close(&base);
    pool_close(pool);
    return status;
}

static const struct flag flags[] = {FLAGS_END};

const struct verb_flags verb_prepare_flags = {
    .verb = "prepare",
    .usage = "[JOB.yaml] --data.dir DIR (--data.task TASK | --data.format FORMAT) --model.base DIR --out DIR "
             "[--data.max_length N] [--key value …]",
    .about = "Reads and checks the splits, tokenises them and writes token shards into --out; what is up to date "
             "is reused.\n"
             "A run with data.cache set to that folder finds them. Other keys of a job file are flags too.",
    .flags = flags,
    .words = "FILE",
    .keys = true,
    .examples =
        "finetuned prepare --model.base path/to/model --data.dir path/to/tweet_eval --data.task emotion --out shards",
};

int verb_prepare(int argc, char **argv) {
    struct job *job = NULL;
    struct job_words words;
    bool helped;
    enum status status = flags_parse_job(&words, &verb_prepare_flags, argc, argv, &helped);
    if (status == STATUS_OK && !helped)
        status = job_read(&job, words.file, words.options, words.n_options, JOB_NEED_PREPARE);
    if (status == STATUS_OK && !helped)
        status = prepare_cache(job, &words);
    if (status == STATUS_OK && !helped)
        status = prepare_run(job);
    job_words_release(&words);
    job_free(job);
    return helped ? 0 : verb_exit(status);
}
