// SPDX-License-Identifier: Apache-2.0
// What a run reads beside its base model: the data's labels, token shards of the three splits, and the hashes that say
// what they are.
#ifndef FINETUNED_TRAIN_INPUTS_H
#define FINETUNED_TRAIN_INPUTS_H

#include "base/job.h"
#include "base/pool.h"
#include "comm/comm.h"
#include "data/labels.h"
#include "data/shard.h"
#include "data/source.h"
#include "data/tokenizer.h"
#include "model/config.h"
#include "model/model.h"
#include "train/base.h"

struct inputs {
    struct base *base;                 // borrowed
    struct model_config config;        // of the run: the data's labels, the job's dropout
    const struct tokenizer *tokenizer; // the base's
    struct labels labels;
    struct shard shards[SPLITS];   // of test n is 0 where there is none to score
    struct source sources[SPLITS]; // question answering: val's and test's stay open: windows name their rows
    bool made[SPLITS];             // the shard was not in the cache
    bool no_answer;                // question answering: some question of train or val has none (squad version 2)
    uint32_t shared_texts;         // texts that train and test share
    const char *spare;             // set before inputs_begin: shard_options.spare
    char data_hash[33], base_hash[33];
};

// Reads and checks all but the tokens: what the run is, before anything is made of it. Collective; `comm` NULL: alone.
// `base` is the job's and outlives the inputs.
enum status inputs_begin(struct inputs *inputs, const struct job *job, struct base *base, struct comm *comm);
// The token shards. Collective: rank 0 tokenises first, the others then find the finished shards.
enum status inputs_tokenise(struct inputs *inputs, const struct job *job, struct comm *comm, struct pool *pool);
// Both, alone.
enum status inputs_open(struct inputs *inputs, const struct job *job, struct base *base, struct pool *pool);
void inputs_close(struct inputs *inputs);

// Whether base and task are there at all: a slip in their names is refused before <out> is made.
enum status inputs_look(const struct job *job);

// Stand among a checkpoint's configuration keys: the hash of the data; and of a question answering run: "true" or
// "false".
#define INPUTS_DATA_KEY "data (content)"
#define INPUTS_NO_ANSWER_KEY "data (no answer)"

// The job's data, read and checked in full as inputs_open does, but not tokenised.
struct inputs_facts {
    char hash[33];
    size_t train; // texts, of squad questions, to train on
};
enum status inputs_survey(struct inputs_facts *out, const struct job *job);

// What a model of this job records in its finetuned.json.
struct model_settings inputs_settings(const struct job *job);

#endif
