// SPDX-License-Identifier: Apache-2.0
// What the run's model scores on a split: the one place that knows which scores a head has.
#include "train/evaluate_spans.h"

#include "base/clock.h"
#include "train/trainer.h"

#include <math.h>

void evaluation_release(struct evaluation *evaluation) {
    metrics_close(&evaluation->metrics);
    *evaluation = (struct evaluation){0};
}

static bool has_spans(const struct trainer *t) {
    return t->inputs.config.head == HEAD_QUESTION_ANSWERING;
}

static enum status split_labels(struct evaluation *out, const struct evaluator *e, const struct shard *shard) {
    struct answer *answers;
    TRY(evaluate_shard(&answers, e, shard));
    enum status status = evaluate_metrics(&out->metrics, &out->loss, answers, shard->n, e->config->labels);
    free(answers);
    return status;
}

static enum status split_spans(struct evaluation *out, const struct evaluator *e, const struct inputs *inputs,
                               enum source_split split) {
    struct span_options options = span_options(inputs->no_answer);
    struct span_answer *answers;
    TRY(evaluate_spans(&answers, e, &inputs->shards[split], &options));
    out->version = inputs->no_answer ? SQUAD_V2 : SQUAD_V1;
    enum status status = evaluate_squad(&out->squad, &out->loss, answers, &inputs->sources[split], out->version);
    free(answers);
    return status;
}

enum status evaluate_split(struct trainer *t, enum source_split split, struct evaluation *out) {
    const struct shard *shard = &t->inputs.shards[split];
    struct evaluator e = {.pass = t->pass,
                          .batch = &t->batch,
                          .weights = t->arenas.weights,
                          .config = &t->inputs.config,
                          .max_tokens = t->evaluation_tokens,
                          .max_examples = t->batch_examples,
                          .comm = t->comm,
                          .stop = &t->stop_signal};
    double begun = clock_seconds();
    enum pulse_operation before = pulse_set(PULSE_EVALUATE);
    if (t->optimizer) // trainer_finish has closed it
        save_current(t);
    *out = (struct evaluation){.there = true, .step = t->weights_step, .epoch = t->weights_epoch};
    enum status status = has_spans(t) ? split_spans(out, &e, &t->inputs, split) : split_labels(out, &e, shard);
    t->times.evaluate += clock_seconds() - begun;
    pulse_set(before);
    return status;
}

static enum metric job_metric(const struct trainer *t) {
    switch (t->job->train.best_metric) {
    case JOB_ACCURACY:
        return METRIC_ACCURACY;
    case JOB_MACRO_F1:
        return METRIC_MACRO_F1;
    case JOB_MACRO_RECALL:
        return METRIC_MACRO_RECALL;
    case JOB_LOSS:
        return METRIC_LOSS;
    default:
        return metric_official(t->job->data.task);
    }
}

static double squad_value(const struct evaluation *e, bool exact) {
    return squad_mean(exact ? e->squad.all.exact : e->squad.all.f1, e->squad.all.n);
}

double evaluate_score(const struct trainer *t, const struct evaluation *e) {
    if (!isfinite(e->loss)) // some logits are not: that a label was the right one says nothing
        return (double)NAN;
    if (has_spans(t))
        return t->job->train.best_metric == JOB_LOSS ? -e->loss : squad_value(e, t->job->train.best_metric == JOB_EM);
    enum metric metric = job_metric(t);
    return metric == METRIC_LOSS ? -e->loss : metric_value(&e->metrics, metric);
}

const char *evaluation_official(const struct trainer *t, const struct evaluation *e, double *value) {
    enum metric official = metric_official(t->job->data.task);
    if (has_spans(t)) {
        *value = e->there ? squad_value(e, false) : (double)NAN;
        return "f1";
    }
    *value = e->there ? metric_value(&e->metrics, official) : (double)NAN;
    return metric_name(official);
}

void evaluation_print(struct text *out, const struct trainer *t, const struct evaluation *e) {
    text_puts(out, "\"loss\": ");
    json_number_add(out, e->loss);
    text_puts(out, ", ");
    if (has_spans(t))
        evaluate_squad_print(out, &e->squad, e->version);
    else
        evaluate_print(out, &e->metrics, metric_official(t->job->data.task), &t->inputs.labels);
}

#define SCORES_MAX 5

// Names and values of the head's scores, the official one among them; returns how many.
static size_t evaluation_scores(struct tensorboard_scalar out[SCORES_MAX], const struct trainer *t,
                                const struct evaluation *e) {
    const struct metrics *m = &e->metrics;
    size_t n = 0, i = 0;
    double official;
    const char *name = evaluation_official(t, e, &official);
    out[n++] = (struct tensorboard_scalar){"loss", e->loss};
    if (has_spans(t)) {
        out[n++] = (struct tensorboard_scalar){"em", squad_value(e, true)};
    } else {
        out[n++] = (struct tensorboard_scalar){"accuracy", m->accuracy};
        out[n++] = (struct tensorboard_scalar){"macro_f1", m->macro_f1};
        out[n++] = (struct tensorboard_scalar){"macro_recall", m->macro_recall};
    }
    while (i < n && strcmp(out[i].tag, name) != 0)
        i++;
    if (i == n)
        out[n++] = (struct tensorboard_scalar){name, official};
    return n;
}

static enum status evaluation_board(struct trainer *t, enum source_split split, const struct evaluation *e) {
    struct tensorboard_scalar scalars[SCORES_MAX];
    char tags[SCORES_MAX][64];
    size_t n = evaluation_scores(scalars, t, e);
    for (size_t i = 0; i < n; i++) {
        snprintf(tags[i], sizeof tags[i], "eval/%s/%s", split_names[split], scalars[i].tag);
        scalars[i].tag = tags[i];
    }
    return tensorboard_write(&t->board, e->step, scalars, n);
}

enum status evaluate_event(struct trainer *t, enum source_split split, const struct evaluation *e) {
    double value;
    const char *official = evaluation_official(t, e, &value);
    log_info("eval %s: epoch %llu, step %llu: loss %.4f, %s %.4f, %s %.4f", split_names[split],
             (unsigned long long)e->epoch, (unsigned long long)e->step, e->loss, official, value,
             has_spans(t) ? "exact match" : "accuracy", has_spans(t) ? squad_value(e, true) : e->metrics.accuracy);
    event_begin(&t->events, "eval");
    event_string(&t->events, "split", split_names[split]);
    event_integer(&t->events, "epoch", (int64_t)e->epoch);
    event_integer(&t->events, "step", (int64_t)e->step);
    text_puts(&t->events.line, ", ");
    evaluation_print(&t->events.line, t, e);
    TRY(event_end(&t->events));
    return evaluation_board(t, split, e);
}
