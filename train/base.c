// SPDX-License-Identifier: Apache-2.0
#include "train/base.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "checkpoints/checkpoint.h"
#include "model/model.h"

#include <sys/stat.h>

struct base_stamp {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec written;
};

bool base_random(const char *name) {
    return strncmp(name, "random:", 7) == 0;
}

enum status base_there(const char *name) {
    if (base_random(name) || model_is(name))
        return STATUS_OK;
    if (checkpoint_is(name))
        return status_set(STATUS_DATA,
                          "model.base: %s is a checkpoint: finetuned export --from makes a model directory of it "
                          "(checkpoints.resume goes on from one)",
                          name);
    return status_set(STATUS_DATA,
                      "model.base: %s is no model directory (config.json is not there): give a Hugging Face model "
                      "directory, or random:tiny%s",
                      name, model_hint(name));
}

static enum status base_vocab(struct base *base, const char *folder) {
    enum status status = tokenizer_open(&base->tokenizer, folder);
    return status == STATUS_OK ? status : status_add(status, "model.vocab");
}

static enum status base_open_random(struct base *base, const struct job *job) {
    if (job->model.vocab)
        TRY(base_vocab(base, job->model.vocab));
    else
        TRY(tokenizer_open_bytes(&base->tokenizer));
    struct tokenizer_info info = tokenizer_info(base->tokenizer);
    if (info.kind != TOKENIZER_BPE)
        return status_set(
            STATUS_USAGE,
            "model.vocab: %s is WordPiece, but random: models are RoBERTa: give vocab.json and merges.txt",
            job->model.vocab);
    return model_config_random(&base->config, base->name, info.vocab_size, info.pad);
}

static enum status base_read(struct base *base, const struct job *job) {
    base->name = strdup(job->model.base);
    if (!base->name)
        return status_set(STATUS_SYSTEM, "model.base: no memory");
    base->random = base_random(base->name);
    if (base->random)
        return base_open_random(base, job);
    TRY(base_there(base->name));
    TRY(model_config_read(&base->config, base->name));
    TRY(tokenizer_open(&base->tokenizer, base->name));
    return model_check_tokenizer(&base->config, base->tokenizer, base->name);
}

enum status base_open(struct base *out, const struct job *job, struct comm *comm) {
    *out = (struct base){0};
    enum status status = base_read(out, job);
    if (status == STATUS_OK && comm && comm->rank == 0 && !out->random && job->model.vocab)
        log_warn("model.vocab: %s is not used: it is for random: models, and %s has a tokenizer of its own",
                 job->model.vocab, out->name);
    return comm ? comm_agree(comm, status) : status;
}

void base_close(struct base *base) {
    weight_files_close(&base->files);
    tokenizer_close(base->tokenizer);
    model_config_release(&base->config);
    free(base->stamps);
    free(base->name);
    *base = (struct base){0};
}

// ---- weights

static enum status stamp_take(struct base_stamp *out, const char *path) {
    struct stat info;
    if (stat(path, &info) != 0)
        return status_errno(STATUS_DATA, "model.base: %s", path);
    *out = (struct base_stamp){info.st_dev, info.st_ino, info.st_size, info.st_mtim};
    return STATUS_OK;
}

static bool stamps_same(const struct base_stamp *a, const struct base_stamp *b) {
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->written.tv_sec == b->written.tv_sec && a->written.tv_nsec == b->written.tv_nsec;
}

static enum status base_unchanged(const struct base *base) {
    for (size_t i = 0; i < base->files.n_parts; i++) {
        struct base_stamp now = {0};
        const char *path = base->files.parts[i].path;
        TRY(stamp_take(&now, path));
        if (!stamps_same(&now, &base->stamps[i]))
            return status_set(STATUS_DATA, "model.base: %s has changed since it was opened: start again", path);
    }
    return STATUS_OK;
}

enum status base_weights(struct base *base) {
    if (base->random)
        return STATUS_OK;
    if (base->mapped)
        return base_unchanged(base);
    TRY(weight_files_open(&base->files, base->name));
    base->mapped = true;
    base->stamps = calloc(base->files.n_parts + 1, sizeof *base->stamps);
    if (!base->stamps)
        return status_set(STATUS_SYSTEM, "model.base: no memory");
    for (size_t i = 0; i < base->files.n_parts; i++)
        TRY(stamp_take(&base->stamps[i], base->files.parts[i].path));
    return STATUS_OK;
}

enum status base_hash(struct base *base) {
    struct hash_stream *hash;
    char *config = NULL;
    if (*base->hash)
        return STATUS_OK;
    TRY(base_weights(base));
    TRY(hash_begin(&hash));
    enum status status = model_config_print(&config, &base->config);
    if (status == STATUS_OK) {
        hash_add_string(hash, config);
        tokenizer_hash(base->tokenizer, hash);
        if (base->random)
            hash_add_string(hash, base->name);
        else
            weight_files_hash(&base->files, hash);
    }
    char text[33];
    hash_end(hash, text);
    if (status == STATUS_OK)
        memcpy(base->hash, text, sizeof text);
    free(config);
    return status;
}

void base_rest(const struct base *base) {
    weight_files_rest(&base->files);
}
