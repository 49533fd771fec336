// SPDX-License-Identifier: Apache-2.0
// Question answering: the answer to every question of a shard of windows, and its scores against the golds. The same
// numbers in any number of ranks: each question is answered by one rank, losses and scores are added in question order.
#ifndef FINETUNED_TRAIN_EVALUATE_SPANS_H
#define FINETUNED_TRAIN_EVALUATE_SPANS_H

#include "model/squad_metrics.h"
#include "train/evaluate.h"
#include "train/question.h"

struct span_answer {
    struct span span;
    double loss; // of its windows, added in order
    uint32_t windows;
    uint32_t labelled; // 1: its windows have gold spans, so a loss
};

// The defaults of decoding.
static inline struct span_options span_options(bool no_answer) {
    return (struct span_options){.n_best = SPANS_BEST, .max_answer = SPANS_ANSWER, .no_answer = no_answer};
}

// `out` is malloc'ed, (shard->questions), on every rank. Collective with evaluator->comm.
enum status evaluate_spans(struct span_answer **out, const struct evaluator *evaluator, const struct shard *shard,
                           const struct span_options *options);

// Exact match and F1 of the labelled questions of `source`, whose rows the answers follow; `loss`: the mean over their
// windows.
enum status evaluate_squad(struct squad_totals *totals, double *loss, const struct span_answer *answers,
                           const struct source *source, enum squad_version version);

// The keys of an `eval` event as the inside of a JSON object: "official": {"name": "f1", …}, "em", "f1", "questions";
// version 2 also has_answer and no_answer {em, f1, questions}.
void evaluate_squad_print(struct text *text, const struct squad_totals *totals, enum squad_version version);

#endif
