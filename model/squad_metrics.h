// SPDX-License-Identifier: Apache-2.0
// Exact match and F1 of question answering, as SQuAD's scripts define them (Rajpurkar et al., 2016 and 2018;
// evaluate-v1.1.py, evaluate-v2.0.py), as shares of one, not of a hundred.
#ifndef FINETUNED_MODEL_SQUAD_METRICS_H
#define FINETUNED_MODEL_SQUAD_METRICS_H

#include "base/status.h"
#include "data/source.h"

#include <stdbool.h>
#include <stdint.h>

enum squad_version { SQUAD_V1 = 1, SQUAD_V2 = 2 };
// Version 2 if some labelled question has no answer.
enum squad_version squad_version_of(const struct source *source);

struct squad_score {
    double exact; // 0 or 1
    double f1;
};

// Scores an answer against the golds, the best of them for either number; texts are compared by squad_normalize.
// Version 2 drops golds of which that leaves nothing. No gold left: the gold is "no answer", an answer without words.
// Two answers without words agree (version 2 and without golds), or have F1 0 (version 1). STATUS_DATA: not UTF-8.
enum status squad_score(struct squad_score *out, enum squad_version version, const char *answer, size_t size,
                        const struct source_answer *golds, uint32_t n);

struct squad_sum {
    uint64_t n;
    double exact, f1; // sums, in the order of the questions
};
struct squad_totals { // starts as {0}
    struct squad_sum all, answered, unanswered;
};
// `has_answer`: the question has a gold answer (n > 0).
void squad_totals_add(struct squad_totals *totals, const struct squad_score *score, bool has_answer);
// A mean: 0 of nothing.
static inline double squad_mean(double sum, uint64_t n) {
    return n ? sum / (double)n : 0;
}

#endif
