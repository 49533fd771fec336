// SPDX-License-Identifier: Apache-2.0
// Texts to answers, several at a time: `finetuned predict` (verb_predict.c) and its latencies (bench.c). An
// answer's bits do not depend on what shares its batch.
#ifndef FINETUNED_DAEMON_ANSWERS_PREDICT_H
#define FINETUNED_DAEMON_ANSWERS_PREDICT_H

#include "daemon/subject.h"

#define PREDICT_BATCH 32 // texts that are answered together, at most

struct predict_flags {
    const char *model, *file, *pair, *question, *context, *text_column, *pair_column, *job;
    int format;                 // enum source_format; tweet_eval: by the file's ending
    int no_answer;              // 0: as the model records, 1: yes, 2: no
    int64_t n_best, doc_stride; // 0: not given
    bool no_truncation, bench, json;
};

struct predictor {
    struct pool *pool;
    struct model model;
    struct runner runner;
    struct encoding encoding;
    uint32_t n;                    // texts that wait for their answers
    uint64_t answered;             // texts before those
    bool truncated[PREDICT_BATCH]; // (n)
    float *scores;                 // (PREDICT_BATCH, labels)
    bool no_truncation;
};

enum status predictor_open(struct predictor *out, const char *model, const char *job_file, bool no_truncation);
void predictor_close(struct predictor *p);

// One more text; `pair` NULL: none. There must be room (n < PREDICT_BATCH). `where` is for the message of a text that
// is too long.
enum status predictor_add(struct predictor *p, const char *text, size_t size, const char *pair, size_t pair_size,
                          const char *where);
// Answers what waits: logits (n, labels), borrowed, and p->scores; nothing waits then.
enum status predictor_run(struct predictor *p, const float **logits);
// The same, and prints a JSON line for each, in order.
enum status predictor_answer(struct predictor *p);

// A question answering model: --question and --context, or a file of questions (predict_questions.c).
enum status predict_questions(struct predictor *p, const struct predict_flags *f);

// --bench: on these words, the file's rows, or made texts.
enum status predict_bench(struct predictor *p, const struct predict_flags *f, char **words, size_t n_words);

#endif
