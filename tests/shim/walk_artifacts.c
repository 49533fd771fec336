// SPDX-License-Identifier: Apache-2.0
// What is written beside checkpoints: model directories, archives, token shards, single files. Each is there whole, as
// before or new, or not at all.
#include "walk.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/text.h"
#include "data/shard.h"
#include "export/export.h"
#include "model/ops.h"
#include "model/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct artifact {
    enum status (*make)(struct walk *walk, unsigned version);
    bool before;      // an older one is there
    char *old, *made; // tree_print of either
    struct model_config config;
    struct param_table table;
    struct tokenizer *tokenizer;
    float *weights[2];
};

static void artifact_open(struct walk *walk, struct artifact *a) {
    walk->own = a;
    walk_need(walk, file_make_folders(walk->folder) == STATUS_OK, "open", status_message());
    walk_need(walk, a->make(walk, 1) == STATUS_OK, "make", status_message());
    a->made = tree_print(walk->folder);
    walk_need(walk, file_remove(walk->folder) == STATUS_OK && file_make_folders(walk->folder) == STATUS_OK, "open", "");
    if (a->before)
        walk_need(walk, a->make(walk, 0) == STATUS_OK, "make the one before", status_message());
    a->old = tree_print(walk->folder);
}

static enum status artifact_act(struct walk *walk) {
    struct artifact *a = walk->own;
    return a->make(walk, 1);
}

static void artifact_check(struct walk *walk, const struct outcome *outcome, const struct fault *fault) {
    struct artifact *a = walk->own;
    char *now = tree_print(walk->folder), *left = tree_left(walk->folder);
    bool made = strcmp(now, a->made) == 0, ended = !outcome->killed;
    walk_need(walk, made || strcmp(now, a->old) == 0, "neither the one before nor the new one is there", now);
    walk_need(walk, made || !ended || outcome->status != STATUS_OK, "it said done and it is not", NULL);
    walk_need(walk, !left || !ended || outcome->status == STATUS_OK || fault->persistent || fault->memory || made,
              "a failure left", left);
    free(left);
    free(now);
}

static void artifact_done(struct walk *walk) {
    struct artifact *a = walk->own;
    char *now = tree_print(walk->folder);
    walk_need(walk, strcmp(now, a->made) == 0, "it is not as it would be untouched", a->made);
    free(now);
}

// ---- models

static enum status model_make(struct artifact *a) {
    TRY(tokenizer_open_bytes(&a->tokenizer));
    struct tokenizer_info info = tokenizer_info(a->tokenizer);
    TRY(model_config_random(&a->config, "random:tiny", info.vocab_size, info.pad));
    a->config.max_positions = 40;
    a->config.hidden = 8;
    a->config.heads = 2;
    a->config.ffn = 8;
    a->config.layers = 1;
    TRY(weights_table(&a->table, &a->config));
    for (uint64_t version = 0; version < 2; version++) {
        a->weights[version] = calloc(a->table.floats, sizeof(float));
        TRY(weights_random(a->weights[version], &a->table, &a->config, version + 1, NULL, ops_table(ISA_PLAIN)));
    }
    return STATUS_OK;
}

static struct export_model model_of(const struct artifact *a, unsigned version) {
    return (struct export_model){.config = &a->config,
                                 .table = &a->table,
                                 .weights = a->weights[version],
                                 .tokenizer = a->tokenizer,
                                 .settings = {.max_length = 32},
                                 .name = "model"};
}

static enum status directory_make(struct walk *walk, unsigned version) {
    struct export_model model = model_of(walk->own, version);
    struct export_result result = {0};
    char *path = path_join(walk->folder, "model");
    struct pool *pool = NULL;
    enum status status = path ? pool_open(&pool, 1) : status_set(STATUS_SYSTEM, "no memory");
    if (status == STATUS_OK)
        status = export_hf_directory(&result, &model, path, pool);
    export_result_release(&result);
    pool_close(pool);
    free(path);
    return status;
}

