// SPDX-License-Identifier: Apache-2.0
// One question on its way from its windows' logits to its answers. Windows come in order, some at a time.
#ifndef FINETUNED_TRAIN_QUESTION_H
#define FINETUNED_TRAIN_QUESTION_H

#include "model/spans.h"

struct question {
    struct span *spans; // (room) the best of the windows so far, then the answers
    uint32_t n, room;
    uint32_t windows;
    double none; // score of "no answer", the least of the windows'
};

// Starts the next question; memory is kept.
void question_clear(struct question *question);
void question_release(struct question *question);
enum status question_add(struct question *question, const struct span_window *window,
                         const struct span_options *options);
// All windows are in: the answers, best first, are spans[0 .. n). Returns the answer; a span with `none` set if there
// is none.
struct span question_answer(struct question *question, const struct span_options *options);

#endif
