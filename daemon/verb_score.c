// SPDX-License-Identifier: Apache-2.0
// finetuned score: the official TweetEval numbers of prediction files.
// Gold: <dir>/<task>/test_labels.txt (stance: <dir>/stance/<target>/test_labels.txt), or gold.txt in the same folder.
// Predictions: <predictions>/<task>.txt (stance: <predictions>/stance/<target>.txt), or <predictions>/<task>/pred.txt;
// with --task of one file also the file itself.
#include "daemon/verbs.h"

#include "base/file.h"
#include "base/text.h"
#include "daemon/flags.h"
#include "data/source.h"
#include "model/metrics.h"
#include "train/events.h"

struct score_flags {
    const char *dir, *predictions, *task;
    bool json;
};

// The first of two paths that exists; the first name is the one in messages.
static enum status score_path(char **out, const char *what, const char *task, char *first, char *second) {
    *out = NULL;
    enum status status = first && second ? STATUS_OK : status_set(STATUS_SYSTEM, "score: no memory");
    if (status == STATUS_OK && !file_exists(first) && !file_exists(second))
        status = status_set(STATUS_DATA, "score: no %s for %s: neither %s nor %s is there", what, task, first, second);
    else if (status == STATUS_OK)
        *out = strdup(file_exists(first) ? first : second);
    free(first);
    free(second);
    return status;
}

static enum status score_labels(uint32_t *n, const struct score_flags *f, const char *task) {
    struct labels labels = {0};
    struct source_spec spec = {.format = SOURCE_TWEET_EVAL, .dir = f->dir, .task = task};
    TRY(source_labels(&labels, &spec));
    *n = labels.n;
    labels_release(&labels);
    return STATUS_OK;
}

static enum status score_count(struct metrics *m, const char *gold_path, const char *predicted_path) {
    int32_t *gold = NULL, *predicted = NULL;
    size_t n = 0, n_predicted = 0;
    enum status status;
    TRY_GOTO(source_label_file(&gold, &n, gold_path, m->classes), done);
    TRY_GOTO(source_label_file(&predicted, &n_predicted, predicted_path, m->classes), done);
    if (n != n_predicted) {
        status =
            status_set(STATUS_DATA, "score: %s has %zu rows, %s has %zu", predicted_path, n_predicted, gold_path, n);
        goto done;
    }
    for (size_t i = 0; i < n; i++)
        metrics_count(m, gold[i], predicted[i]);
done:
    free(gold);
    free(predicted);
    return status;
}

// One pair of files: a task, or a stance target ("stance/abortion").
static enum status score_files(struct metrics *m, const struct score_flags *f, const char *task) {
    char *gold = NULL, *predicted = NULL;
    enum status status;
    TRY_GOTO(score_path(&gold, "gold labels", task, text_format("%s/%s/test_labels.txt", f->dir, task),
                        text_format("%s/%s/gold.txt", f->dir, task)),
             done);
    if (f->task && !file_is_folder(f->predictions) && file_exists(f->predictions))
        predicted = strdup(f->predictions);
    else
        TRY_GOTO(score_path(&predicted, "predictions", task, text_format("%s/%s.txt", f->predictions, task),
                            text_format("%s/%s/pred.txt", f->predictions, task)),
                 done);
    status = gold && predicted ? score_count(m, gold, predicted) : status_set(STATUS_SYSTEM, "score: no memory");
done:
    free(gold);
    free(predicted);
    return status;
}

// Stance is counted over its five targets together.
static enum status score_task(double *out, const struct score_flags *f, const char *task) {
    uint32_t classes;
    struct metrics m;
    enum status status = STATUS_OK;
    TRY(score_labels(&classes, f, task));
    TRY(metrics_open(&m, classes));
    if (strcmp(task, "stance") != 0) {
        status = score_files(&m, f, task);
    } else if (f->task && !file_is_folder(f->predictions)) {
        status = status_set(STATUS_USAGE, "score: stance has five prediction files: --predictions must be a folder");
    } else {
        for (size_t i = 0; tweet_eval_targets[i] && status == STATUS_OK; i++) {
            char *target = text_format("stance/%s", tweet_eval_targets[i]);
            status = target ? score_files(&m, f, target) : status_set(STATUS_SYSTEM, "score: no memory");
            free(target);
        }
    }
    if (status == STATUS_OK) {
        metrics_finish(&m);
        *out = metric_value(&m, metric_official(task));
    }
    metrics_close(&m);
    return status;
}

static void score_print(const struct score_flags *f, const char *const *tasks, const double *values, size_t n) {
    double sum = 0;
    printf(f->json ? "{\"tasks\": {" : "");
    for (size_t i = 0; i < n; i++) {
        sum += values[i];
        if (f->json)
            printf("%s\"%s\": %.9g", i ? ", " : "", tasks[i], values[i]);
        else
            printf("%-10s %.6f  (%s)\n", tasks[i], values[i], metric_name(metric_official(tasks[i])));
    }
    if (f->json)
        printf("}, \"total\": %.9g}\n", sum / (double)n);
    else if (n > 1)
        printf("%-10s %.6f\n", "total", sum / (double)n);
}

static enum status score_there(const char *flag, const char *path) {
    return file_exists(path) ? STATUS_OK : status_set(STATUS_DATA, "score: %s: %s is not there", flag, path);
}

static enum status score_run(const struct score_flags *f) {
    double values[16];
    size_t n = 0;
    if (f->task && !tweet_eval_task_known(f->task))
        return status_set(STATUS_USAGE,
                          "score: --task is '%s', must be one of: emoji, emotion, hate, irony, offensive, "
                          "sentiment, stance, stance/<target>",
                          f->task);
    TRY(score_there("--data.dir", f->dir));
    TRY(score_there("--predictions", f->predictions));
    if (f->task) {
        TRY(score_task(values, f, f->task));
        score_print(f, &f->task, values, 1);
        return STATUS_OK;
    }
    for (; tweet_eval_tasks[n]; n++)
        TRY(score_task(&values[n], f, tweet_eval_tasks[n]));
    score_print(f, tweet_eval_tasks, values, n);
    return STATUS_OK;
}

static struct score_flags given;
static const struct flag flags[] = {
    {"--data.dir", FLAG_STRING, &given.dir, "DIR", "gold: <task>/test_labels.txt and mapping.txt", NULL, true},
    {"--predictions", FLAG_STRING, &given.predictions, "DIR",
     "<task>.txt, stance/<target>.txt; with --task also a file", NULL, true},
    {"--task", FLAG_STRING, &given.task, "TASK", "one task; without it all seven and their mean (total)", NULL, false},
    {"--json", FLAG_SWITCH, &given.json, NULL, "{\"tasks\": {…}, \"total\": …}", NULL, false},
    FLAGS_END,
};

const struct verb_flags verb_score_flags = {
    .verb = "score",
    .usage = "--data.dir DIR --predictions DIR [--task TASK] [--json]",
    .about = "The official TweetEval numbers of prediction files.",
    .flags = flags,
    .examples = "finetuned score --data.dir path/to/tweet_eval --predictions predictions",
};

int verb_score(int argc, char **argv) {
    size_t words;
    bool helped;
    enum status status = flags_parse(&verb_score_flags, argc, argv, argv, &words, &helped);
    return helped ? 0 : verb_exit(status == STATUS_OK ? score_run(&given) : status);
}
