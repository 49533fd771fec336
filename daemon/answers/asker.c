// SPDX-License-Identifier: Apache-2.0
#include "daemon/answers/asker.h"

#include "base/markup.h"

#include <stdlib.h>

enum status asker_open(struct asker *out, const struct model *model, struct runner *runner,
                       const struct span_options *options, uint32_t doc_stride) {
    size_t tokens = runner->max_tokens;
    *out = (struct asker){.model = model, .runner = runner, .options = *options, .doc_stride = doc_stride};
    out->ids = calloc(tokens, sizeof *out->ids);
    out->types = calloc(tokens, sizeof *out->types);
    out->begin = calloc(tokens, sizeof *out->begin);
    out->end = calloc(tokens, sizeof *out->end);
    if (out->ids && out->types && out->begin && out->end)
        return STATUS_OK;
    return status_set(STATUS_SYSTEM, "predict: no memory for %zu tokens", tokens);
}

void asker_close(struct asker *asker) {
    windows_release(&asker->windows);
    question_release(&asker->question);
    free(asker->ids);
    free(asker->types);
    free(asker->begin);
    free(asker->end);
}

// Windows [first, first + n) into the batch, their bytes beside it.
static void asker_fill(struct asker *a, uint32_t first, uint32_t n) {
    struct batch *batch = &a->runner->batch;
    batch_clear(batch);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = batch->tokens, length = windows_length(&a->windows, first + i);
        windows_copy(&a->windows, first + i, a->ids + at, a->types + at, a->begin + at, a->end + at);
        batch_add(batch, a->ids + at, a->types + at, length, -1, i);
    }
}

static enum status asker_batch(struct asker *a, uint32_t first, uint32_t n) {
    struct runner *runner = a->runner;
    asker_fill(a, first, n);
    TRY(pass_begin(runner->pass, &runner->batch, 0));
    for (unsigned l = 0; l <= a->model->config.layers + 1; l++)
        layer_forward(runner->pass, a->model->weights, l);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = runner->batch.cu_seqlens[i], length = runner->batch.cu_seqlens[i + 1] - at;
        struct span_window window = {.logits = pass_logits(runner->pass) + 2 * (size_t)at,
                                     .context = a->windows.context,
                                     .end = length - 1,
                                     .byte_starts = a->begin + at,
                                     .byte_ends = a->end + at};
        TRY(question_add(&a->question, &window, &a->options));
    }
    return STATUS_OK;
}

enum status asker_ask(struct span *out, struct asker *a, const char *question, size_t question_size,
                      const char *context, size_t context_size, const char *where) {
    const struct model_settings *settings = &a->model->settings;
    struct window_options options = {.special = settings->special,
                                     .max_length = subject_length(a->model),
                                     .doc_stride = a->doc_stride,
                                     .normalize = settings->normalize};
    enum status status =
        windows_encode(&a->windows, a->model->tokenizer, question, question_size, context, context_size, &options);
    if (status != STATUS_OK)
        return status_add(status, "%s", where);
    question_clear(&a->question);
    for (uint32_t first = 0; first < a->windows.n; first += ASKER_BATCH) {
        uint32_t left = a->windows.n - first;
        TRY(asker_batch(a, first, left < ASKER_BATCH ? left : ASKER_BATCH));
    }
    *out = question_answer(&a->question, &a->options);
    return STATUS_OK;
}

static void span_print(struct text *text, const struct span *span, const char *context) {
    text_puts(text, "\"answer\": ");
    json_string_bytes(text, context + span->byte_start, span->byte_end - span->byte_start);
    text_puts(text, ", \"score\": ");
    json_number_add(text, span->probability);
    text_printf(text, ", \"start\": %u, \"end\": %u", span->byte_start, span->byte_end);
}

void asker_print(struct text *text, const struct asker *asker, const struct span *answer, const char *id,
                 const char *context, uint32_t n_best) {
    text_puts(text, "{");
    if (id) {
        text_puts(text, "\"id\": ");
        json_string_add(text, id);
        text_puts(text, ", ");
    }
    span_print(text, answer, context);
    text_puts(text, ", \"nbest\": [");
    for (uint32_t i = 0; i < asker->question.n && i < n_best; i++) {
        text_puts(text, i ? ", {" : "{");
        span_print(text, &asker->question.spans[i], context);
        text_puts(text, "}");
    }
    text_puts(text, "]}\n");
}
