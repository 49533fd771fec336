// SPDX-License-Identifier: Apache-2.0
#include "daemon/verify/inspect.h"

#include "base/file.h"
#include "base/markup.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/steps.h"
#include "data/shard.h"
#include "export/export.h"
#include "model/model.h"
#include "model/weight_files.h"
#include "train/folder.h"

#include <stdlib.h>
#include <string.h>

// ---- what it is

static bool ends_with(const char *string, const char *end) {
    size_t n = strlen(string), m = strlen(end);
    return n >= m && strcmp(string + n - m, end) == 0;
}

static bool holds(const char *folder, const char *name) {
    char *path = path_join(folder, name);
    bool there = path && file_named(path);
    free(path);
    return there;
}

static bool holds_steps(const char *folder) {
    struct steps steps;
    bool any = steps_list(&steps, folder) == STATUS_OK && steps.n > 0;
    steps_release(&steps);
    return any || holds(folder, "latest");
}

static enum inspect_kind inspect_folder(const char *path) {
    if (model_is(path))
        return INSPECT_MODEL;
    if (checkpoint_is(path))
        return INSPECT_CHECKPOINT;
    if (holds(path, FOLDER_SWEEP))
        return INSPECT_SWEEP;
    bool job = holds(path, "job.yaml");
    if (holds(path, "events.jsonl") || (job && (holds(path, "checkpoints") || holds(path, "report.json"))))
        return INSPECT_RUN;
    return holds_steps(path) ? INSPECT_CHECKPOINTS : INSPECT_NONE;
}

static enum inspect_kind inspect_file(const char *path) {
    if (ends_with(path, ".shard"))
        return INSPECT_SHARD;
    if (ends_with(path, ".tar.gz") || ends_with(path, ".tgz"))
        return INSPECT_ARCHIVE;
    if (weight_files_is(path))
        return INSPECT_WEIGHTS;
    return checkpoint_is(path) ? INSPECT_CHECKPOINT : INSPECT_NONE;
}

enum status inspect_kind_of(enum inspect_kind *kind, const char *path) {
    *kind = INSPECT_NONE;
    if (!*path)
        return status_set(STATUS_USAGE, "inspect: the path is empty");
    if (!file_exists(path))
        return status_set(STATUS_DATA,
                          file_named(path) ? "inspect: %s: the link leads nowhere, or in a circle"
                                           : "inspect: %s is not there",
                          path);
    *kind = file_is_folder(path) ? inspect_folder(path) : inspect_file(path);
    if (*kind != INSPECT_NONE)
        return STATUS_OK;
    return status_set(STATUS_DATA,
                      "inspect: %s is none of: a checkpoint (step-N folder or checkpoint.h5), a model directory, a "
                      "file of weights (.safetensors, .bin, .pt, .pth, or an .index.json of shards), a .shard file, an "
                      "archive (.tar.gz), a run's or a sweep's out folder",
                      path);
}

const char *inspect_kind_name(enum inspect_kind kind) {
    static const char *const names[] = {"nothing", "checkpoint", "model",       "weights", "shard",
                                        "archive", "run",        "checkpoints", "sweep"};
    return names[kind];
}

// ---- what it holds

static enum status inspect_checkpoint(struct text *out, const char *path, bool json) {
    char *text = NULL, *real = realpath(path, NULL); // `latest` may move on while we read
    if (!real)
        return status_errno(STATUS_DATA, "inspect: %s", path);
    enum status status = checkpoint_describe(&text, real, json);
    if (status == STATUS_OK)
        text_puts(out, text);
    if (out->size && out->at[out->size - 1] != '\n')
        text_puts(out, "\n");
    free(text);
    free(real);
    return status;
}

static void inspect_tensors(struct text *text, const struct weight_files *files, bool json) {
    for (size_t i = 0; i < files->n; i++) {
        const struct tensor *t = &files->at[i];
        text_puts(text, json ? (i ? ", {\"name\": " : "{\"name\": ") : "");
        if (json)
            json_string_add(text, t->name);
        text_printf(text, json ? ", \"dtype\": \"%s\", \"shape\": [" : "%-5s [", tensor_dtype_name(t->dtype));
        for (unsigned d = 0; d < t->rank; d++)
            text_printf(text, d ? ", %llu" : "%llu", (unsigned long long)t->shape[d]);
        if (json)
            text_puts(text, "]}");
        else
            text_printf(text, "] %s\n", t->name);
    }
}

static enum status inspect_tensor_files(struct text *out, const struct weight_files *files, bool json) {
    const char *kind = files->torch ? "pytorch" : "safetensors";
    uint64_t elements = 0;
    for (size_t i = 0; i < files->n; i++)
        if (__builtin_add_overflow(elements, files->at[i].elements, &elements))
            return status_set(STATUS_DATA, "%s: its tensors have more than 2^64 elements", files->path);
    if (json)
        text_printf(out, "{\"kind\": \"%s\", \"files\": %zu, \"tensors_n\": %zu, \"parameters\": %llu, \"tensors\": [",
                    kind, files->n_parts, files->n, (unsigned long long)elements);
    else
        text_printf(out, "%s: %zu file%s, %zu tensors, %llu elements\n", kind, files->n_parts,
                    files->n_parts == 1 ? "" : "s", files->n, (unsigned long long)elements);
    inspect_tensors(out, files, json);
    text_puts(out, json ? "]}\n" : "");
    return STATUS_OK;
}

