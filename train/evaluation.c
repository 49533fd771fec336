// SPDX-License-Identifier: Apache-2.0
// What the run's model scores on a split: the one place that knows which scores a head has.
#include "train/evaluate.h"
#include "train/trainer.h"

#include <math.h>

void evaluation_release(struct evaluation *evaluation) {
    metrics_close(&evaluation->metrics);
    *evaluation = (struct evaluation){0};
}

enum status evaluate_split(struct trainer *t, enum source_split split, struct evaluation *out) {
    const struct shard *shard = &t->inputs.shards[split];
    struct evaluator e = {.pass = t->pass,
                          .batch = &t->batch,
                          .weights = t->arenas.weights,
                          .config = &t->inputs.config,
                          .max_tokens = t->batch_tokens,
                          .max_examples = t->batch_examples,
                          .comm = t->comm};
    struct answer *answers;
    double begun = trainer_clock();
    params_current(t->optimizer);
    TRY(evaluate_shard(&answers, &e, shard));
    *out = (struct evaluation){.there = true, .step = t->weights_step, .epoch = t->weights_epoch};
    enum status status = evaluate_metrics(&out->metrics, &out->loss, answers, shard->n, t->inputs.config.labels);
    free(answers);
    t->times.evaluate += trainer_clock() - begun;
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

double evaluate_score(const struct trainer *t, const struct evaluation *e) {
    enum metric metric = job_metric(t);
    return metric == METRIC_LOSS ? -e->loss : metric_value(&e->metrics, metric);
}

const char *evaluation_official(const struct trainer *t, const struct evaluation *e, double *value) {
    enum metric official = metric_official(t->job->data.task);
    *value = e->there ? metric_value(&e->metrics, official) : (double)NAN;
    return metric_name(official);
}

void evaluation_print(struct text *out, const struct trainer *t, const struct evaluation *e) {
    text_puts(out, "\"loss\": ");
    json_number_add(out, e->loss);
    text_puts(out, ", ");
    evaluate_print(out, &e->metrics, metric_official(t->job->data.task), &t->inputs.labels);
}

static enum status evaluation_board(struct trainer *t, enum source_split split, const struct evaluation *e) {
    const struct metrics *m = &e->metrics;
    double official;
    const char *name = evaluation_official(t, e, &official);
    const struct tensorboard_scalar scores[] = {{"loss", e->loss},
                                                {"accuracy", m->accuracy},
                                                {"macro_f1", m->macro_f1},
                                                {"macro_recall", m->macro_recall},
                                                {name, official}};
    size_t n = sizeof scores / sizeof *scores;
    struct tensorboard_scalar scalars[sizeof scores / sizeof *scores];
    char tags[sizeof scores / sizeof *scores][64];
    for (size_t i = 0; i + 1 < n; i++) // the official one may be one of the others
        n -= strcmp(scores[i].tag, name) == 0;
    for (size_t i = 0; i < n; i++) {
        snprintf(tags[i], sizeof tags[i], "eval/%s/%s", split_names[split], scores[i].tag);
        scalars[i] = (struct tensorboard_scalar){tags[i], scores[i].value};
    }
    return tensorboard_write(&t->board, e->step, scalars, n);
}

enum status evaluate_event(struct trainer *t, enum source_split split, const struct evaluation *e) {
    double value;
    const char *official = evaluation_official(t, e, &value);
    log_info("eval %s: epoch %llu, step %llu: loss %.4f, %s %.4f, accuracy %.4f", split_names[split],
             (unsigned long long)e->epoch, (unsigned long long)e->step, e->loss, official, value, e->metrics.accuracy);
    event_begin(&t->events, "eval");
    event_string(&t->events, "split", split_names[split]);
    event_integer(&t->events, "epoch", (int64_t)e->epoch);
    event_integer(&t->events, "step", (int64_t)e->step);
    text_puts(&t->events.line, ", ");
    evaluation_print(&t->events.line, t, e);
    TRY(event_end(&t->events));
    return evaluation_board(t, split, e);
}
