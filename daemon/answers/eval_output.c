// SPDX-License-Identifier: Apache-2.0
// Predictions of `finetuned eval`: TweetEval's ids, or a JSON line a text.
#include "daemon/answers/eval.h"

#include "base/file.h"
#include "daemon/paths/output.h"
#include "train/events.h"

static enum status ids_write(const char *path, const struct eval_data *data, const struct answer *answers, size_t n) {
    struct text text = {0};
    for (size_t i = 0; i < n; i++)
        text_printf(&text, "%d\n", data->ids[answers[i].predicted]);
    enum status status = text_string(&text) ? file_replace(path, text_string(&text), text.size)
                                            : status_set(STATUS_SYSTEM, "eval: no memory");
    text_release(&text);
    return status;
}

// Stance: TweetEval keeps a file a target, <folder>/<target>.txt. The rows stand target after target.
static enum status target_write(const struct eval_flags *f, const char *target, const struct eval_data *data,
                                const struct answer *answers, size_t *first) {
    int32_t *gold = NULL;
    size_t n = 0;
    char *labels = text_format("%s/stance/%s/%s_labels.txt", f->dir, target, split_names[f->split]);
    char *path = text_format("%s/%s.txt", f->predictions, target);
    enum status status =
        labels && path ? source_label_file(&gold, &n, labels, 0) : status_set(STATUS_SYSTEM, "eval: no memory");
    if (status == STATUS_OK)
        status = ids_write(path, data, answers + *first, n);
    *first += n;
    free(gold);
    free(path);
    free(labels);
    return status;
}

// Whether --predictions is a folder.
static bool is_stance(const struct eval_flags *f) {
    return !f->file && f->format == SOURCE_TWEET_EVAL && strcmp(f->task, "stance") == 0;
}

static enum status predictions_check(const struct output_ask *ask, const struct eval_flags *f) {
    enum status status = STATUS_OK;
    if (!is_stance(f))
        return output_check(ask);
    for (size_t i = 0; tweet_eval_targets[i] && status == STATUS_OK; i++) {
        char *path = text_format("%s/%s.txt", f->predictions, tweet_eval_targets[i]);
        struct output_ask one = *ask;
        one.path = path;
        status = path ? output_check(&one) : status_set(STATUS_SYSTEM, "eval: no memory");
        free(path);
    }
    return status;
}

enum status eval_outputs_check(const struct eval_flags *f) {
    const struct output_other other[] = {{"--file", f->file}, {"--job", f->job}, {"--predictions", f->predictions}};
    struct output_ask ask = {
        .flag = "eval: --predictions", .path = f->predictions, .data = f->dir, .other = other, .n = 2};
    if (f->predictions)
        TRY(predictions_check(&ask, f));
    ask.flag = "eval: --output";
    ask.path = f->output;
    ask.n = 3;
    return f->output ? output_check(&ask) : STATUS_OK;
}

enum status eval_predictions(const struct eval_flags *f, const struct eval_data *data, const struct answer *answers) {
    size_t first = 0;
    if (!is_stance(f))
        return ids_write(f->predictions, data, answers, data->source.n);
    TRY(file_make_folders(f->predictions));
    for (size_t i = 0; tweet_eval_targets[i]; i++)
        TRY(target_write(f, tweet_eval_targets[i], data, answers, &first));
    return STATUS_OK;
}

// {"text": …, "pair": …, "gold": …, "label": …, "score": …, "scores": {…}, "truncated": true}
static void row_print(struct text *out, const struct eval_data *data, size_t i, const struct answer *answer,
                      const float *scores) {
    const struct example *row = &data->source.rows[i];
    const char *const *names = (const char *const *)data->model.names;
    text_puts(out, "{\"text\": ");
    json_string_bytes(out, row->text, row->text_size);
    if (row->pair) {
        text_puts(out, ", \"pair\": ");
        json_string_bytes(out, row->pair, row->pair_size);
    }
    text_puts(out, ", \"gold\": ");
    if (answer->gold >= 0)
        json_string_add(out, names[answer->gold]);
    else
        text_puts(out, "null");
    text_puts(out, ", \"label\": ");
    json_string_add(out, names[answer->predicted]);
    text_puts(out, ", \"score\": ");
    json_number_add(out, scores[answer->predicted]);
    for (uint32_t c = 0; c < data->model.n; c++) {
        text_puts(out, c ? ", " : ", \"scores\": {");
        json_string_add(out, names[c]);
        text_puts(out, ": ");
        json_number_add(out, scores[c]);
    }
    bool cut = data->shard.full[i] > data->shard.offsets[i + 1] - data->shard.offsets[i];
    text_puts(out, cut ? "}, \"truncated\": true}\n" : "}}\n");
}

enum status eval_output(const struct eval_flags *f, const struct eval_data *data, const struct answer *answers,
                        const float *scores) {
    struct file_write *file;
    struct text line = {0};
    TRY(file_begin(&file, f->output));
    enum status status = STATUS_OK;
    for (size_t i = 0; i < data->source.n && status == STATUS_OK; i++) {
        text_clear(&line);
        row_print(&line, data, i, &answers[i], scores + i * data->model.n);
        status = text_string(&line) ? file_put(file, line.at, line.size) : status_set(STATUS_SYSTEM, "eval: no memory");
    }
    text_release(&line);
    if (status == STATUS_OK)
        return file_commit(file);
    file_rollback(file);
    return status;
}
