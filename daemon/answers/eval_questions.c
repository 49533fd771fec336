// SPDX-License-Identifier: Apache-2.0
// finetuned eval with a question answering model: answers to all questions of a split or file, exact match and F1.
#include "daemon/answers/eval.h"

#include "base/file.h"
#include "base/log.h"
#include "base/markup.h"
#include "train/evaluate_spans.h"

struct questions {
    const struct eval_flags *f;
    const struct origin *origin; // of the model
    const char *name;            // for messages
    struct source source;
    struct shard shard;
    struct span_answer *answers; // (source.n)
    size_t labelled;
};

static enum status questions_check(const struct eval_flags *f) {
    size_t size = f->file ? strlen(f->file) : 0;
    bool json = size > 5 && strcasecmp(f->file + size - 5, ".json") == 0,
         named = f->format == SOURCE_TWEET_EVAL && json;
    if (f->file && f->format != SOURCE_SQUAD && !named)
        return status_set(STATUS_USAGE,
                          "eval: %s answers questions: golds to score them by stand in SQuAD's .json (--data.format "
                          "squad where the name does not say it); predict answers .csv, .tsv and .jsonl files too",
                          f->model);
    if (!f->file && f->format != SOURCE_SQUAD)
        return status_set(STATUS_USAGE, "eval: %s answers questions: --data.format must be squad", f->model);
    if (f->task || f->text || f->pair || f->label)
        return status_set(STATUS_USAGE, "eval: --data.task and --data.columns are of classification data");
    return STATUS_OK;
}

static enum status questions_read(struct questions *q) {
    const struct eval_flags *f = q->f;
    struct source_spec spec = {.format = SOURCE_SQUAD, .dir = f->dir, .task = "squad"};
    TRY(f->file ? source_read_file(&q->source, &spec, f->file, NULL)
                : source_read(&q->source, &spec, (enum source_split)f->split, NULL));
    for (size_t i = 0; i < q->source.n; i++)
        q->labelled += q->source.rows[i].label >= 0;
    if (q->source.n == 0)
        return status_set(STATUS_DATA, "%s: no questions", q->name);
    if (q->labelled == 0 && !f->predictions && !f->output)
        return status_set(STATUS_DATA,
                          "eval: %s: no question has an answer, so there is nothing to score; --output FILE or "
                          "--predictions FILE writes the model's",
                          q->name);
    return STATUS_OK;
}

static enum status questions_answer(struct questions *q, const struct model *model, struct runner *runner) {
    struct labels none = {0};
    struct shard_options windows = {.special = model->settings.special,
                                    .max_length = subject_length(model),
                                    .truncation = true,
                                    .spans = true,
                                    .doc_stride = subject_stride(model, q->f->doc_stride),
                                    .normalize = model->settings.normalize};
    struct span_options options = span_options(model->settings.no_answer);
    struct evaluator e = {.pass = runner->pass,
                          .batch = &runner->batch,
                          .weights = model->weights,
                          .config = &model->config,
                          .max_tokens = runner->max_tokens,
                          .max_examples = runner->max_examples};
    TRY(eval_shard(&q->shard, &q->source, &none, model->tokenizer, &windows, runner->pool));
    return evaluate_spans(&q->answers, &e, &q->shard, &options);
}

// SQuAD's prediction file: {id: answer, …}, which its own script scores.
static void predictions_add(struct text *out, const struct questions *q, size_t i) {
    const struct example *row = &q->source.rows[i];
    const struct span *span = &q->answers[i].span;
    text_puts(out, i ? ",\n " : "{");
    json_string_add(out, row->id);
    text_puts(out, ": ");
    json_string_bytes(out, row->pair + span->byte_start, span->byte_end - span->byte_start);
    if (i + 1 == q->source.n)
        text_puts(out, "}\n");
}

static void golds_add(struct text *out, const struct example *row) {
    text_puts(out, row->label < 0 ? "null" : "[");
    for (uint32_t i = 0; row->label >= 0 && i < row->n_answers; i++) {
        text_puts(out, i ? ", " : "");
        json_string_bytes(out, row->answers[i].text, row->answers[i].size);
    }
    text_puts(out, row->label < 0 ? "" : "]");
}

