// SPDX-License-Identifier: Apache-2.0
// Answers for every example of a shard, and their metrics. The same numbers in any number of ranks: counts are
// integers, losses are added in example order.
#ifndef FINETUNED_TRAIN_EVALUATE_H
#define FINETUNED_TRAIN_EVALUATE_H

#include "base/text.h"
#include "comm/comm.h"
#include "data/batch.h"
#include "data/shard.h"
#include "model/metrics.h"
#include "model/pass.h"

struct answer {
    double loss; // cross entropy, 0 if unlabelled
    int32_t predicted, gold;
};

struct evaluator {
    struct pass *pass;
    struct batch *batch; // room for max_tokens and max_examples
    const float *weights;
    const struct model_config *config;
    uint32_t max_tokens, max_examples; // of one batch
    struct comm *comm;                 // NULL: alone
    float *logits;                     // (shard's n, labels), filled alone; NULL: not kept
    int *stop; // with comm: 0, or the signal that the evaluation was given up for; NULL: it never is
};

// Examples or questions of a rank's share between two places where all ranks ask whether one has got a signal.
#define EVALUATE_ROUND 128u

// The parts that every head's evaluation is made of. As many examples from `first` on as fit into one batch, at least
// one; the logits of examples [first, first + n), borrowed.
uint32_t evaluate_chunk(const struct evaluator *evaluator, const struct shard *shard, uint32_t first, uint32_t end);
enum status evaluate_forward(const float **logits, const struct evaluator *evaluator, const struct shard *shard,
                             uint32_t first, uint32_t n);
// A rank's neighbours [first, end) of n examples or questions; `slice`: what the ranks have, the last ones less.
struct evaluate_share {
    uint32_t slice, first, end;
};
struct evaluate_share evaluate_share(const struct evaluator *evaluator, uint32_t n);
// Before each round, with this rank's status so far: whether it is run. Collective, as often on each rank; they stop
// together, on a failure of one and on a signal (then *status is STATUS_AGAIN).
bool evaluate_goes_on(const struct evaluator *evaluator, enum status *status);
// Round `at` (0, EVALUATE_ROUND, …, below slice) of the share: it may be empty.
struct evaluate_share evaluate_round(const struct evaluate_share *share, uint32_t at);
// Every rank's answers (slice, of `size` bytes) in one malloc'ed array on every rank. Collective; `status` is this
// rank's so far, all return the worst.
enum status evaluate_gather(void **out, const void *mine, size_t size, const struct evaluator *evaluator,
                            const struct evaluate_share *share, enum status status);

// `out` is malloc'ed, (n), on every rank. Collective with comm. STATUS_AGAIN: given up for a signal.
enum status evaluate_shard(struct answer **out, const struct evaluator *evaluator, const struct shard *shard);

// Counts and scores of the answers that have a gold label; `loss`: their mean.
enum status evaluate_metrics(struct metrics *metrics, double *loss, const struct answer *answers, uint32_t n,
                             uint32_t classes);

// The keys of an `eval` event as the inside of a JSON object: "official": {…}, "accuracy": …, …, "confusion": [[…]].
struct labels;
void evaluate_print(struct text *text, const struct metrics *metrics, enum metric official,
                    const struct labels *labels);

// Index of the largest logit; the lower one of equals. NaN counts as the smallest.
int32_t evaluate_argmax(const float *logits, uint32_t n);

#endif
