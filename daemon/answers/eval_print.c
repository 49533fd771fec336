// SPDX-License-Identifier: Apache-2.0
// Metrics of `finetuned eval`: a table, or the keys of an `eval` event.
#include "daemon/answers/eval.h"

#include "base/log.h"
#include "train/events.h"

#include <math.h>

static void print_table(const struct eval_data *data, const struct metrics *m, double loss, enum metric official) {
    printf("%s: %s %.6f\nloss %.6f  accuracy %.6f  macro F1 %.6f  macro recall %.6f  texts %llu\n\n", data->name,
           metric_name(official), metric_value(m, official), loss, m->accuracy, m->macro_f1, m->macro_recall,
           (unsigned long long)m->examples);
    printf("%-20s %9s %9s %9s %9s\n", "label", "precision", "recall", "f1", "support");
    for (uint32_t c = 0; c < m->classes; c++)
        printf("%-20s %9.6f %9.6f %9.6f %9llu\n", data->names.names[c], m->per_class[c].precision,
               m->per_class[c].recall, m->per_class[c].f1, (unsigned long long)m->per_class[c].support);
}

void eval_print_head(struct text *text, const struct eval_flags *f, const struct origin *origin) {
    text_puts(text, "\"split\": ");
    if (f->file) {
        text_puts(text, "null, \"file\": ");
        json_string_add(text, f->file);
    } else {
        json_string_add(text, split_names[f->split]);
    }
    if (origin->known)
        text_printf(text, ", \"epoch\": %llu, \"step\": %llu, ", (unsigned long long)origin->epoch,
                    (unsigned long long)origin->step);
    else
        text_puts(text, ", \"epoch\": null, \"step\": null, ");
}

// `metrics` NULL: there are none.
static enum status print_json(const struct eval_flags *f, const struct eval_data *data, const struct metrics *metrics,
                              double loss) {
    struct text text = {0};
    text_puts(&text, "{");
    eval_print_head(&text, f, &data->origin);
    if (data->labelled < data->source.n)
        text_printf(&text, "\"unlabelled\": %zu, ", data->source.n - data->labelled);
    text_puts(&text, "\"loss\": ");
    if (metrics) {
        json_number_add(&text, loss);
        text_puts(&text, ", ");
        evaluate_print(&text, metrics, metric_official(data->task), &data->names);
    } else {
        text_puts(&text, "null, \"official\": null");
    }
    text_puts(&text, "}");
    enum status status = text_string(&text) ? STATUS_OK : status_set(STATUS_SYSTEM, "eval: no memory");
    if (status == STATUS_OK)
        puts(text_string(&text));
    text_release(&text);
    return status;
}

enum status eval_print(const struct eval_flags *f, const struct eval_data *data, const struct answer *answers) {
    struct metrics metrics;
    double loss;
    if (data->labelled == 0) {
        log_info("eval: %s: no text has a label: answers, but no metrics", data->name);
        return f->json ? print_json(f, data, NULL, 0) : STATUS_OK;
    }
    if (data->labelled < data->source.n)
        log_warn("eval: %s: %zu of %zu texts have no label and are not scored", data->name,
                 data->source.n - data->labelled, data->source.n);
    struct answer *renamed = calloc(data->source.n, sizeof *renamed);
    if (!renamed)
        return status_set(STATUS_SYSTEM, "eval: no memory");
    for (size_t i = 0; i < data->source.n; i++)
        renamed[i] = (struct answer){answers[i].loss, data->ids[answers[i].predicted],
                                     answers[i].gold >= 0 ? data->ids[answers[i].gold] : -1};
    enum status status = evaluate_metrics(&metrics, &loss, renamed, (uint32_t)data->source.n, data->names.n);
    if (status == STATUS_OK) {
        if (!isfinite(loss))
            log_warn("eval: %s: the loss is not finite: the model answers some texts with logits that are not numbers",
                     data->name);
        if (f->json)
            status = print_json(f, data, &metrics, loss);
        else
            print_table(data, &metrics, loss, metric_official(data->task));
        metrics_close(&metrics);
    }
    free(renamed);
    return status;
}
