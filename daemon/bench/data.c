// SPDX-License-Identifier: Apache-2.0
#include "daemon/bench/data.h"

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "daemon/bench/texts.h"
#include "data/source.h"

#include <stdlib.h>
#include <string.h>

#define TASK "made"
#define LABELS 4u
#define BASE "random:mini"

static const uint32_t rows[SPLITS] = {4096, 64, 64};

static enum status made_put(const char *folder, const char *name, const struct text *text) {
    char *path = path_join(folder, name);
    enum status status = path && text_string(text) ? file_replace(path, text->at, text->size)
                                                   : status_set(STATUS_SYSTEM, "bench: no memory for made texts");
    free(path);
    return status;
}

// `letters`: for the built-in vocabulary of bytes, whose texts would be several times as long in tokens.
static enum status made_split(const char *folder, enum source_split split, bool letters) {
    struct text texts = {0}, labels = {0};
    char name[32];
    for (uint32_t row = 0; row < rows[split]; row++) {
        (letters ? bench_letters_make : bench_text_make)(&texts, (uint64_t)split << 32 | row);
        text_puts(&texts, "\n");
        text_printf(&labels, "%u\n", row % LABELS);
    }
    snprintf(name, sizeof name, "%s_text.txt", split_names[split]);
    enum status status = made_put(folder, name, &texts);
    snprintf(name, sizeof name, "%s_labels.txt", split_names[split]);
    if (status == STATUS_OK)
        status = made_put(folder, name, &labels);
    text_release(&texts);
    text_release(&labels);
    return status;
}

static enum status made_task(const char *parent, bool letters) {
    char *folder = path_join(parent, TASK);
    struct text mapping = {0};
    for (uint32_t label = 0; label < LABELS; label++)
        text_printf(&mapping, "%u\tlabel-%u\n", label, label);
    enum status status = folder ? file_make_folders(folder) : status_set(STATUS_SYSTEM, "bench: no memory");
    if (status == STATUS_OK)
        status = made_put(folder, "mapping.txt", &mapping);
    for (int split = 0; status == STATUS_OK && split < SPLITS; split++)
        status = made_split(folder, (enum source_split)split, letters);
    text_release(&mapping);
    free(folder);
    return status;
}

// What the user's job names.
static enum status data_look(struct bench_data *data, const struct job_words *words, bool *letters) {
    struct job *job;
    TRY(job_read(&job, words->file, words->options, words->n_options, JOB_NEED_NOTHING));
    data->base = !job->model.base;
    data->made = !job->data.dir;
    *letters = (data->base || strncmp(job->model.base, "random:", 7) == 0) && !job->model.vocab;
    job_free(job);
    return STATUS_OK;
}

enum status bench_data_open(struct bench_data *out, const struct job_words *words) {
    const char *root = getenv("TMPDIR");
    bool letters;
    *out = (struct bench_data){0};
    TRY(data_look(out, words, &letters));
    char *folder = text_format("%s/finetuned-bench-XXXXXX", root && *root ? root : "/tmp");
    if (!folder)
        return status_set(STATUS_SYSTEM, "bench: no memory");
    if (!mkdtemp(folder)) {
        enum status status = status_errno(STATUS_IO, "bench: making a folder for made texts (TMPDIR says where)");
        free(folder);
        return status;
    }
    out->folder = folder;
    return out->made ? made_task(folder, letters) : STATUS_OK;
}

// What job_read gets: the user's flags, then ours. Of flags given twice the last one holds.
struct options {
    const char **at; // (n)
    size_t n;
};

static void options_add(struct options *options, const char *key, const char *value) {
    options->at[options->n++] = key;
    options->at[options->n++] = value;
}

enum status bench_data_job(struct job **out, const struct bench_data *data, const struct job_words *words,
                           uint64_t steps) {
    char *run = path_join(data->folder, "run"), *count = text_format("%llu", (unsigned long long)steps);
    struct options options = {.at = calloc(words->n_options + 20, sizeof *options.at)};
    enum status status = run && count && options.at ? STATUS_OK : status_set(STATUS_SYSTEM, "bench: no memory");
    if (status == STATUS_OK) {
        for (; options.n < words->n_options; options.n++)
            options.at[options.n] = words->options[options.n];
        options_add(&options, "--out", run);
        options_add(&options, "--checkpoints.dir", run);
        options_add(&options, "--checkpoints.resume", "never");
        options_add(&options, "--train.max_steps", count);
        if (data->base)
            options_add(&options, "--model.base", BASE);
        if (data->made) {
            options_add(&options, "--data.format", "tweet_eval");
            options_add(&options, "--data.dir", data->folder);
            options_add(&options, "--data.task", TASK);
        }
        status = job_read(out, words->file, options.at, options.n, JOB_NEED_RUN);
    }
    free(options.at);
    free(count);
    free(run);
    return status;
}

void bench_data_close(struct bench_data *data) {
    if (data->folder && file_remove(data->folder) != STATUS_OK)
        log_warn("%s could not be removed", data->folder);
    free(data->folder);
    *data = (struct bench_data){0};
}
