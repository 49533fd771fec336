// SPDX-License-Identifier: Apache-2.0
#include "daemon/subject.h"

#include "base/file.h"
#include "base/job.h"
#include "base/text.h"
#include "checkpoints/checkpoint.h"
#include "daemon/follow.h"
#include "model/weights.h"
#include "train/inputs.h"

#include <jansson.h>
#include <limits.h>

// "<out>/checkpoints/step-00000200[/checkpoint.h5]" -> "<out>/job.yaml"
static char *subject_job_file(const char *path) {
    char *real = realpath(path, NULL);
    if (!real)
        return NULL;
    int levels = file_is_folder(real) ? 2 : 3;
    for (char *slash; levels > 0 && (slash = strrchr(real, '/')); levels--)
        *slash = '\0';
    char *file = path_join(real, "job.yaml");
    free(real);
    return file;
}

static enum status subject_labels(struct model_config *config, const char *json) {
    json_t *names = json_loads(json ? json : "[]", 0, NULL), *name;
    struct labels labels = {0};
    enum status status = STATUS_OK;
    size_t i;
    json_array_foreach(names, i, name) {
        if (status == STATUS_OK)
            status = json_string_value(name) ? labels_add(&labels, json_string_value(name))
                                             : status_set(STATUS_DATA, "the checkpoint's labels are not strings");
    }
    if (status == STATUS_OK && labels.n == 0)
        status = status_set(STATUS_DATA, "the checkpoint records no labels");
    if (status == STATUS_OK)
        model_config_set_labels(config, &labels, &status);
    labels_release(&labels);
    json_decref(names);
    return status;
}

static bool subject_no_answer(const struct trainer_state *state) {
    json_t *keys = json_loads(state->config ? state->config : "{}", 0, NULL);
    const char *value = json_string_value(json_object_get(keys, INPUTS_NO_ANSWER_KEY));
    bool no_answer = value && strcmp(value, "true") == 0;
    json_decref(keys);
    return no_answer;
}

static enum status subject_head(struct model_config *config, const struct job *job, const struct trainer_state *state) {
    config->head = HEAD_CLASSIFICATION;
    if (job->model.head != JOB_HEAD_QUESTION_ANSWERING)
        return subject_labels(config, state->labels);
    model_config_set_spans(config);
    return STATUS_OK;
}

// A checkpoint holds weights: configuration and tokenizer are its base's.
static enum status subject_base(struct base *base, const struct job *job, const char *path, const char *job_file) {
    enum status status = base_open(base, job, NULL);
    if (status == STATUS_OK || status == STATUS_SYSTEM)
        return status;
    char why[512];
    bool there = base_there(job->model.base) == STATUS_OK;
    snprintf(why, sizeof why, "%s", there ? status_message() : "it is not there, or no model directory");
    return status_set(status,
                      "%s: a checkpoint needs the config.json and tokenizer of its base, %s (model.base of %s): %s: "
                      "bring it back, or give, as --job, a copy of that file with the place where it is now",
                      path, job->model.base, job_file, why);
}

static enum status subject_from_job(struct model *out, struct origin *origin, const struct job *job, const char *path,
                                    const char *job_file) {
    struct base base = {0};
    struct trainer_state state = {0};
    struct checkpoint_arenas arenas = {0};
    enum status status;
    TRY_GOTO(subject_base(&base, job, path, job_file), done);
    TRY_GOTO(model_config_copy(&out->config, &base.config), done);
    TRY_GOTO(checkpoint_state(&state, path), done);
    TRY_GOTO(subject_head(&out->config, job, &state), done);
    TRY_GOTO(weights_table(&out->table, &out->config), done);
    TRY_GOTO(arena_init(&out->arena, out->table.floats * sizeof(float), true), done);
    arenas.weights = out->weights = arena_take(&out->arena, out->table.floats * sizeof(float));
    trainer_state_release(&state);
    TRY_GOTO(checkpoint_load(&arenas, &state, &out->table, path), done);
    out->tokenizer = base.tokenizer;
    base.tokenizer = NULL;
    out->settings = inputs_settings(job);
    out->settings.no_answer = subject_no_answer(&state);
    *origin = (struct origin){true, state.epoch, state.step};
done:
    trainer_state_release(&state);
    base_close(&base);
    return status;
}

