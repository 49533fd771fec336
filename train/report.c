// SPDX-License-Identifier: Apache-2.0
// report.json and report.md: what came of the run, for machines and for people.
#include "train/evaluate.h"
#include "train/trainer.h"

#include "base/file.h"

static void markdown_class(struct text *md, const struct metrics *m, const struct labels *labels, uint32_t c) {
    const struct class_scores *s = &m->per_class[c];
    text_printf(md, "| %s | %.4f | %.4f | %.4f | %llu |\n", labels->names[c], s->precision, s->recall, s->f1,
                (unsigned long long)s->support);
}

static void markdown_confusion(struct text *md, const struct metrics *m, const struct labels *labels) {
    text_puts(md, "\nConfusion matrix (rows: gold, columns: predicted)\n\n| |");
    for (uint32_t c = 0; c < m->classes; c++)
        text_printf(md, " %s |", labels->names[c]);
    text_puts(md, "\n| --- |");
    for (uint32_t c = 0; c < m->classes; c++)
        text_puts(md, " ---: |");
    for (uint32_t gold = 0; gold < m->classes; gold++) {
        text_printf(md, "\n| %s |", labels->names[gold]);
        for (uint32_t c = 0; c < m->classes; c++)
            text_printf(md, " %llu |", (unsigned long long)m->confusion[gold * m->classes + c]);
    }
    text_puts(md, "\n");
}

static void markdown_split(struct text *md, const char *split, const struct metrics *m, double loss,
                           enum metric official, const struct labels *labels) {
    text_printf(md, "\n## %s: %s %.4f\n\nloss %.4f, accuracy %.4f, macro F1 %.4f, macro recall %.4f, %llu texts\n\n",
                split, metric_name(official), metric_value(m, official), loss, m->accuracy, m->macro_f1,
                m->macro_recall, (unsigned long long)m->examples);
    text_puts(md, "| label | precision | recall | F1 | support |\n| --- | ---: | ---: | ---: | ---: |\n");
    for (uint32_t c = 0; c < m->classes; c++)
        markdown_class(md, m, labels, c);
    markdown_confusion(md, m, labels);
}

static void json_split(struct text *json, const char *split, const struct metrics *m, double loss, enum metric official,
                       const struct labels *labels) {
    text_printf(json, ",\n  \"%s\": {\"loss\": ", split);
    json_number_add(json, loss);
    text_puts(json, ", ");
    evaluate_print(json, m, official, labels);
    text_puts(json, "}");
}

static void json_provenance(struct text *json, const struct trainer *t) {
    text_puts(json, "{\n  \"job\": ");
    json_string_add(json, t->job->job);
    text_puts(json, ",\n  \"task\": ");
    json_string_add(json, t->job->data.task);
    text_puts(json, ",\n  \"base\": ");
    json_string_add(json, t->job->model.base);
    text_printf(json,
                ",\n  \"version\": \"%s\",\n  \"run_id\": \"%s\",\n  \"config_hash\": \"%s\",\n  \"data_hash\": "
                "\"%s\",\n  \"base_hash\": \"%s\""
                ",\n  \"seed\": %llu,\n  \"world\": %d,\n  \"threads\": %u,\n  \"precision\": \"%s\",\n  \"isa\": "
                "\"%s\",\n  \"parts\": %u"
                ",\n  \"steps\": %llu,\n  \"epochs\": %llu,\n  \"best_step\": %llu,\n  \"train_seconds\": %.3f,\n  "
                "\"shared_texts\": %u",
                FINETUNED_VERSION, t->state.run_id, t->state.config_hash, t->state.data_hash, t->state.base_hash,
                (unsigned long long)t->state.seed, t->comm->world, pool_threads(t->pool), t->state.precision,
                isa_name(t->ops->isa), t->plan.parts, (unsigned long long)t->state.step,
                (unsigned long long)t->state.epoch, (unsigned long long)t->state.best_step, t->trained_s,
                t->inputs.shared_texts);
}

static void markdown_provenance(struct text *md, const struct trainer *t) {
    text_printf(md, "# %s: %s\n\nBest model of step %llu (epoch %llu) of %llu steps.\n\n", t->job->job,
                t->job->data.task, (unsigned long long)t->weights_step, (unsigned long long)t->weights_epoch,
                (unsigned long long)t->state.step);
    text_printf(md,
                "| | |\n| --- | --- |\n| base | %s |\n| data | %s, %u train, %u val, %u test |\n| seed | %llu |\n| "
                "world | %d ranks × %u threads, "
                "%s, %s kernels |\n| trained | %.1f s in this start |\n| version | finetuned %s |\n| config hash | %s "
                "|\n| data hash | %s |\n",
                t->job->model.base, t->job->data.task, t->inputs.shards[SPLIT_TRAIN].n, t->inputs.shards[SPLIT_VAL].n,
                t->inputs.shards[SPLIT_TEST].n, (unsigned long long)t->state.seed, t->comm->world,
                pool_threads(t->pool), t->state.precision, isa_name(t->ops->isa), t->trained_s, FINETUNED_VERSION,
                t->state.config_hash, t->state.data_hash);
    if (*t->base_note)
        text_printf(md, "| import | %s |\n", t->base_note);
}

static enum status report_put(const struct trainer *t, const char *name, struct text *text) {
    char *path = path_join(t->job->out, name);
    enum status status = path && text_string(text) ? file_replace(path, text_string(text), text->size)
                                                   : status_set(STATUS_SYSTEM, "report: no memory");
    free(path);
    text_release(text);
    return status;
}

enum status report_write(struct trainer *t) {
    enum metric official = metric_official(t->job->data.task);
    struct text md = {0}, json = {0};
    markdown_provenance(&md, t);
    markdown_split(&md, "test", &t->best[SPLIT_TEST].metrics, t->best[SPLIT_TEST].loss, official, &t->inputs.labels);
    markdown_split(&md, "val", &t->best[SPLIT_VAL].metrics, t->best[SPLIT_VAL].loss, official, &t->inputs.labels);
    json_provenance(&json, t);
    json_split(&json, "val", &t->best[SPLIT_VAL].metrics, t->best[SPLIT_VAL].loss, official, &t->inputs.labels);
    json_split(&json, "test", &t->best[SPLIT_TEST].metrics, t->best[SPLIT_TEST].loss, official, &t->inputs.labels);
    text_puts(&json, "\n}\n");
    if (t->comm->rank != 0) {
        text_release(&md);
        text_release(&json);
        return STATUS_OK;
    }
    enum status status = report_put(t, "report.json", &json);
    return status == STATUS_OK ? report_put(t, "report.md", &md) : (text_release(&md), status);
}
