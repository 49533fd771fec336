// SPDX-License-Identifier: Apache-2.0
// finetuned predict with a question answering model: a JSON line for each question; with --bench, how long one takes.
#include "daemon/answers/asker.h"
#include "daemon/bench/texts.h"
#include "daemon/answers/latency.h"
#include "daemon/answers/predict.h"

#include "base/clock.h"
#include "base/text.h"
#include "data/source.h"
#include "train/trainer.h"

#include <stdio.h>

#define SHOWN 5u          // answers of a line's list, if --n-best does not say it
#define MADE_QUESTIONS 64 // of --bench, where none are given
#define MADE_TEXTS 8      // made texts of such a question's context: about 130 words

// What is asked: of a file, of --question and --context, or made.
struct asked {
    struct source source;
    struct text made;
    struct example *rows; // (n); of the source, or malloc'ed
    size_t n;
};

static void asked_close(struct asked *asked) {
    if (asked->rows != asked->source.rows)
        free(asked->rows);
    text_release(&asked->made);
    source_close(&asked->source);
}

static enum status asked_file(struct asked *out, const struct predict_flags *f) {
    struct source_spec spec = {.format = (enum source_format)f->format,
                               .columns = {.text = f->text_column ? f->text_column : "question",
                                           .pair = f->pair_column ? f->pair_column : "context"}};
    TRY(source_read_file(&out->source, &spec, f->file, NULL));
    if (out->source.n && !out->source.rows[0].pair)
        return status_set(STATUS_USAGE,
                          "predict: --file %s holds lines of text: questions stand in SQuAD's .json, or in .csv, .tsv "
                          "or .jsonl with columns question and context",
                          f->file);
    if (out->source.n && out->source.rows[0].id && (f->text_column || f->pair_column))
        return status_set(STATUS_USAGE, "predict: --data.columns are of .csv, .tsv and .jsonl; %s is in SQuAD's format",
                          f->file);
    out->rows = out->source.rows;
    out->n = out->source.n;
    return STATUS_OK;
}

static enum status asked_rows(struct asked *out, size_t n) {
    out->rows = calloc(n, sizeof *out->rows);
    out->n = n;
    return out->rows ? STATUS_OK : status_set(STATUS_SYSTEM, "predict: no memory for %zu questions", n);
}

static enum status asked_given(struct asked *out, const struct predict_flags *f) {
    const char *const texts[] = {f->question, f->context};
    for (size_t i = 0; i < 2; i++)
        if (utf8_check(texts[i], strlen(texts[i])) < strlen(texts[i]))
            return status_set(STATUS_DATA, "predict: --%s is not valid UTF-8", i ? "context" : "question");
    TRY(asked_rows(out, 1));
    *out->rows = (struct example){
        .text = f->question, .text_size = strlen(f->question), .pair = f->context, .pair_size = strlen(f->context)};
    return STATUS_OK;
}

// One question about made texts. No tokenizer has more tokens than bytes, so that half of what doc_stride leaves of a
// window is not too much.
static enum status asked_make(struct asked *out, uint32_t length, uint32_t stride) {
    static const char question[] = "what happened to the user who wrote all of this?";
    size_t room = length > stride + 4 ? (length - stride - 4) / 2 : 0, ends[MADE_QUESTIONS + 1] = {0};
    TRY(asked_rows(out, MADE_QUESTIONS));
    for (size_t i = 0; i < MADE_QUESTIONS; i++) {
        for (size_t k = 0; k < MADE_TEXTS; k++) {
            bench_text_make(&out->made, i * MADE_TEXTS + k);
            text_puts(&out->made, " ");
        }
        ends[i + 1] = out->made.size;
    }
    if (!text_string(&out->made))
        return status_set(STATUS_SYSTEM, "predict: no memory for made questions");
    for (size_t i = 0; i < MADE_QUESTIONS; i++)
        out->rows[i] = (struct example){.text = question,
                                        .text_size = room < sizeof question - 1 ? room : sizeof question - 1,
                                        .pair = out->made.at + ends[i],
                                        .pair_size = ends[i + 1] - ends[i]};
    return STATUS_OK;
}

static enum status asked_open(struct asked *out, const struct predict_flags *f, const struct model *model) {
    *out = (struct asked){0};
    if (f->file)
        return asked_file(out, f);
    if (f->question)
        return asked_given(out, f);
    return asked_make(out, subject_length(model), subject_stride(model, f->doc_stride));
}

// ---- answers

static struct span_options questions_options(const struct predictor *p, const struct predict_flags *f) {
    uint32_t shown = f->n_best ? (uint32_t)f->n_best : SHOWN;
    return (struct span_options){.n_best = shown > SPANS_BEST ? shown : SPANS_BEST,
                                 .max_answer = SPANS_ANSWER,
                                 .no_answer = f->no_answer ? f->no_answer == 1 : p->model.settings.no_answer};
}

