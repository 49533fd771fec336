// SPDX-License-Identifier: Apache-2.0
// finetuned predict: a JSON line for each text.
#include "daemon/verbs.h"

#include "base/text.h"
#include "daemon/flags.h"
#include "daemon/lines.h"
#include "daemon/answers/predict.h"
#include "data/source.h"

// Lines wait for each other while more of them are there; one that comes alone, as from a terminal, is answered at
// once.
static enum status predict_lines(struct predictor *p, struct lines *lines, const char *pair) {
    for (;;) {
        const char *line;
        size_t size;
        bool end;
        char where[40];
        if (p->n == PREDICT_BATCH || (p->n && !lines_ready(lines)))
            TRY(predictor_answer(p));
        TRY(lines_next(lines, &line, &size, &end));
        if (end)
            return STATUS_OK;
        snprintf(where, sizeof where, "text %zu", lines->number);
        TRY(predictor_add(p, line, size, pair, pair ? strlen(pair) : 0, where));
    }
}

static enum status predict_rows(struct predictor *p, const struct source *source) {
    for (size_t i = 0; i < source->n; i++) {
        const struct example *row = &source->rows[i];
        char where[300];
        if (p->n == PREDICT_BATCH)
            TRY(predictor_answer(p));
        snprintf(where, sizeof where, "%.200s:%u", row->file, row->line);
        TRY(predictor_add(p, row->text, row->text_size, row->pair, row->pair_size, where));
    }
    return STATUS_OK;
}

// What came before a text that can't be answered is answered; its message stays.
static enum status predict_rest(struct predictor *p, enum status status) {
    char message[1024];
    if (status == STATUS_OK)
        return predictor_answer(p);
    snprintf(message, sizeof message, "%s", status_message());
    predictor_answer(p);
    return status_set(status, "%s", message);
}

static enum status predict_stream(struct predictor *p, const struct predict_flags *f, char **words, size_t n_words) {
    struct lines lines;
    enum status status = lines_open(&lines, words, n_words, f->file);
    if (status == STATUS_OK)
        status = predict_rest(p, predict_lines(p, &lines, f->pair));
    lines_close(&lines);
    return status;
}

static enum status predict_file(struct predictor *p, const struct predict_flags *f) {
    struct source source = {0};
    struct source_spec spec = {.format = (enum source_format)f->format,
                               .columns = {.text = f->text_column ? f->text_column : "text", .pair = f->pair_column}};
    enum status status = source_read_file(&source, &spec, f->file, NULL);
    if (status == STATUS_OK && source.n && source.rows[0].id)
        status = status_set(STATUS_USAGE, "predict: %s holds questions, but %s is a classifier", f->file, f->model);
    else if (status == STATUS_OK)
        status = predict_rest(p, predict_rows(p, &source));
    source_close(&source);
    return status;
}

// A file with columns, by its format or its name.
static bool predict_is_table(const struct predict_flags *f) {
    static const char *const endings[] = {".csv", ".tsv", ".jsonl", ".json"};
    size_t size = f->file ? strlen(f->file) : 0;
    bool table = f->file && f->format != SOURCE_TWEET_EVAL;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t n = strlen(endings[i]);
        table = table || (size > n && strcmp(f->file + size - n, endings[i]) == 0);
    }
    return table;
}

// What is wrong whatever the model.
static enum status predict_check(const struct predict_flags *f, size_t n_words) {
    if (n_words && f->file)
        return status_set(STATUS_USAGE, "give texts as arguments or --file, not both");
    if (f->json && !f->bench)
        return status_set(STATUS_USAGE, "predict: --json goes with --bench (answers are JSON lines anyway)");
    return STATUS_OK;
}

// And for a classifier.
static enum status predict_check_texts(const struct predict_flags *f) {
    bool table = predict_is_table(f);
    if (!table && (f->text_column || f->pair_column || f->format != SOURCE_TWEET_EVAL))
        return status_set(STATUS_USAGE, "predict: --data.format and --data.columns are of a --file with columns: .csv, "
                                        ".tsv or .jsonl");
    if (table && f->pair)
        return status_set(STATUS_USAGE, "predict: --pair is the second text of arguments and lines; a file's is named "
                                        "by --data.columns.pair");
    if (table && f->bench)
        return status_set(STATUS_USAGE, "predict: --bench takes arguments, lines of a text file, or its own texts");
    if (f->pair && utf8_check(f->pair, strlen(f->pair)) < strlen(f->pair))
        return status_set(STATUS_DATA, "predict: --pair is not valid UTF-8");
    return STATUS_OK;
}

static enum status predict_texts(struct predictor *p, const struct predict_flags *f, char **words, size_t n_words) {
    if (f->question || f->context || f->n_best || f->no_answer || f->doc_stride)
        return status_set(STATUS_USAGE,
                          "predict: --question, --context, --n-best, --no-answer and --data.doc_stride are of question "
                          "answering models; %s is a classifier",
                          f->model);
    TRY(predict_check_texts(f));
    subject_pairs(&p->model, f->pair || f->pair_column);
    if (f->bench)
        return predict_bench(p, f, words, n_words);
    return predict_is_table(f) ? predict_file(p, f) : predict_stream(p, f, words, n_words);
}

