// SPDX-License-Identifier: Apache-2.0
#include "train/question.h"

#include <math.h>
#include <stdlib.h>

void question_clear(struct question *question) {
    question->n = question->windows = 0;
    question->none = INFINITY;
}

void question_release(struct question *question) {
    free(question->spans);
    *question = (struct question){0};
}

// Room for one window's spans more, and for "no answer".
static enum status question_reserve(struct question *question, uint32_t n_best) {
    if (question->room - question->n > n_best)
        return STATUS_OK;
    uint32_t room = 2 * question->n + n_best + 1;
    struct span *spans = realloc(question->spans, room * sizeof *spans);
    if (!spans)
        return status_set(STATUS_SYSTEM, "question: no memory for %u spans", room);
    question->spans = spans;
    question->room = room;
    return STATUS_OK;
}

enum status question_add(struct question *question, const struct span_window *window,
                         const struct span_options *options) {
    TRY(question_reserve(question, options->n_best));
    question->n += spans_search(question->spans + question->n, window, question->windows, options);
    double none = spans_none(window);
    question->none = none < question->none ? none : question->none;
    question->windows++;
    return STATUS_OK;
}

struct span question_answer(struct question *question, const struct span_options *options) {
    question->n = spans_merge(question->spans, question->n, question->none, options);
    const struct span *answer = spans_answer(question->spans, question->n, options);
    return answer ? *answer : (struct span){.none = 1};
}
