// SPDX-License-Identifier: Apache-2.0
// finetuned predict: a JSON line for each text.
#include "daemon/verbs.h"

#include "base/text.h"
#include "daemon/flags.h"
#include "daemon/lines.h"
#include "daemon/subject.h"
#include "train/evaluate.h"
#include "train/events.h"

struct predict_flags {
    const char *model, *file, *job;
    bool no_truncation;
};

struct predictor {
    struct model model;
    struct runner runner;
    struct encoding encoding;
    float *scores; // (labels)
    bool no_truncation;
};

static const char *predict_label(const struct predictor *p, uint32_t c, char buffer[32]) {
    if (c < p->model.config.label_names.n)
        return p->model.config.label_names.names[c];
    snprintf(buffer, 32, "LABEL_%u", c);
    return buffer;
}

static enum status predict_print(const struct predictor *p, const float *logits, bool truncated) {
    uint32_t n = p->model.config.labels, best = (uint32_t)evaluate_argmax(logits, n);
    struct text text = {0};
    char name[32];
    text_puts(&text, "{\"label\": ");
    json_string_add(&text, predict_label(p, best, name));
    text_puts(&text, ", \"score\": ");
    json_number_add(&text, p->scores[best]);
    text_puts(&text, ", \"scores\": {");
    for (uint32_t c = 0; c < n; c++) {
        text_puts(&text, c ? ", " : "");
        json_string_add(&text, predict_label(p, c, name));
        text_puts(&text, ": ");
        json_number_add(&text, p->scores[c]);
    }
    text_puts(&text, "}, \"logits\": [");
    for (uint32_t c = 0; c < n; c++) {
        text_puts(&text, c ? ", " : "");
        json_number_add(&text, logits[c]);
    }
    text_puts(&text, truncated ? "], \"truncated\": true}" : "]}");
    bool written = text_string(&text) && puts(text_string(&text)) >= 0;
    text_release(&text);
    return written ? STATUS_OK : status_errno(STATUS_IO, "writing standard output");
}

static enum status predict_one(struct predictor *p, const char *line, size_t size, size_t number) {
    struct tokenizer_options options = {.special = p->model.settings.special,
                                        .max_length = subject_length(&p->model),
                                        .normalize = p->model.settings.normalize};
    struct encoding *e = &p->encoding;
    TRY(tokenizer_encode(p->model.tokenizer, e, line, size, NULL, 0, &options));
    if (e->full > e->n && p->no_truncation)
        return status_set(STATUS_DATA, "text %zu has %u tokens, the model takes %u (leave out --no-truncation to cut)",
                          number, e->full, options.max_length);
    batch_clear(&p->runner.batch);
    batch_add(&p->runner.batch, e->ids, e->types, e->n, -1, 0);
    TRY(pass_begin(p->runner.pass, &p->runner.batch, 0));
    for (unsigned l = 0; l <= p->model.config.layers + 1; l++)
        layer_forward(p->runner.pass, p->model.weights, l);
    const float *logits = pass_logits(p->runner.pass);
    pass_ops(p->runner.pass)->softmax(p->scores, logits, 1, p->model.config.labels);
    return predict_print(p, logits, e->full > e->n);
}

static enum status predict_all(struct predictor *p, struct lines *lines) {
    for (;;) {
        const char *line;
        size_t size;
        bool end;
        TRY(lines_next(lines, &line, &size, &end));
        if (end)
            return STATUS_OK;
        TRY(predict_one(p, line, size, lines->number));
    }
}

static enum status predict_run(const struct predict_flags *f, char **words, size_t n_words) {
    struct predictor p = {.no_truncation = f->no_truncation};
    struct lines lines = {0};
    enum status status;
    TRY_GOTO(lines_open(&lines, words, n_words, f->file), done);
    TRY_GOTO(subject_open(&p.model, f->model, f->job), done);
    TRY_GOTO(runner_open(&p.runner, &p.model, subject_length(&p.model), 1), done);
    p.scores = calloc(p.model.config.labels, sizeof *p.scores);
    status = p.scores ? predict_all(&p, &lines) : status_set(STATUS_SYSTEM, "predict: no memory");
done:
    free(p.scores);
    encoding_release(&p.encoding);
    runner_close(&p.runner);
    model_close(&p.model);
    lines_close(&lines);
    return status;
}

static struct predict_flags given;
static const struct flag flags[] = {
    {"--model", FLAG_STRING, &given.model, "DIR", "model directory or checkpoint", NULL, true},
    {"--file", FLAG_STRING, &given.file, "FILE", "texts, one a line", NULL, false},
    {"--no-truncation", FLAG_SWITCH, &given.no_truncation, NULL,
     "refuse a text that is too long (65) instead of cutting it", NULL, false},
    {"--job", FLAG_STRING, &given.job, "FILE", "a checkpoint's job.yaml, where it is not beside it", NULL, false},
    FLAGS_END,
};
static const char *const later[] = {"--pair", "--question", "--context", "--bench", NULL};

const struct verb_flags verb_predict_flags = {
    .verb = "predict",
    .usage = "--model DIR [--file FILE] [TEXT …]",
    .about =
        "Prints {\"label\", \"score\", \"scores\", \"logits\"} for each text: arguments, --file, or lines of standard "
        "input\n"
        "(a blank line is a text). A text too long is cut and answered with \"truncated\": true.",
    .flags = flags,
    .max_words = SIZE_MAX,
    .later = later,
    .words = "TEXT",
};

int verb_predict(int argc, char **argv) {
    size_t words;
    bool helped;
    enum status status = flags_parse(&verb_predict_flags, argc, argv, argv, &words, &helped);
    return helped ? 0 : verb_exit(status == STATUS_OK ? predict_run(&given, argv, words) : status);
}
