// SPDX-License-Identifier: Apache-2.0
// Exporters: the best model as what production runs. One row a kind in export.c; each writes into a temporary place
// that is committed by rename.
#ifndef FINETUNED_EXPORT_EXPORT_H
#define FINETUNED_EXPORT_EXPORT_H

#include "base/job.h"
#include "base/param.h"
#include "base/pool.h"
#include "base/status.h"
#include "data/tokenizer.h"
#include "model/config.h"
#include "model/model.h"

#include <stdbool.h>

// What README.md says that the model itself doesn't; all of it may be NULL.
struct export_card {
    const char *base;   // the base model's name
    const char *facts;  // Markdown, sections from "## " on: scores, data, settings
    const char *readme; // the whole of it, taken as it is
};

// What is exported; all borrowed.
struct export_model {
    const struct model_config *config;
    const struct param_table *table;
    const float *weights; // (table->floats)
    const struct tokenizer *tokenizer;
    struct model_settings settings;
    bool bf16;        // dtype of safetensors
    const char *name; // the job's: names artifacts
    struct export_card card;
    // Asked last before the rename that publishes it, which it can forbid; NULL: nobody is asked.
    enum status (*may)(const void *context);
    const void *context;
};

struct export_result {
    char *path; // malloc'ed
    uint64_t bytes;
    char sha256[65]; // of the file; of model.safetensors for a directory
    char check[128]; // what was compared and how far apart it was
};
void export_result_release(struct export_result *result);

struct exporter {
    enum job_export job; // its place in export.to
    const char *kind;
    const char *ending; // of the artifact's name
    // Makes the artifact `path`, whole or not at all; its folder is there.
    enum status (*run)(struct export_result *out, const struct export_model *model, const char *path,
                       struct pool *pool);
};
enum status export_may(const struct export_model *model);
extern const struct exporter exporters[]; // ends with kind NULL; at most JOB_EXPORTS rows
const struct exporter *export_find(const char *kind);
// <folder>/<name><ending>; malloc'ed, NULL if there is no memory.
char *export_path(const struct exporter *exporter, const char *folder, const char *name);
// Runs the exporter into `folder`, which is made if it is missing.
enum status export_run(struct export_result *out, const struct exporter *exporter, const struct export_model *model,
                       const char *folder, struct pool *pool);

// hf.c: the Hugging Face directory itself at `folder` (replaced as a whole by one rename), checked against the weights
// in memory.
enum status export_hf_directory(struct export_result *out, const struct export_model *model, const char *folder,
                                struct pool *pool);
// card.c: README.md.
enum status card_write(const struct export_model *model, const char *folder);
// archive.c: a tar.gz of a folder's files, those of its folders too (sorted, no times, owners or modes of this host):
// same input, same bytes.
enum status archive_write(const char *path, const char *folder);
// archive.c: the archive `path` of the Hugging Face directory and what `add` (NULL: nothing) puts beside its files.
enum status export_archive(struct export_result *out, const struct export_model *model, const char *path,
                           enum status (*add)(const char *staged), struct pool *pool);
// archive_check.c: reads a tar.gz in one pass, writing nothing: the gzip stream's CRC-32, the tar's headers, names that
// stay inside, the headers of .safetensors files, and the hashes of its finetuned.sha256. STATUS_DATA: what is wrong.
struct archive_facts {
    size_t files;
    uint64_t bytes; // unpacked
    bool listed;    // it has a finetuned.sha256, which agrees
};
enum status archive_check(struct archive_facts *out, const char *path);
// sagemaker.c: an archive for SageMaker's Hugging Face inference container.
enum status export_sagemaker(struct export_result *out, const struct export_model *model, const char *path,
                             struct pool *pool);
// check.c: opens the directory and compares its logits on fixed texts with those of the weights in memory.
enum status export_check(char *note, size_t size, const struct export_model *model, const char *folder,
                         struct pool *pool);

#endif
