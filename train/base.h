// SPDX-License-Identifier: Apache-2.0
// The base model of a run: configuration, tokenizer and weight files, opened once a start. A sweep hands the same one
// to all its runs.
#ifndef FINETUNED_TRAIN_BASE_H
#define FINETUNED_TRAIN_BASE_H

#include "base/job.h"
#include "comm/comm.h"
#include "data/tokenizer.h"
#include "model/config.h"
#include "model/weight_files.h"

struct base_stamp; // what tells that a file has changed

struct base {
    struct model_config config; // as its directory says
    struct tokenizer *tokenizer;
    char *name;                // job->model.base
    bool random;               // one of random:…; it has no files
    bool mapped;               // `files` are open
    struct weight_files files; // mapped from base_weights on
    struct base_stamp *stamps; // (files.n_parts)
    char hash[33];             // "" until base_hash
};

// Configuration and tokenizer. Collective: all ranks return the same status; `comm` NULL: alone. STATUS_DATA if it is
// no model directory or unusable, STATUS_USAGE for an unknown random: name or a vocabulary that does not go with it.
enum status base_open(struct base *out, const struct job *job, struct comm *comm);
void base_close(struct base *base);

// Maps the weight files, once; later calls check that they still are what was mapped (STATUS_DATA).
enum status base_weights(struct base *base);
// What the base is, by content: configuration, tokenizer and weights (or the name of a random one). Read once; the
// weights' pages stay mapped, for they are loaded next.
enum status base_hash(struct base *base);
// The pages of the mapped files need not stay in memory now.
void base_rest(const struct base *base);

// Whether `name` is one of the random: models.
bool base_random(const char *name);
// STATUS_DATA if `name` is neither that nor a model directory.
enum status base_there(const char *name);

#endif