static enum status predict_run(const struct predict_flags *f, char **words, size_t n_words) {
    struct predictor p;
    TRY(predict_check(f, n_words));
    enum status status = predictor_open(&p, f->model, f->job, f->no_truncation);
    bool questions = p.model.config.head == HEAD_QUESTION_ANSWERING;
    if (status == STATUS_OK && questions && n_words)
        status = status_set(STATUS_USAGE,
                            "predict: %s answers questions: give --question TEXT and --context TEXT, or "
                            "--file FILE",
                            f->model);
    else if (status == STATUS_OK && questions)
        status = predict_questions(&p, f);
    else if (status == STATUS_OK)
        status = predict_texts(&p, f, words, n_words);
    predictor_close(&p);
    return status;
}

static struct predict_flags given;
static const char *const formats[] = {"tweet_eval", "csv", "tsv", "jsonl", "squad", NULL}; // as enum source_format
static const char *const answers[] = {"model", "yes", "no", NULL};
static const struct flag flags[] = {
    {"--model", FLAG_STRING, &given.model, "DIR", "model directory or checkpoint", NULL, true},
    {"--file", FLAG_STRING, &given.file, "FILE", ".csv, .tsv, .jsonl; questions: SQuAD's .json too; else lines of text",
     NULL, false},
    {"--pair", FLAG_STRING, &given.pair, "TEXT", "second text of every argument or line", NULL, false},
    {"--question", FLAG_STRING, &given.question, "TEXT", "question answering: the question", NULL, false},
    {"--context", FLAG_STRING, &given.context, "TEXT", "question answering: where the answer stands; of any length",
     NULL, false},
    {"--n-best", FLAG_COUNT, &given.n_best, "N", "question answering: answers of the list (default 5)", NULL, false},
    {"--no-answer", FLAG_CHOICE, &given.no_answer, "WORD",
     "question answering: whether there may be none: model (as it was trained, the default), yes, no", answers, false},
    {"--data.doc_stride", FLAG_COUNT, &given.doc_stride, "N",
     "question answering: context tokens that neighbouring windows share (default: as the model was trained)", NULL,
     false},
    {"--data.format", FLAG_CHOICE, &given.format, "FORMAT",
     "csv, tsv, jsonl or squad, where the file's name does not say it", formats, false},
    {"--data.columns.text", FLAG_STRING, &given.text_column, "NAME",
     "csv, tsv, jsonl: the text (default text), or the question (default question)", NULL, false},
    {"--data.columns.pair", FLAG_STRING, &given.pair_column, "NAME",
     "the second text of a pair (default: there is none), or the context (default context)", NULL, false},
    {"--no-truncation", FLAG_SWITCH, &given.no_truncation, NULL,
     "refuse a text that is too long (65) instead of cutting it", NULL, false},
    {"--bench", FLAG_SWITCH, &given.bench, NULL,
     "latencies and rates instead of answers, alone and in batches, on the texts given or on made ones", NULL, false},
    {"--json", FLAG_SWITCH, &given.json, NULL, "with --bench: one JSON object", NULL, false},
    {"--job", FLAG_STRING, &given.job, "FILE", "a checkpoint's job.yaml, where it is not beside it", NULL, false},
    FLAGS_END,
};

const struct verb_flags verb_predict_flags = {
    .verb = "predict",
    .usage = "--model DIR [--pair TEXT] [--file FILE] [--bench [--json]] [TEXT …]\n"
             "--model DIR (--question TEXT --context TEXT | --file FILE) [--n-best N] [--bench [--json]]",
    .about = "Prints {\"label\", \"score\", \"scores\", \"logits\"} for each text: arguments, --file, or lines of "
             "standard input (a blank line is a text). A text too long is cut and answered with \"truncated\": true. "
             "Texts that wait are answered together, up to 32; an answer does not depend on what else is asked.\n"
             "A question answering model prints {\"answer\", \"score\", \"start\", \"end\", \"nbest\"}: bytes of the "
             "context, and the answer's probability among the 20 best (or N, if more\nare asked for).",
    .flags = flags,
    .max_words = SIZE_MAX,
    .words = "TEXT",
    .examples = "finetuned predict --model runs/emotion/model \"what a lovely morning\"\n"
                "finetuned predict --model runs/emotion/model --file tweets.csv > answers.jsonl\n"
                "finetuned predict --model runs/emotion/model --bench\n"
                "finetuned predict --model runs/squad/model --question \"Who came?\" --context \"Ada came by train.\"",
};

int verb_predict(int argc, char **argv) {
    size_t words;
    bool helped;
    enum status status = flags_parse(&verb_predict_flags, argc, argv, argv, &words, &helped);
    return helped ? 0 : verb_exit(status == STATUS_OK ? predict_run(&given, argv, words) : status);
}
