// SPDX-License-Identifier: Apache-2.0
// finetuned eval: the metrics of a model directory or checkpoint on a split; predictions as TweetEval files.
#include "daemon/verbs.h"

#include "base/file.h"
#include "base/text.h"
#include "checkpoints/checkpoint.h"
#include "daemon/flags.h"
#include "daemon/subject.h"
#include "data/source.h"
#include "train/evaluate.h"
#include "train/events.h"

#include <unistd.h>

struct eval_flags {
    const char *model, *dir, *task, *predictions, *job;
    int split;
    bool json;
};

// The data's label ids are the model's: names decide. `map[data id]` = the model's id.
static enum status eval_map(int32_t *map, const struct labels *data, const struct model_config *config,
                            const char *path) {
    for (uint32_t i = 0; i < data->n; i++) {
        map[i] = config->label_names.n ? labels_find(&config->label_names, data->names[i]) : (int32_t)i;
        if (map[i] < 0 || map[i] >= (int32_t)config->labels)
            return status_set(STATUS_DATA, "eval: the data's label '%s' is not one of the model's (%s)", data->names[i],
                              path);
    }
    return data->n == config->labels
               ? STATUS_OK
               : status_set(STATUS_DATA, "eval: %s has %u labels, the data %u", path, config->labels, data->n);
}

static enum status eval_write(const char *path, const struct answer *answers, uint32_t n) {
    struct text text = {0};
    for (uint32_t i = 0; i < n; i++)
        text_printf(&text, "%d\n", answers[i].predicted);
    enum status status = text_string(&text) ? file_replace(path, text_string(&text), text.size)
                                            : status_set(STATUS_SYSTEM, "eval: no memory");
    text_release(&text);
    return status;
}

// Stance: TweetEval keeps a file a target, <folder>/<target>.txt. The rows stand target after target.
static enum status eval_target(const struct eval_flags *f, const char *target, const struct answer *answers,
                               size_t *first) {
    int32_t *gold = NULL;
    size_t n = 0;
    char *labels = text_format("%s/stance/%s/%s_labels.txt", f->dir, target, split_names[f->split]);
    char *path = text_format("%s/%s.txt", f->predictions, target);
    enum status status =
        labels && path ? source_label_file(&gold, &n, labels, 0) : status_set(STATUS_SYSTEM, "eval: no memory");
    if (status == STATUS_OK)
        status = eval_write(path, answers + *first, (uint32_t)n);
    *first += n;
    free(gold);
    free(path);
    free(labels);
    return status;
}

static enum status eval_predictions(const struct eval_flags *f, const struct answer *answers, uint32_t n) {
    size_t first = 0;
    if (strcmp(f->task, "stance") != 0)
        return eval_write(f->predictions, answers, n);
    TRY(file_make_folders(f->predictions));
    for (size_t i = 0; tweet_eval_targets[i]; i++)
        TRY(eval_target(f, tweet_eval_targets[i], answers, &first));
    return STATUS_OK;
}

static void eval_table(const struct metrics *m, double loss, enum metric official, const struct labels *labels,
                       const char *split) {
    printf("%s: %s %.6f\nloss %.6f  accuracy %.6f  macro F1 %.6f  macro recall %.6f  texts %llu\n\n", split,
           metric_name(official), metric_value(m, official), loss, m->accuracy, m->macro_f1, m->macro_recall,
           (unsigned long long)m->examples);
    printf("%-20s %9s %9s %9s %9s\n", "label", "precision", "recall", "f1", "support");
    for (uint32_t c = 0; c < m->classes; c++)
        printf("%-20s %9.6f %9.6f %9.6f %9llu\n", labels->names[c], m->per_class[c].precision, m->per_class[c].recall,
               m->per_class[c].f1, (unsigned long long)m->per_class[c].support);
}

// A checkpoint knows its epoch and step; a model directory does not.
static enum status eval_origin(struct text *text, const char *path) {
    struct trainer_state state = {0};
    if (!checkpoint_is(path)) {
        text_puts(text, "\"epoch\": null, \"step\": null, ");
        return STATUS_OK;
    }
    TRY(checkpoint_state(&state, path));
    text_printf(text, "\"epoch\": %llu, \"step\": %llu, ", (unsigned long long)state.epoch,
                (unsigned long long)state.step);
    trainer_state_release(&state);
    return STATUS_OK;
}

static enum status eval_json(const struct eval_flags *f, const struct metrics *metrics, double loss,
                             const struct labels *labels) {
    struct text text = {0};
    text_printf(&text, "{\"split\": \"%s\", ", split_names[f->split]);
    enum status status = eval_origin(&text, f->model);
    text_puts(&text, "\"loss\": ");
    json_number_add(&text, loss);
    text_puts(&text, ", ");
    evaluate_print(&text, metrics, metric_official(f->task), labels);
    text_puts(&text, "}");
    if (status == STATUS_OK && text_string(&text))
        puts(text_string(&text));
    text_release(&text);
    return status;
}

static enum status eval_print(const struct eval_flags *f, const struct answer *answers, uint32_t n,
                              const struct labels *labels) {
    struct metrics metrics;
    double loss;
    enum status status = STATUS_OK;
    TRY(evaluate_metrics(&metrics, &loss, answers, n, labels->n));
    if (f->json)
        status = eval_json(f, &metrics, loss, labels);
    else
        eval_table(&metrics, loss, metric_official(f->task), labels, split_names[f->split]);
    metrics_close(&metrics);
    return status;
}

