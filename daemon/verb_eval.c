// SPDX-License-Identifier: Apache-2.0
// finetuned eval: the metrics of a model directory or checkpoint on a split or a file; answers as TweetEval's files or
// JSON lines.
#include "daemon/verbs.h"

#include "base/file.h"
#include "base/text.h"
#include "daemon/answers/eval.h"
#include "daemon/flags.h"
#include "daemon/subject.h"

// "; DIR holds test.csv: add --data.format csv", where that is what was meant.
static const char *eval_format_hint(const char *dir, char *hint, size_t room) {
    for (enum source_format format = SOURCE_CSV; format <= SOURCE_SQUAD; format++) {
        static const char *const names[] = {
            [SOURCE_CSV] = "csv", [SOURCE_TSV] = "tsv", [SOURCE_JSONL] = "jsonl", [SOURCE_SQUAD] = "squad"};
        struct source_spec spec = {.format = format, .dir = dir};
        if (source_has(&spec, SPLIT_TEST) || source_has(&spec, SPLIT_VAL) || source_has(&spec, SPLIT_TRAIN)) {
            snprintf(hint, room, "; %.200s holds %s files: add --data.format %s", dir, names[format], names[format]);
            break;
        }
    }
    return hint;
}

static enum status eval_check(const struct eval_flags *f) {
    char hint[300] = "";
    if (!f->dir && !f->file)
        return status_set(STATUS_USAGE, "eval: --data.dir DIR or --file FILE is required (see finetuned eval --help)");
    if (f->dir && f->file)
        return status_set(STATUS_USAGE, "eval: give --data.dir or --file, not both");
    if (f->file && f->split >= 0)
        return status_set(STATUS_USAGE, "eval: --split is of --data.dir; --file is all of one file");
    if (f->dir && f->split < 0 && f->format != SOURCE_TWEET_EVAL) {
        struct source_spec spec = {.format = (enum source_format)f->format, .dir = f->dir, .task = f->task};
        if (!source_has(&spec, SPLIT_TEST) && source_has(&spec, SPLIT_VAL))
            return status_set(STATUS_USAGE, "eval: %s has no test split: add --split val (or train)", f->dir);
    }
    if (f->dir && !f->task && f->format == SOURCE_TWEET_EVAL)
        return status_set(STATUS_USAGE, "eval: --data.task TASK is required with data in TweetEval's layout%s",
                          eval_format_hint(f->dir, hint, sizeof hint));
    return eval_outputs_check(f);
}

static enum status eval_answers(struct answer **answers, float **scores, const struct eval_flags *f,
                                const struct eval_data *data, const struct model *model, struct runner *runner) {
    uint32_t labels = model->config.labels;
    size_t n = data->source.n;
    if (f->output && !(*scores = calloc(n * labels, sizeof **scores)))
        return status_set(STATUS_SYSTEM, "eval: no memory for the scores of %zu texts", n);
    struct evaluator e = {.pass = runner->pass,
                          .batch = &runner->batch,
                          .weights = model->weights,
                          .config = &model->config,
                          .max_tokens = runner->max_tokens,
                          .max_examples = runner->max_examples,
                          .logits = *scores};
    TRY(evaluate_shard(answers, &e, &data->shard));
    if (*scores)
        pass_ops(runner->pass)->softmax(*scores, *scores, n, labels);
    return STATUS_OK;
}

static enum status eval_run(const struct eval_flags *f) {
    struct model model = {0};
    struct eval_data data = {0};
    struct runner runner = {0};
    struct origin origin;
    struct pool *pool = NULL;
    struct answer *answers = NULL;
    float *scores = NULL;
    enum status status;
    TRY_GOTO(pool_open(&pool, 0), done);
    TRY_GOTO(subject_open(&model, &origin, f->model, f->job, pool), done);
    TRY_GOTO(runner_open(&runner, &model, pool, subject_length(&model), 64), done);
    if (model.config.head == HEAD_QUESTION_ANSWERING) {
        status = eval_questions(f, &model, &origin, &runner);
        goto done;
    }
    if (f->format == SOURCE_SQUAD || f->doc_stride) {
        status = status_set(STATUS_USAGE, "eval: %s needs a question answering model; %s is a classifier",
                            f->format == SOURCE_SQUAD ? "--data.format squad" : "--data.doc_stride", f->model);
        goto done;
    }
    subject_pairs(&model, f->pair);
    TRY_GOTO(eval_data_open(&data, f, &model, &origin, pool), done);
    TRY_GOTO(eval_answers(&answers, &scores, f, &data, &model, &runner), done);
    if (f->predictions)
        TRY_GOTO(eval_predictions(f, &data, answers), done);
    if (f->output)
        TRY_GOTO(eval_output(f, &data, answers, scores), done);
    status = eval_print(f, &data, answers);
done:
    free(scores);
    free(answers);
    eval_data_close(&data);
    runner_close(&runner);
    model_close(&model);
    pool_close(pool);
    return status;
}