static enum status file_make(struct walk *walk, const char *kind, unsigned version) {
    struct export_model model = model_of(walk->own, version);
    struct export_result result = {0};
    struct pool *pool = NULL;
    enum status status = pool_open(&pool, 1);
    if (status == STATUS_OK)
        status = export_run(&result, export_find(kind), &model, walk->folder, pool);
    export_result_release(&result);
    pool_close(pool);
    return status;
}

static enum status archive_make(struct walk *walk, unsigned version) {
    return file_make(walk, "hf", version);
}

static enum status sagemaker_make(struct walk *walk, unsigned version) {
    return file_make(walk, "sagemaker", version);
}

static void model_open_of(struct walk *walk, enum status (*make)(struct walk *, unsigned)) {
    static struct artifact a;
    a = (struct artifact){.make = make, .before = true};
    walk_need(walk, model_make(&a) == STATUS_OK, "model", status_message());
    artifact_open(walk, &a);
}

static void directory_open(struct walk *walk) {
    model_open_of(walk, directory_make);
}

static void archive_open(struct walk *walk) {
    model_open_of(walk, archive_make);
}

static void sagemaker_open(struct walk *walk) {
    model_open_of(walk, sagemaker_make);
}

// ---- a token shard

static enum status shard_make(struct walk *walk, unsigned version) {
    static const char text[] = "one tweet\nand another\n\nthe last", ids[] = "0\n1\n1\n0\n";
    struct source source = {0};
    struct labels labels = {0};
    struct tokenizer *tokenizer = NULL;
    struct shard shard = {0};
    struct shard_options options = {.max_length = 24, .truncation = true};
    enum status status;
    (void)version;
    TRY_GOTO(labels_parse(&labels, "m", "0\ta\n1\tb", 7), done);
    TRY_GOTO(source_parse(&source, "t.txt", text, sizeof text - 1, "l.txt", ids, sizeof ids - 1, 2), done);
    TRY_GOTO(tokenizer_open_bytes(&tokenizer), done);
    TRY_GOTO(shard_prepare(&shard, NULL, walk->folder, SPLIT_TRAIN, &source, &labels, tokenizer, &options, NULL), done);
    shard_close(&shard);
done:
    tokenizer_close(tokenizer);
    source_close(&source);
    labels_release(&labels);
    return status;
}

static void shard_open_of(struct walk *walk) {
    static struct artifact a = {.make = shard_make};
    artifact_open(walk, &a);
}

// ---- a single file, as the report and the job's are written

static enum status single_make(struct walk *walk, unsigned version) {
    char *path = path_join(walk->folder, "report.json");
    const char *bytes = version ? "{\"version\": 1}\n" : "{\"version\": 0}\n";
    enum status status = path ? file_replace(path, bytes, strlen(bytes)) : status_set(STATUS_SYSTEM, "no memory");
    free(path);
    return status;
}

static void single_open(struct walk *walk) {
    static struct artifact a = {.make = single_make, .before = true};
    artifact_open(walk, &a);
}

static enum status single_again(struct walk *walk) {
    TRY(file_sweep(walk->folder, file_is_temporary));
    return single_make(walk, 1);
}

const struct subject walk_export = {"export",       directory_open, artifact_act,
                                    artifact_check, artifact_act,   artifact_done};
const struct subject walk_archive = {"archive",      archive_open, artifact_act,
                                     artifact_check, artifact_act, artifact_done};
const struct subject walk_sagemaker = {"sagemaker",    sagemaker_open, artifact_act,
                                       artifact_check, artifact_act,   artifact_done};
const struct subject walk_shard = {"shard", shard_open_of, artifact_act, artifact_check, artifact_act, artifact_done};
const struct subject walk_file = {"file", single_open, artifact_act, artifact_check, single_again, artifact_done};
