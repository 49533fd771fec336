// SPDX-License-Identifier: Apache-2.0
// A model directory opened for use: config.json, weights, tokenizer, and what finetuned.json records of how it was
// trained.
#ifndef FINETUNED_MODEL_MODEL_H
#define FINETUNED_MODEL_MODEL_H

#include "base/arena.h"
#include "base/param.h"
#include "base/pool.h"
#include "base/status.h"
#include "data/tokenizer.h"
#include "model/config.h"

#define SETTINGS_STRIDE 128u // doc_stride where none is recorded; as data.doc_stride's default

// finetuned.json: the defaults wherever the model is used.
struct model_settings {
    uint32_t max_length; // 0: not recorded, the usable length
    enum tokenizer_special special;
    enum tokenizer_normalize normalize;
    bool pairs;          // trained on text pairs
    bool no_answer;      // question answering: the model was trained to say that there is none
    uint32_t doc_stride; // question answering: tokens that neighbouring windows share; 0: not recorded
};

struct model {
    struct model_config config;
    struct param_table table;
    struct arena arena;
    float *weights; // (table.floats)
    struct tokenizer *tokenizer;
    struct model_settings settings;
};

// Opens a directory for inference. It must hold a classification head: a base model without one is STATUS_DATA.
// `pool` (NULL: this thread alone) reads the weights.
enum status model_open(struct model *out, const char *folder, struct pool *pool);
void model_close(struct model *model);

// Reads <folder>/finetuned.json; defaults (0, literal) where it is missing.
enum status model_settings_read(struct model_settings *out, const char *folder);
// The same of bytes; the path is for messages.
enum status model_settings_parse(struct model_settings *out, const char *bytes, size_t size, const char *path);
enum status model_settings_write(const struct model_settings *settings, const char *folder);

// A tokenizer must not give ids that the model has no row for.
enum status model_check_tokenizer(const struct model_config *config, const struct tokenizer *tokenizer,
                                  const char *folder);

// Whether `path` is a directory with a config.json.
bool model_is(const char *path);
// For the message where it is none: "" or what may have been meant, from ": " or "; " on. Valid until the next call.
const char *model_hint(const char *path);

#endif