// Tokenised like training does, into a shard that is not kept.
static enum status eval_shard(struct shard *out, const struct eval_flags *f, const struct model *model,
                              const struct labels *labels, struct pool *pool) {
    struct source_spec spec = {.format = SOURCE_TWEET_EVAL, .dir = f->dir, .task = f->task};
    struct shard_options options = {.special = model->settings.special,
                                    .max_length = subject_length(model),
                                    .truncation = true,
                                    .normalize = model->settings.normalize};
    struct source source = {0};
    const char *root = getenv("TMPDIR");
    char *cache = text_format("%s/finetuned-eval-XXXXXX", root && *root ? root : "/tmp");
    if (!cache || !mkdtemp(cache)) {
        enum status status = status_errno(STATUS_IO, "eval: a temporary folder %s", cache ? cache : "");
        free(cache);
        return status;
    }
    enum status status = source_read(&source, &spec, (enum source_split)f->split, labels);
    if (status == STATUS_OK)
        status = shard_prepare(out, NULL, cache, (enum source_split)f->split, &source, labels, model->tokenizer,
                               &options, pool);
    source_close(&source);
    file_remove(cache);
    free(cache);
    return status;
}

// Answers in the data's ids.
static enum status eval_answers(struct answer **out, struct shard *shard, const struct model *model,
                                struct runner *runner, const struct labels *labels, const char *path) {
    struct evaluator e = {
        runner->pass, &runner->batch, model->weights, &model->config, runner->max_tokens, runner->max_examples, NULL};
    int32_t *map = calloc(labels->n, sizeof *map), *gold = calloc(shard->n + 1, sizeof *gold);
    enum status status =
        map && gold ? eval_map(map, labels, &model->config, path) : status_set(STATUS_SYSTEM, "eval: no memory");
    if (status == STATUS_OK) {
        for (uint32_t i = 0; i < shard->n; i++)
            gold[i] = shard->labels[i] >= 0 ? map[shard->labels[i]] : -1;
        shard->labels = gold;
        status = evaluate_shard(out, &e, shard);
    }
    for (uint32_t i = 0; status == STATUS_OK && i < shard->n; i++)
        for (int32_t c = 0, predicted = (*out)[i].predicted, was = (*out)[i].gold; c < (int32_t)labels->n; c++) {
            (*out)[i].predicted = map[c] == predicted ? c : (*out)[i].predicted;
            (*out)[i].gold = map[c] == was ? c : (*out)[i].gold;
        }
    free(map);
    free(gold);
    return status;
}

static enum status eval_run(const struct eval_flags *f) {
    struct source_spec spec = {.format = SOURCE_TWEET_EVAL, .dir = f->dir, .task = f->task};
    struct model model = {0};
    struct labels labels = {0};
    struct shard shard = {0};
    struct runner runner = {0};
    struct answer *answers = NULL;
    enum status status;
    TRY_GOTO(subject_open(&model, f->model, f->job), done);
    TRY_GOTO(source_labels(&labels, &spec), done);
    TRY_GOTO(runner_open(&runner, &model, subject_length(&model), 64), done);
    TRY_GOTO(eval_shard(&shard, f, &model, &labels, runner.pool), done);
    TRY_GOTO(eval_answers(&answers, &shard, &model, &runner, &labels, f->model), done);
    if (f->predictions)
        TRY_GOTO(eval_predictions(f, answers, shard.n), done);
    status = eval_print(f, answers, shard.n, &labels);
done:
    free(answers);
    shard_close(&shard);
    runner_close(&runner);
    labels_release(&labels);
    model_close(&model);
    return status;
}

static struct eval_flags given = {.split = SPLIT_TEST};
static const char *const splits[] = {"train", "val", "test", NULL};
static const struct flag flags[] = {
    {"--model", FLAG_STRING, &given.model, "DIR", "model directory or checkpoint", NULL, true},
    {"--data.dir", FLAG_STRING, &given.dir, "DIR", "folder that holds <task>/…", NULL, true},
    {"--data.task", FLAG_STRING, &given.task, "TASK", "emotion, stance, stance/abortion, …", NULL, true},
    {"--split", FLAG_CHOICE, &given.split, "SPLIT", "train, val or test (default test)", splits, false},
    {"--predictions", FLAG_STRING, &given.predictions, "FILE",
     "writes the predicted ids, one a line (stance: a folder, <target>.txt each)", NULL, false},
    {"--job", FLAG_STRING, &given.job, "FILE", "a checkpoint's job.yaml, where it is not beside it", NULL, false},
    {"--json", FLAG_SWITCH, &given.json, NULL, "one JSON object", NULL, false},
    FLAGS_END,
};

const struct verb_flags verb_eval_flags = {
    .verb = "eval",
    .usage = "--model DIR --data.dir DIR --data.task TASK [--split SPLIT] [--json]",
    .about = "Scores a model on a split by TweetEval's rules.",
    .flags = flags,
};

int verb_eval(int argc, char **argv) {
    size_t words;
    bool helped;
    enum status status = flags_parse(&verb_eval_flags, argc, argv, argv, &words, &helped);
    return helped ? 0 : verb_exit(status == STATUS_OK ? eval_run(&given) : status);
}
