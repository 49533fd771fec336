// SPDX-License-Identifier: Apache-2.0
#include "daemon/answers/predict.h"

#include "base/markup.h"
#include "base/text.h"
#include "train/evaluate.h"

#include <math.h>
#include <stdio.h>

enum status predictor_open(struct predictor *out, const char *model, const char *job_file, bool no_truncation) {
    *out = (struct predictor){.no_truncation = no_truncation};
    TRY(pool_open(&out->pool, 0));
    TRY(subject_open(&out->model, NULL, model, job_file, out->pool));
    TRY(runner_open(&out->runner, &out->model, out->pool, subject_length(&out->model), PREDICT_BATCH));
    batch_clear(&out->runner.batch);
    out->scores = calloc((size_t)PREDICT_BATCH * out->model.config.labels, sizeof *out->scores);
    return out->scores ? STATUS_OK : status_set(STATUS_SYSTEM, "predict: no memory");
}

void predictor_close(struct predictor *p) {
    free(p->scores);
    encoding_release(&p->encoding);
    runner_close(&p->runner);
    model_close(&p->model);
    pool_close(p->pool);
}

enum status predictor_add(struct predictor *p, const char *text, size_t size, const char *pair, size_t pair_size,
                          const char *where) {
    struct tokenizer_options options = {.special = p->model.settings.special,
                                        .max_length = subject_length(&p->model),
                                        .normalize = p->model.settings.normalize};
    struct encoding *e = &p->encoding;
    TRY(tokenizer_encode(p->model.tokenizer, e, text, size, pair, pair_size, &options));
    if (e->full > e->n && p->no_truncation)
        return status_set(STATUS_DATA, "%s has %u tokens, the model takes %u (leave out --no-truncation to cut)", where,
                          e->full, options.max_length);
    batch_add(&p->runner.batch, e->ids, e->types, e->n, -1, p->n);
    p->truncated[p->n++] = e->full > e->n;
    return STATUS_OK;
}

enum status predictor_run(struct predictor *p, const float **logits) {
    uint32_t n = p->n;
    p->n = 0;
    enum status status = pass_begin(p->runner.pass, &p->runner.batch, 0);
    if (status == STATUS_OK) {
        for (unsigned l = 0; l <= p->model.config.layers + 1; l++)
            layer_forward(p->runner.pass, p->model.weights, l);
        *logits = pass_logits(p->runner.pass);
        pass_ops(p->runner.pass)->softmax(p->scores, *logits, n, p->model.config.labels);
    }
    batch_clear(&p->runner.batch);
    return status;
}

// ---- printing

static const char *answer_label(const struct model_config *config, uint32_t c, char buffer[32]) {
    if (c < config->label_names.n)
        return config->label_names.names[c];
    snprintf(buffer, 32, "LABEL_%u", c);
    return buffer;
}

static void answer_add(struct text *text, const struct predictor *p, const float *logits, const float *scores,
                       bool truncated) {
    uint32_t n = p->model.config.labels, best = (uint32_t)evaluate_argmax(logits, n);
    char name[32];
    text_puts(text, "{\"label\": ");
    json_string_add(text, answer_label(&p->model.config, best, name));
    text_puts(text, ", \"score\": ");
    json_number_add(text, scores[best]);
    text_puts(text, ", \"scores\": {");
    for (uint32_t c = 0; c < n; c++) {
        text_puts(text, c ? ", " : "");
        json_string_add(text, answer_label(&p->model.config, c, name));
        text_puts(text, ": ");
        json_number_add(text, scores[c]);
    }
    text_puts(text, "}, \"logits\": [");
    for (uint32_t c = 0; c < n; c++) {
        text_puts(text, c ? ", " : "");
        json_number_add(text, logits[c]);
    }
    text_puts(text, truncated ? "], \"truncated\": true}\n" : "]}\n");
}

// A label chosen by numbers that are none would look like any other.
static enum status answers_finite(const struct predictor *p, const float *logits, uint32_t n) {
    uint32_t labels = p->model.config.labels;
    for (uint32_t i = 0; i < n * labels; i++)
        if (!isfinite(logits[i]))
            return status_set(STATUS_DATA,
                              "predict: text %llu: the model's logits are not finite: it is broken, or its training "
                              "has diverged",
                              (unsigned long long)(p->answered + i / labels + 1));
    return STATUS_OK;
}

enum status predictor_answer(struct predictor *p) {
    const float *logits;
    struct text text = {0};
    uint32_t n = p->n, labels = p->model.config.labels;
    if (n == 0)
        return STATUS_OK;
    TRY(predictor_run(p, &logits));
    TRY(answers_finite(p, logits, n));
    p->answered += n;
    for (uint32_t i = 0; i < n; i++)
        answer_add(&text, p, logits + (size_t)i * labels, p->scores + (size_t)i * labels, p->truncated[i]);
    bool written = text_string(&text) && fwrite(text.at, 1, text.size, stdout) == text.size && fflush(stdout) == 0;
    text_release(&text);
    return written ? STATUS_OK : status_errno(STATUS_IO, "writing standard output");
}