static enum status inspect_weights(struct text *out, const char *path, bool json) {
    struct weight_files files;
    TRY(weight_files_open_path(&files, path));
    enum status status = inspect_tensor_files(out, &files, json);
    weight_files_close(&files);
    return status;
}

static void inspect_config(struct text *out, const struct model_config *config) {
    text_printf(out, "model: %s, %u layers, %u wide, %u heads, %u feed-forward, vocabulary %u, %u positions, ",
                config->kind == MODEL_ROBERTA ? "roberta" : "bert", config->layers, config->hidden, config->heads,
                config->ffn, config->vocab, config->max_positions);
    if (config->head == HEAD_QUESTION_ANSWERING)
        text_puts(out, "question answering");
    else
        text_printf(out, "%u labels", config->labels);
    for (uint32_t i = 0; i < config->label_names.n; i++)
        text_printf(out, "%s%s", i ? ", " : ": ", config->label_names.names[i]);
    text_puts(out, "\n");
}

static enum status inspect_model(struct text *out, const char *path, bool json) {
    struct model model = {0};
    struct model_config config = {0};
    struct weight_files files = {0};
    enum status status = model_config_read(&config, path);
    if (status == STATUS_OK && config.has_head_architecture)
        status = model_open(&model, path, NULL); // a fine-tuned model is only whole with tokenizer and head
    if (status == STATUS_OK && !json)
        inspect_config(out, &config);
    if (status == STATUS_OK)
        status = weight_files_open(&files, path);
    if (status == STATUS_OK)
        status = inspect_tensor_files(out, &files, json);
    weight_files_close(&files);
    model_close(&model);
    model_config_release(&config);
    return status;
}

static void inspect_texts(struct text *out, const struct shard *shard, bool json) {
    struct shard_report r = shard_report(shard);
    text_printf(out,
                json
                    ? "{\"kind\": \"shard\", \"texts\": %u, \"tokens\": %llu, \"labels\": %u, \"mean\": %.9g, \"p50\": "
                      "%u, \"p99\": %u, \"longest\": %u, \"cut\": %u}\n"
                    : "shard: %u texts, %llu tokens, %u labels, mean %.1f, p50 %u, p99 %u, longest %u, cut %u\n",
                r.n, (unsigned long long)r.tokens, shard->n_labels, r.mean, r.p50, r.p99, r.longest, r.cut);
}

static void inspect_windows(struct text *out, const struct shard *shard, bool json) {
    struct shard_report r = shard_report(shard);
    text_printf(
        out,
        json ? "{\"kind\": \"shard\", \"questions\": %u, \"windows\": %u, \"answered\": %u, \"tokens\": %llu, "
               "\"doc_stride\": %u, \"mean\": %.9g, \"p50\": %u, \"p99\": %u, \"longest\": %u}\n"
             : "shard: %u questions in %u windows, %u with their answer, %llu tokens, doc_stride %u, mean %.1f, p50 "
               "%u, p99 %u, longest %u\n",
        r.questions, r.n, r.answered, (unsigned long long)r.tokens, shard->doc_stride, r.mean, r.p50, r.p99, r.longest);
}

static enum status inspect_shard(struct text *out, const char *path, bool json) {
    struct shard shard;
    TRY(shard_open(&shard, path));
    if (shard.spans)
        inspect_windows(out, &shard, json);
    else
        inspect_texts(out, &shard, json);
    shard_close(&shard);
    return STATUS_OK;
}

static enum status inspect_archive(struct text *out, const char *path, bool json) {
    struct archive_facts facts;
    TRY(archive_check(&facts, path));
    text_printf(out,
                json ? "{\"kind\": \"archive\", \"files\": %zu, \"unpacked\": %llu, \"sha256_list\": %s}\n"
                     : "archive: %zu files, %llu bytes unpacked%s\n",
                facts.files, (unsigned long long)facts.bytes,
                json ? (facts.listed ? "true" : "false") : (facts.listed ? ", with their SHA-256" : ""));
    return STATUS_OK;
}

enum status inspect_describe(struct text *out, enum inspect_kind kind, const char *path, bool json) {
    switch (kind) {
    case INSPECT_CHECKPOINT:
        return inspect_checkpoint(out, path, json);
    case INSPECT_MODEL:
        return inspect_model(out, path, json);
    case INSPECT_WEIGHTS:
        return inspect_weights(out, path, json);
    case INSPECT_SHARD:
        return inspect_shard(out, path, json);
    case INSPECT_ARCHIVE:
        return inspect_archive(out, path, json);
    case INSPECT_NONE:
    case INSPECT_RUN:
    case INSPECT_CHECKPOINTS:
    case INSPECT_SWEEP:
        break;
    }
    return status_set(STATUS_ARGUMENT, "inspect: %s is no single thing", path);
}
