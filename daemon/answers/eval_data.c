// SPDX-License-Identifier: Apache-2.0
#include "daemon/answers/eval.h"

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "daemon/subject.h"

#include <unistd.h>

static struct source_spec data_spec(const struct eval_flags *f) {
    return (struct source_spec){.format = (enum source_format)f->format,
                                .dir = f->dir,
                                .task = f->task,
                                .columns = {.text = f->text ? f->text : "text",
                                            .pair = f->pair,
                                            .label = f->label ? f->label : "label",
                                            .label_must = f->label != NULL}};
}

static enum status data_model_names(struct labels *out, const struct model_config *config) {
    for (uint32_t i = 0; i < config->labels; i++) {
        char name[32];
        snprintf(name, sizeof name, "LABEL_%u", i);
        TRY(labels_add(out, i < config->label_names.n ? config->label_names.names[i] : name));
    }
    return STATUS_OK;
}

// Whether the data names its labels itself: TweetEval always, the others by a mapping.txt. Else they are the model's.
static bool data_names_itself(const struct eval_flags *f) {
    char *mapping = f->dir ? path_join(f->dir, "mapping.txt") : NULL;
    bool there = mapping && file_named(mapping);
    free(mapping);
    return f->dir && (f->format == SOURCE_TWEET_EVAL || there);
}

// `map[data id]` = the model's id. Names decide; a model without names has the data's ids.
static enum status data_map(int32_t *map, const struct labels *names, const struct model *model, const char *path) {
    const struct model_config *config = &model->config;
    for (uint32_t i = 0; i < names->n; i++) {
        map[i] = config->label_names.n ? labels_find(&config->label_names, names->names[i]) : (int32_t)i;
        if (map[i] < 0 || map[i] >= (int32_t)config->labels)
            return status_set(STATUS_DATA, "eval: the data's label '%s' is not one of the model's (%s)",
                              names->names[i], path);
    }
    return STATUS_OK;
}

// The rows' labels become the model's ids. Names that are all of the model's in another order stay the names of what is
// printed and written.
static enum status data_rename(struct eval_data *data, const struct labels *names, const struct eval_flags *f,
                               const struct model *model) {
    int32_t *map = calloc(names->n, sizeof *map);
    enum status status = map ? data_map(map, names, model, f->model) : status_set(STATUS_SYSTEM, "eval: no memory");
    for (size_t i = 0; status == STATUS_OK && i < data->source.n; i++)
        if (data->source.rows[i].label >= 0)
            data->source.rows[i].label = map[data->source.rows[i].label];
    const struct labels *shown = names->n == data->model.n ? names : &data->model;
    for (uint32_t i = 0; status == STATUS_OK && i < shown->n; i++) {
        data->ids[shown == names ? map[i] : (int32_t)i] = (int32_t)i;
        status = labels_add(&data->names, shown->names[i]);
    }
    if (status == STATUS_OK && shown != names)
        log_info("eval: %s has %u of the model's %u labels: ids are the model's", data->name, names->n, data->model.n);
    free(map);
    return status;
}

static enum status data_read(struct eval_data *data, const struct eval_flags *f, const struct model *model) {
    struct source_spec spec = data_spec(f);
    struct labels own = {0};
    bool itself = data_names_itself(f);
    enum status status = itself ? source_labels(&own, &spec) : STATUS_OK;
    const struct labels *names = itself ? &own : &data->model;
    if (status == STATUS_OK)
        status = f->file ? source_read_file(&data->source, &spec, f->file, names)
                         : source_read(&data->source, &spec, (enum source_split)f->split, names);
    if (status == STATUS_OK && data->source.n && data->source.rows[0].id)
        status =
            status_set(STATUS_DATA, "eval: %s holds questions, but %s is a model of classes", data->name, f->model);
    if (status == STATUS_OK && data->source.n == 0)
        status = status_set(STATUS_DATA, "%s: no texts", data->name);
    if (status == STATUS_OK)
        status = data_rename(data, names, f, model);
    for (size_t i = 0; status == STATUS_OK && i < data->source.n; i++)
        data->labelled += data->source.rows[i].label >= 0;
    labels_release(&own);
    return status;
}

enum status eval_shard(struct shard *out, const struct source *source, const struct labels *labels,
                       const struct tokenizer *tokenizer, const struct shard_options *options, struct pool *pool) {
    const char *root = getenv("TMPDIR");
    char *cache = text_format("%s/finetuned-eval-XXXXXX", root && *root ? root : "/tmp");
    if (!cache || !mkdtemp(cache)) {
        enum status status = status_errno(
            STATUS_IO, "eval: a temporary folder %s (TMPDIR says where; set it to one that can be written)",
            cache ? cache : "");
        free(cache);
        return status;
    }
    enum status status = shard_prepare(out, NULL, cache, SPLIT_TEST, source, labels, tokenizer, options, pool);
    file_remove(cache);
    free(cache);
    return status;
}

static enum status data_shard(struct eval_data *data, const struct model *model, struct pool *pool) {
    struct shard_options options = {.special = model->settings.special,
                                    .max_length = subject_length(model),
                                    .truncation = true,
                                    .normalize = model->settings.normalize};
    return eval_shard(&data->shard, &data->source, &data->model, model->tokenizer, &options, pool);
}

enum status eval_data_open(struct eval_data *out, const struct eval_flags *f, const struct model *model,
                           const struct origin *origin, struct pool *pool) {
    *out = (struct eval_data){.name = f->file ? f->file : split_names[f->split], .task = f->task ? f->task : "own"};
    out->origin = *origin;
    TRY(data_model_names(&out->model, &model->config));
    out->ids = calloc(out->model.n + 1, sizeof *out->ids);
    if (!out->ids)
        return status_set(STATUS_SYSTEM, "eval: no memory");
    TRY(data_read(out, f, model));
    if (out->labelled == 0 && !f->predictions && !f->output)
        return status_set(STATUS_DATA,
                          "eval: %s: no text has a label, so there is nothing to score; --data.columns.label NAME says "
                          "in which column labels stand (csv, tsv, jsonl; default label), --output FILE writes the "
                          "answers, --predictions FILE their ids",
                          out->name);
    return data_shard(out, model, pool);
}

void eval_data_close(struct eval_data *data) {
    shard_close(&data->shard);
    source_close(&data->source);
    labels_release(&data->names);
    labels_release(&data->model);
    free(data->ids);
}
