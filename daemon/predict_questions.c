// SPDX-License-Identifier: Apache-2.0
// finetuned predict with a question answering model: a JSON line for each question.
#include "daemon/asker.h"
#include "daemon/predict.h"

#include "base/text.h"
#include "data/source.h"

#include <stdio.h>

#define SHOWN 5u // answers of a line's list, if --n-best does not say it

static struct span_options questions_options(const struct predictor *p, const struct predict_flags *f) {
    uint32_t shown = f->n_best ? (uint32_t)f->n_best : SHOWN;
    return (struct span_options){.n_best = shown > SPANS_BEST ? shown : SPANS_BEST,
                                 .max_answer = SPANS_ANSWER,
                                 .no_answer = f->no_answer ? f->no_answer == 1 : p->model.settings.no_answer};
}

static enum status questions_one(struct asker *asker, const struct predict_flags *f, const struct example *row,
                                 const char *where) {
    struct text text = {0};
    struct span answer;
    TRY(asker_ask(&answer, asker, row->text, row->text_size, row->pair, row->pair_size, where));
    asker_print(&text, asker, &answer, row->id, row->pair, f->n_best ? (uint32_t)f->n_best : SHOWN);
    bool written = text_string(&text) && fwrite(text.at, 1, text.size, stdout) == text.size && fflush(stdout) == 0;
    text_release(&text);
    return written ? STATUS_OK : status_errno(STATUS_IO, "writing standard output");
}

static enum status questions_rows(struct asker *asker, const struct predict_flags *f, const struct source *source) {
    enum status status = STATUS_OK;
    for (size_t i = 0; i < source->n && status == STATUS_OK; i++) {
        const struct example *row = &source->rows[i];
        char where[400];
        if (row->id)
            snprintf(where, sizeof where, "%.200s, question %.100s", row->file, row->id);
        else
            snprintf(where, sizeof where, "%.200s:%u", row->file, row->line);
        status = questions_one(asker, f, row, where);
    }
    return status;
}

static enum source_format questions_format(const struct predict_flags *f) {
    size_t size = strlen(f->file);
    bool json = size > 5 && strcmp(f->file + size - 5, ".json") == 0;
    return f->format == SOURCE_TWEET_EVAL && json ? SOURCE_SQUAD : (enum source_format)f->format;
}

static enum status questions_file(struct asker *asker, const struct predict_flags *f) {
    struct source source = {0};
    struct source_spec spec = {.format = questions_format(f),
                               .columns = {.text = f->text_column ? f->text_column : "question",
                                           .pair = f->pair_column ? f->pair_column : "context"}};
    TRY(source_read_file(&source, &spec, f->file, NULL));
    enum status status = source.n && !source.rows[0].pair
                             ? status_set(STATUS_USAGE,
                                          "predict: --file %s holds lines of text: questions stand in SQuAD's .json, "
                                          "or in .csv, .tsv or .jsonl with columns question and context",
                                          f->file)
                             : questions_rows(asker, f, &source);
    source_close(&source);
    return status;
}

static enum status questions_given(struct asker *asker, const struct predict_flags *f) {
    const char *const texts[] = {f->question, f->context};
    for (size_t i = 0; i < 2; i++)
        if (utf8_check(texts[i], strlen(texts[i])) < strlen(texts[i]))
            return status_set(STATUS_DATA, "predict: --%s is not valid UTF-8", i ? "context" : "question");
    struct example row = {
        .text = f->question, .text_size = strlen(f->question), .pair = f->context, .pair_size = strlen(f->context)};
    return questions_one(asker, f, &row, "--question");
}

static enum status questions_check(const struct predict_flags *f) {
    if (f->bench || f->pair || f->no_truncation)
        return status_set(STATUS_USAGE,
                          "predict: --bench, --pair and --no-truncation are of classification models; this one answers "
                          "questions (contexts are never cut)");
    if (f->n_best > SPANS_BEST_MAX)
        return status_set(STATUS_USAGE, "predict: --n-best is %lld, must be at most %u", (long long)f->n_best,
                          SPANS_BEST_MAX);
    if (f->file ? f->question || f->context : !f->question || !f->context)
        return status_set(STATUS_USAGE, "predict: the model answers questions: give --question TEXT and --context "
                                        "TEXT, or --file FILE");
    return STATUS_OK;
}

enum status predict_questions(struct predictor *p, const struct predict_flags *f) {
    struct asker asker;
    TRY(questions_check(f));
    struct span_options options = questions_options(p, f);
    enum status status = asker_open(&asker, &p->model, &p->runner, &options);
    if (status == STATUS_OK)
        status = f->file ? questions_file(&asker, f) : questions_given(&asker, f);
    asker_close(&asker);
    return status;
}