static struct eval_flags given = {.split = -1};
static const char *const splits[] = {"train", "val", "test", NULL};
static const char *const formats[] = {"tweet_eval", "csv", "tsv", "jsonl", "squad", NULL}; // as enum source_format
static const struct flag flags[] = {
    {"--model", FLAG_STRING, &given.model, "DIR", "model directory or checkpoint", NULL, true},
    {"--data.dir", FLAG_STRING, &given.dir, "DIR", "folder that holds <task>/…, or test.csv (.tsv, .jsonl)", NULL,
     false},
    {"--data.task", FLAG_STRING, &given.task, "TASK",
     "emotion, stance, stance/abortion, …; csv, tsv, jsonl: chooses the official metric", NULL, false},
    {"--data.format", FLAG_CHOICE, &given.format, "FORMAT",
     "tweet_eval, csv, tsv, jsonl or squad (default tweet_eval; of --file: by its ending)", formats, false},
    {"--data.columns.text", FLAG_STRING, &given.text, "NAME", "csv, tsv, jsonl: the text (default text)", NULL, false},
    {"--data.columns.pair", FLAG_STRING, &given.pair, "NAME", "the second text of a pair (default: there is none)",
     NULL, false},
    {"--data.columns.label", FLAG_STRING, &given.label, "NAME",
     "the label: a name, or an id where there is a mapping.txt (default label, which may lack)", NULL, false},
    {"--data.doc_stride", FLAG_COUNT, &given.doc_stride, "N",
     "squad: context tokens that neighbouring windows share (default: as the model was trained)", NULL, false},
    {"--split", FLAG_CHOICE, &given.split, "SPLIT", "train, val or test (default test)", splits, false},
    {"--file", FLAG_STRING, &given.file, "FILE",
     "one file instead of --data.dir: .csv, .tsv, .jsonl, SQuAD's .json, else lines of text; labels are the model's "
     "names or ids",
     NULL, false},
    {"--predictions", FLAG_STRING, &given.predictions, "FILE",
     "writes the predicted ids, one a line (stance: a folder, <target>.txt each); squad: {id: answer}", NULL, false},
    {"--output", FLAG_STRING, &given.output, "FILE",
     "writes a JSON line a text: text, pair, gold, label, score, scores; squad: id, question, gold, answer, score, "
     "start, end",
     NULL, false},
    {"--job", FLAG_STRING, &given.job, "FILE", "a checkpoint's job.yaml, where it is not beside it", NULL, false},
    {"--json", FLAG_SWITCH, &given.json, NULL, "one JSON object", NULL, false},
    FLAGS_END,
};

const struct verb_flags verb_eval_flags = {
    .verb = "eval",
    .usage = "--model DIR (--data.dir DIR [--data.task TASK] [--split SPLIT] | --file FILE) [--data.format FORMAT] "
             "[--output FILE] [--json]",
    .about = "Scores a model on a split or a file by TweetEval's rules (questions: SQuAD's), and writes its answers. "
             "Texts without a label "
             "are answered, but not scored.",
    .flags = flags,
    .examples = "finetuned eval --model runs/emotion/model --data.dir path/to/tweet_eval --data.task emotion\n"
                "finetuned eval --model runs/emotion/model --file tweets.csv --output answers.jsonl\n"
                "finetuned eval --model runs/squad/model --data.format squad --data.dir examples/squad --split val",
};

int verb_eval(int argc, char **argv) {
    size_t words;
    bool helped;
    enum status status = flags_parse(&verb_eval_flags, argc, argv, argv, &words, &helped);
    if (!helped && status == STATUS_OK)
        status = eval_check(&given);
    if (given.split < 0 && !given.file)
        given.split = SPLIT_TEST;
    return helped ? 0 : verb_exit(status == STATUS_OK ? eval_run(&given) : status);
}
