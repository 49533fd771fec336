// SPDX-License-Identifier: Apache-2.0
// From start and end logits to answers: the best spans of a window, and of all windows of a question.
//
// A span is two context tokens of one window, start <= end, at most `max_answer` tokens, that hold some byte of the
// context (a blank's token may hold none). Its score is start logit of
// the first + end logit of the last. Every span is searched. Best first: higher score; of equals the earlier window,
// then the smaller start, then the smaller end. The score of "no answer" is start + end logit of token 0, the least one
// over the question's windows (Transformers' run_qa, utils_qa.py).
#ifndef FINETUNED_MODEL_SPANS_H
#define FINETUNED_MODEL_SPANS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define SPANS_BEST_MAX 1000u
#define SPANS_BEST 20u   // as Transformers' n_best_size
#define SPANS_ANSWER 30u // as its max_answer_length

struct span_options {
    uint32_t n_best;     // 1 .. SPANS_BEST_MAX
    uint32_t max_answer; // tokens, at least 1
    bool no_answer;      // "no answer" is one of the answers (squad version 2)
    double threshold;    // "no answer" wins if its score is above the best span's by more than this
};

// What the model says of one window.
struct span_window {
    const float *logits;         // (length, 2), a row a token: start, end
    uint32_t context, end;       // its context tokens are [context, end); there may be none
    const uint32_t *byte_starts; // (length) byte offsets of tokens into the context, [start, end)
    const uint32_t *byte_ends;   // (length)
};

// One answer. Plain data: it may be sent to another rank.
struct span {
    double score;
    double probability;            // softmax of the scores over the answers of spans_merge
    uint32_t window;               // which of the question's windows
    uint32_t start, end;           // tokens of that window, both included
    uint32_t byte_start, byte_end; // of the context, [start, end)
    uint32_t repeat;               // how many better spans of its window have the same bytes
    uint32_t none;                 // 1: no answer; tokens and bytes are 0
};

// The best spans of one window, at most options->n_best, best first, into `out`; returns how many. Spans whose score is
// not finite are none. `window` is kept in them.
uint32_t spans_search(struct span *out, const struct span_window *from, uint32_t window,
                      const struct span_options *options);
// Score of "no answer" in one window.
double spans_none(const struct span_window *from);

// The answers to one question from the `n` spans that spans_search gave for its windows (any order; `spans` has room
// for one more). What two windows both see is taken once, the better: a window's span is another's if they have the
// same bytes and `repeat`. Sorts, cuts to n_best, puts "no answer" (least of the windows' spans_none) in its place
// behind equals, if options->no_answer, and fills the probabilities. Returns how many are left in `spans`, at most
// n_best + 1.
uint32_t spans_merge(struct span *spans, uint32_t n, double none, const struct span_options *options);
// Of merged spans the answer: the best span, or "no answer" by the threshold, or if there is no span. NULL if there is
// nothing at all, which is no answer too.
const struct span *spans_answer(const struct span *spans, uint32_t n, const struct span_options *options);

// All of it for one question: searches its `n` windows (each with the logits of its own) and merges. `*out`: `*n_out`
// answers, free it. STATUS_SYSTEM without memory.
enum status spans_decode(struct span **out, uint32_t *n_out, const struct span_window *windows, uint32_t n,
                         const struct span_options *options);

#endif