static enum status questions_ask(struct span *answer, struct asker *asker, const struct example *row) {
    char where[400];
    if (row->id)
        snprintf(where, sizeof where, "%.200s: question %.100s", row->file, row->id);
    else if (row->file)
        snprintf(where, sizeof where, "%.200s:%u", row->file, row->line);
    else
        snprintf(where, sizeof where, "--question");
    return asker_ask(answer, asker, row->text, row->text_size, row->pair, row->pair_size, where);
}

static enum status questions_one(struct asker *asker, const struct predict_flags *f, const struct example *row) {
    struct text text = {0};
    struct span answer;
    TRY(questions_ask(&answer, asker, row));
    asker_print(&text, asker, &answer, row->id, row->pair, f->n_best ? (uint32_t)f->n_best : SHOWN);
    bool written = text_string(&text) && fwrite(text.at, 1, text.size, stdout) == text.size && fflush(stdout) == 0;
    text_release(&text);
    return written ? STATUS_OK : status_errno(STATUS_IO, "writing standard output");
}

static enum status questions_answer(struct asker *asker, const struct predict_flags *f, const struct asked *asked) {
    enum status status = STATUS_OK;
    for (size_t i = 0; i < asked->n && status == STATUS_OK; i++)
        status = questions_one(asker, f, &asked->rows[i]);
    return status;
}

// ---- latencies: one question after the other, from text to answer

static enum status bench_question(double *seconds, uint64_t *tokens, struct asker *asker, const struct example *row) {
    struct span answer;
    double begin = clock_seconds();
    TRY(questions_ask(&answer, asker, row));
    *seconds = clock_seconds() - begin;
    for (uint32_t i = 0; i < asker->windows.n; i++)
        *tokens += windows_length(&asker->windows, i);
    return STATUS_OK;
}

static enum status bench_questions(struct latency *out, double *seconds, struct asker *asker,
                                   const struct asked *asked) {
    uint64_t tokens = 0;
    size_t n = 0;
    for (int i = 0; i < LATENCY_WARM; i++)
        TRY(bench_question(&seconds[0], &tokens, asker, &asked->rows[0]));
    tokens = 0;
    for (double begun = clock_seconds(); latency_goes_on(n, begun); n++)
        TRY(bench_question(&seconds[n], &tokens, asker, &asked->rows[n % asked->n]));
    latency_of(out, seconds, n, tokens);
    return STATUS_OK;
}

static enum status questions_bench(struct asker *asker, const struct predict_flags *f, const struct asked *asked) {
    struct latency latency = {.batch = 1};
    if (asked->n == 0)
        return status_set(STATUS_DATA, "%s: no questions", f->file);
    double *seconds = calloc(LATENCY_MOST, sizeof *seconds);
    enum status status =
        seconds ? bench_questions(&latency, seconds, asker, asked) : status_set(STATUS_SYSTEM, "predict: no memory");
    if (status == STATUS_OK)
        (f->json ? latency_json : latency_print)(&latency, 1, "questions", asked->n, asker->runner);
    free(seconds);
    return status;
}

// ----

static enum status questions_check(const struct predict_flags *f) {
    if (f->pair || f->no_truncation)
        return status_set(STATUS_USAGE,
                          "predict: --pair and --no-truncation are of classification models; %s answers "
                          "questions (contexts are never cut)",
                          f->model);
    if (f->n_best > SPANS_BEST_MAX)
        return status_set(STATUS_USAGE, "predict: --n-best is %lld, must be at most %u", (long long)f->n_best,
                          SPANS_BEST_MAX);
    bool both = f->question && f->context, none = !f->question && !f->context;
    if (f->file ? !none : !both && !(f->bench && none))
        return status_set(STATUS_USAGE,
                          "predict: %s answers questions: give --question TEXT and --context TEXT, or "
                          "--file FILE",
                          f->model);
    if (!f->file && (f->format != SOURCE_TWEET_EVAL || f->text_column || f->pair_column))
        return status_set(STATUS_USAGE, "predict: --data.format and --data.columns are of a --file");
    return STATUS_OK;
}

enum status predict_questions(struct predictor *p, const struct predict_flags *f) {
    struct asker asker = {0};
    struct asked asked = {0};
    struct span_options options = questions_options(p, f);
    enum status status;
    TRY(questions_check(f));
    TRY_GOTO(asked_open(&asked, f, &p->model), done);
    TRY_GOTO(asker_open(&asker, &p->model, &p->runner, &options, subject_stride(&p->model, f->doc_stride)), done);
    status = f->bench ? questions_bench(&asker, f, &asked) : questions_answer(&asker, f, &asked);
done:
    asker_close(&asker);
    asked_close(&asked);
    return status;
}