static enum status subject_checkpoint(struct model *out, struct origin *origin, const char *path,
                                      const char *job_file) {
    struct job *job = NULL;
    char *found = job_file ? strdup(job_file) : subject_job_file(path);
    if (!found || !file_exists(found)) {
        enum status status = status_set(STATUS_DATA, "%s: no job.yaml of its run at %s: name it with --job", path,
                                        found ? found : "(none)");
        free(found);
        return status;
    }
    enum status status = job_read(&job, found, NULL, 0, JOB_NEED_NOTHING);
    if (status == STATUS_USAGE && !job_file) // its run wrote it: no mistake of the command line
        status = STATUS_DATA;
    if (status == STATUS_OK)
        status = subject_from_job(out, origin, job, path, found);
    job_free(job);
    free(found);
    return status;
}

static const char *subject_hint(const char *path) {
    const char *dot = strrchr(path, '.');
    if (file_exists(path) && !file_is_folder(path) && dot && (strcmp(dot, ".gz") == 0 || strcmp(dot, ".tgz") == 0))
        return ": it is an archive: unpack it (tar -xzf, into a folder of its own) and give that folder";
    const char *hint = model_hint(path);
    return *hint ? hint : checkpoint_hint(path);
}

static enum status subject_unknown(const char *path) {
    return status_set(STATUS_DATA, "%s is neither a model directory (config.json) nor a checkpoint (MANIFEST.json)%s",
                      path, subject_hint(path));
}

struct subject {
    struct model *out;
    struct origin *origin;
    const char *path, *job_file; // as given
};

static enum status subject_read(void *context, const char *real) {
    const struct subject *subject = context;
    *subject->out = (struct model){0};
    if (!checkpoint_is(real))
        return subject_unknown(subject->path);
    enum status status = subject_checkpoint(subject->out, subject->origin, real, subject->job_file);
    if (status != STATUS_OK)
        model_close(subject->out);
    return status;
}

enum status subject_open(struct model *out, struct origin *origin, const char *path, const char *job_file,
                         struct pool *pool) {
    struct origin unasked;
    struct subject subject = {out, origin ? origin : &unasked, path, job_file};
    *out = (struct model){0};
    *subject.origin = (struct origin){0};
    if (model_is(path))
        return model_open(out, path, pool);
    return follow_read(path, subject_read, &subject); // `latest` may move on
}

enum status subject_tokenizer(struct tokenizer **out, struct model_settings *settings, struct model_config *config,
                              const char *path) {
    if (!file_is_folder(path))
        return status_set(STATUS_DATA, "%s is no directory%s", path, subject_hint(path));
    TRY(model_settings_read(settings, path));
    if (model_is(path))
        TRY(model_config_read(config, path));
    TRY(tokenizer_open(out, path));
    return model_is(path) ? model_check_tokenizer(config, *out, path) : STATUS_OK;
}

void subject_pairs(const struct model *model, bool pair) {
    if (model->settings.pairs && !pair)
        log_warn(
            "the model was trained on text pairs, and these are single texts: the second one is given by --pair or "
            "--data.columns.pair");
}

uint32_t subject_length(const struct model *model) {
    uint32_t usable = model_usable_length(&model->config);
    return model->settings.max_length && model->settings.max_length < usable ? model->settings.max_length : usable;
}

uint32_t subject_stride(const struct model *model, int64_t given) {
    if (given > 0)
        return given < UINT32_MAX ? (uint32_t)given : UINT32_MAX;
    return model->settings.doc_stride ? model->settings.doc_stride : SETTINGS_STRIDE;
}

enum status runner_open(struct runner *out, const struct model *model, struct pool *pool, uint32_t max_length,
                        uint32_t max_examples) {
    enum isa isa;
    *out = (struct runner){.pool = pool, .max_tokens = max_length * max_examples, .max_examples = max_examples};
    struct pass_options options = {.max_tokens = out->max_tokens,
                                   .max_examples = max_examples,
                                   .max_length = max_length,
                                   .rows = pass_rows_of(&model->config)};
    TRY(isa_choose(&isa));
    TRY(batch_open(&out->batch, out->max_tokens, max_examples, 1));
    return pass_open(&out->pass, &model->config, &model->table, out->pool, ops_table(isa), &options);
}

void runner_close(struct runner *runner) {
    pass_close(runner->pass);
    batch_close(&runner->batch);
}
