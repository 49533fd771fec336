// SPDX-License-Identifier: Apache-2.0
// The parts of `finetuned eval`: what it works on (eval_data.c), what it prints and writes (eval_print.c,
// eval_output.c).
#ifndef FINETUNED_DAEMON_ANSWERS_EVAL_H
#define FINETUNED_DAEMON_ANSWERS_EVAL_H

#include "daemon/subject.h"
#include "data/shard.h"
#include "model/model.h"
#include "train/evaluate.h"

struct eval_flags {
    const char *model, *dir, *task, *file, *text, *pair, *label, *predictions, *output, *job;
    int split, format;  // split -1: not given
    int64_t doc_stride; // 0: not given
    bool json;
};

// Rows and their tokens. Labels of rows, and so of the shard, are the model's ids, -1 where there is none.
struct eval_data {
    struct source source;
    struct shard shard;
    const char *name;     // "test", or the file's path: for messages
    const char *task;     // says the official metric
    size_t labelled;      // rows that have a label
    struct labels model;  // the model's names by id
    struct labels names;  // the names of the ids that metrics and predictions are in: the data's, if it has all of the
                          // model's labels, else the model's
    int32_t *ids;         // (model.n) of the model's ids among these
    struct origin origin; // of the model
};

// STATUS_DATA: a label that is not one of the model's, no texts, no labels and nowhere to write answers.
enum status eval_data_open(struct eval_data *out, const struct eval_flags *f, const struct model *model,
                           const struct origin *origin, struct pool *pool);
void eval_data_close(struct eval_data *data);

// STATUS_USAGE if a file to write is one that must stay (daemon/paths/output.h). Before anything is opened.
enum status eval_outputs_check(const struct eval_flags *f);
// Predicted ids as TweetEval's files: f->predictions.
enum status eval_predictions(const struct eval_flags *f, const struct eval_data *data, const struct answer *answers);
// A JSON line for each text: f->output. `scores` (n, labels).
enum status eval_output(const struct eval_flags *f, const struct eval_data *data, const struct answer *answers,
                        const float *scores);

// A question answering model: all of eval on squad's JSON (eval_questions.c).
enum status eval_questions(const struct eval_flags *f, const struct model *model, const struct origin *origin,
                           struct runner *runner);

// Tokens of `source` as in training, into a shard that is not kept (eval_data.c).
enum status eval_shard(struct shard *out, const struct source *source, const struct labels *labels,
                       const struct tokenizer *tokenizer, const struct shard_options *options, struct pool *pool);
// "split": …, "epoch": …, "step": …, the keys before the scores (eval_print.c).
void eval_print_head(struct text *text, const struct eval_flags *f, const struct origin *origin);

// Metrics to standard output; of unlabelled data that there are none.
enum status eval_print(const struct eval_flags *f, const struct eval_data *data, const struct answer *answers);

#endif