// {"id", "question", "gold": [answers] or null, "answer", "score", "start", "end"}
static void output_add(struct text *out, const struct questions *q, size_t i) {
    const struct example *row = &q->source.rows[i];
    const struct span *span = &q->answers[i].span;
    text_puts(out, "{\"id\": ");
    json_string_add(out, row->id);
    text_puts(out, ", \"question\": ");
    json_string_bytes(out, row->text, row->text_size);
    text_puts(out, ", \"gold\": ");
    golds_add(out, row);
    text_puts(out, ", \"answer\": ");
    json_string_bytes(out, row->pair + span->byte_start, span->byte_end - span->byte_start);
    text_puts(out, ", \"score\": ");
    json_number_add(out, span->probability);
    text_printf(out, ", \"start\": %u, \"end\": %u}\n", span->byte_start, span->byte_end);
}

static enum status questions_write(const char *path, const struct questions *q,
                                   void (*add)(struct text *, const struct questions *, size_t)) {
    struct file_write *file;
    struct text text = {0};
    TRY(file_begin(&file, path));
    enum status status = STATUS_OK;
    for (size_t i = 0; i < q->source.n && status == STATUS_OK; i++) {
        text_clear(&text);
        add(&text, q, i);
        status = text_string(&text) ? file_put(file, text.at, text.size) : status_set(STATUS_SYSTEM, "eval: no memory");
    }
    text_release(&text);
    if (status == STATUS_OK)
        return file_commit(file);
    file_rollback(file);
    return status;
}

static void table_line(const char *name, const struct squad_sum *sum) {
    printf("%-20s %9.6f %9.6f %9llu\n", name, squad_mean(sum->exact, sum->n), squad_mean(sum->f1, sum->n),
           (unsigned long long)sum->n);
}

static void questions_table(const struct questions *q, const struct squad_totals *totals, double loss,
                            enum squad_version version) {
    printf("%s: f1 %.6f\nloss %.6f  exact match %.6f  questions %llu\n\n", q->name,
           squad_mean(totals->all.f1, totals->all.n), loss, squad_mean(totals->all.exact, totals->all.n),
           (unsigned long long)totals->all.n);
    printf("%-20s %9s %9s %9s\n", "questions", "em", "f1", "number");
    table_line("all", &totals->all);
    if (version != SQUAD_V2)
        return;
    table_line("with an answer", &totals->answered);
    table_line("without", &totals->unanswered);
}

// `totals` NULL: no question has a gold answer.
static enum status questions_json(const struct questions *q, const struct squad_totals *totals, double loss,
                                  enum squad_version version) {
    struct text text = {0};
    text_puts(&text, "{");
    eval_print_head(&text, q->f, q->origin);
    if (q->labelled < q->source.n)
        text_printf(&text, "\"unlabelled\": %zu, ", q->source.n - q->labelled);
    text_puts(&text, totals ? "\"loss\": " : "\"loss\": null, \"official\": null");
    if (totals) {
        json_number_add(&text, loss);
        text_puts(&text, ", ");
        evaluate_squad_print(&text, totals, version);
    }
    text_puts(&text, "}");
    enum status status = text_string(&text) ? STATUS_OK : status_set(STATUS_SYSTEM, "eval: no memory");
    if (status == STATUS_OK)
        puts(text_string(&text));
    text_release(&text);
    return status;
}

static enum status questions_print(const struct questions *q, const struct model *model) {
    enum squad_version version =
        model->settings.no_answer || squad_version_of(&q->source) == SQUAD_V2 ? SQUAD_V2 : SQUAD_V1;
    struct squad_totals totals;
    double loss;
    if (q->labelled < q->source.n)
        log_warn("eval: %s: %zu of %zu questions are unlabelled and are not scored", q->name, q->source.n - q->labelled,
                 q->source.n);
    TRY(evaluate_squad(&totals, &loss, q->answers, &q->source, version));
    if (q->f->json)
        return questions_json(q, q->labelled ? &totals : NULL, loss, version);
    if (q->labelled)
        questions_table(q, &totals, loss, version);
    return STATUS_OK;
}

enum status eval_questions(const struct eval_flags *f, const struct model *model, const struct origin *origin,
                           struct runner *runner) {
    struct questions q = {.f = f, .origin = origin, .name = f->file ? f->file : split_names[f->split]};
    enum status status;
    TRY(questions_check(f));
    TRY_GOTO(questions_read(&q), done);
    TRY_GOTO(questions_answer(&q, model, runner), done);
    if (f->predictions)
        TRY_GOTO(questions_write(f->predictions, &q, predictions_add), done);
    if (f->output)
        TRY_GOTO(questions_write(f->output, &q, output_add), done);
    status = questions_print(&q, model);
done:
    free(q.answers);
    shard_close(&q.shard);
    source_close(&q.source);
    return status;
}
