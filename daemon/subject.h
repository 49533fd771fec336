// SPDX-License-Identifier: Apache-2.0
// What eval, predict, tokenize and export work on: a model directory, or a checkpoint with the job.yaml of its run.
#ifndef FINETUNED_DAEMON_SUBJECT_H
#define FINETUNED_DAEMON_SUBJECT_H

#include "base/pool.h"
#include "model/model.h"
#include "model/pass.h"

// Where in its run a checkpoint was made; a model directory does not know.
struct origin {
    bool known;
    uint64_t epoch, step;
};

// `job_file` NULL: for a checkpoint, <out>/job.yaml two folders above it. `origin` NULL: not wanted. STATUS_DATA if the
// path is neither.
enum status subject_open(struct model *out, struct origin *origin, const char *path, const char *job_file,
                         struct pool *pool);

// The tokenizer and settings alone: also of a base model directory without a head.
enum status subject_tokenizer(struct tokenizer **out, struct model_settings *settings, struct model_config *config,
                              const char *path);

// A model ready to answer.
struct runner {
    struct pool *pool; // borrowed
    struct pass *pass;
    struct batch batch;
    uint32_t max_tokens, max_examples;
};
enum status runner_open(struct runner *out, const struct model *model, struct pool *pool, uint32_t max_length,
                        uint32_t max_examples);
void runner_close(struct runner *runner);

// Warns where a model trained on pairs is asked about single texts.
void subject_pairs(const struct model *model, bool pair);

// The length that texts are cut to: the recorded one, else the usable one.
uint32_t subject_length(const struct model *model);

// Context tokens that neighbouring windows share: `given`, else (0) the recorded number, else the usual one.
uint32_t subject_stride(const struct model *model, int64_t given);

#endif
