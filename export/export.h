// SPDX-License-Identifier: Apache-2.0
// Exporters: the best model as what production runs. One row a kind in export.c; each writes into a temporary place
// that is committed by rename.
#ifndef FINETUNED_EXPORT_EXPORT_H
#define FINETUNED_EXPORT_EXPORT_H

#include "base/param.h"
#include "base/pool.h"
#include "base/status.h"
#include "data/tokenizer.h"
#include "model/config.h"
#include "model/model.h"

#include <stdbool.h>

// What is exported; all borrowed.
struct export_model {
    const struct model_config *config;
    const struct param_table *table;
    const float *weights; // (table->floats)
    const struct tokenizer *tokenizer;
    struct model_settings settings;
    bool bf16;        // dtype of safetensors
    const char *name; // the job's: names archives
};

struct export_result {
    char *path; // malloc'ed
    uint64_t bytes;
    char sha256[65]; // of the file; of model.safetensors for a directory
    char check[128]; // what was compared and how far apart it was
};
void export_result_release(struct export_result *result);

struct exporter {
    const char *kind;
    // `out`: the folder (hf directory) or the folder in which the artifact is put.
    enum status (*run)(struct export_result *out, const struct export_model *model, const char *folder,
                       struct pool *pool);
};
extern const struct exporter exporters[]; // ends with kind NULL
const struct exporter *export_find(const char *kind);

// hf.c: the Hugging Face directory itself at `folder` (replaced as a whole by one rename), checked against the weights
// in memory.
enum status export_hf_directory(struct export_result *out, const struct export_model *model, const char *folder,
                                struct pool *pool);
// archive.c: a tar.gz of a folder's files (sorted, no times, owners or modes of this host): same input, same bytes.
enum status archive_write(const char *path, const char *folder, const char *prefix);
// check.c: opens the directory and compares its logits on fixed texts with those of the weights in memory.
enum status export_check(char *note, size_t size, const struct export_model *model, const char *folder,
                         struct pool *pool);

#endif
