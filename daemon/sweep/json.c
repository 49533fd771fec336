// SPDX-License-Identifier: Apache-2.0
// sweep.json. Rates and seeds stand there as the job file has them; there is no time in it, so that a sweep that is
// started again when all is done writes the same bytes.
#include "daemon/sweep/sweep.h"

#include "base/markup.h"
#include "data/source.h"

#include <inttypes.h>
#include <math.h>

static void number_add(struct text *json, const char *key, double value) {
    text_printf(json, ", \"%s\": ", key);
    json_number_add(json, value);
}

static void spread_add(struct text *json, const struct spread *s) {
    if (s->n == 0) {
        text_puts(json, "null");
        return;
    }
    text_printf(json, "{\"n\": %zu", s->n);
    number_add(json, "mean", s->mean);
    number_add(json, "sd", s->sd);
    number_add(json, "min", s->least);
    number_add(json, "max", s->most);
    text_puts(json, "}");
}

static void paired_add(struct text *json, const struct paired *p) {
    if (p->difference.n == 0) {
        text_puts(json, "null");
        return;
    }
    text_printf(json, "{\"n\": %zu", p->difference.n);
    number_add(json, "mean", p->difference.mean);
    number_add(json, "sd", p->difference.sd);
    number_add(json, "se", p->error);
    text_printf(json, ", \"wins\": %zu, \"losses\": %zu, \"ties\": %zu}", p->wins, p->losses, p->ties);
}

// ---- tasks

static void rate_add(struct text *json, const struct sweep *s, size_t task, size_t rate) {
    struct sweep_row row = sweep_row(s, task, rate);
    text_printf(json, "%s\n      {\"lr\": %s, \"done\": %zu, \"diverged\": %zu, \"waiting\": %zu", rate ? "," : "",
                s->rates.at[rate], row.cells[SWEEP_DONE], row.cells[SWEEP_DIVERGED], row.cells[SWEEP_WAITS]);
    text_puts(json, ",\n       \"val\": ");
    spread_add(json, &row.scores[SWEEP_VAL]);
    text_puts(json, ",\n       \"test\": ");
    spread_add(json, &row.scores[SWEEP_TEST]);
    text_puts(json, ",\n       \"last\": {\"val\": ");
    spread_add(json, &row.scores[SWEEP_LAST_VAL]);
    text_puts(json, ",\n                \"test\": ");
    spread_add(json, &row.scores[SWEEP_LAST_TEST]);
    text_puts(json, "}}");
}

static void pairs_add(struct text *json, const struct sweep *s, size_t task) {
    const char *comma = "";
    for (size_t a = 0; a < s->rates.n; a++)
        for (size_t b = a + 1; b < s->rates.n; b++) {
            struct paired val = sweep_pair(s, task, a, b, SWEEP_VAL), test = sweep_pair(s, task, a, b, SWEEP_TEST);
            text_printf(json, "%s\n      {\"a\": %s, \"b\": %s,\n       \"val\": ", comma, s->rates.at[a],
                        s->rates.at[b]);
            paired_add(json, &val);
            text_puts(json, ",\n       \"test\": ");
            paired_add(json, &test);
            text_puts(json, "}");
            comma = ",";
        }
}

static void task_add(struct text *json, const struct sweep *s, size_t task) {
    size_t best = sweep_best(s, task);
    const char *metric = sweep_metric(s, task);
    text_printf(json, "%s\n    {\"task\": ", task ? "," : "");
    json_string_add(json, s->tasks.at[task]);
    text_puts(json, ", \"metric\": ");
    if (*metric)
        json_string_add(json, metric);
    else
        text_puts(json, "null");
    text_printf(json, ", \"data_hash\": \"%s\", \"best_rate\": %s,\n     \"rates\": [", s->facts[task].hash,
                best == SIZE_MAX ? "null" : s->rates.at[best]);
    for (size_t rate = 0; rate < s->rates.n; rate++)
        rate_add(json, s, task, rate);
    text_puts(json, "],\n     \"pairs\": [");
    pairs_add(json, s, task);
    text_puts(json, "]}");
}

// ---- the rest

static void total_add(struct text *json, const struct sweep *s) {
    double total;
    if (s->job->data.format != JOB_TWEET_EVAL) {
        text_puts(json, "null");
        return;
    }
    bool all = sweep_total(&total, NULL, s);
    text_puts(json, "{\"total\": ");
    json_number_add(json, all ? total : (double)NAN);
    text_puts(json, ", \"missing\": [");
    const char *comma = "";
    for (size_t i = 0; tweet_eval_tasks[i]; i++) {
        if (!isnan(sweep_part(s, tweet_eval_tasks[i])))
            continue;
        text_printf(json, "%s\"%s\"", comma, tweet_eval_tasks[i]);
        comma = ", ";
    }
    text_puts(json, "]}");
}

static void cell_scores(struct text *json, const struct sweep_cell *cell) {
    text_printf(json, ", \"best_step\": %" PRIu64, cell->best_step);
    number_add(json, "val", cell->scores[SWEEP_VAL]);
    number_add(json, "test", cell->scores[SWEEP_TEST]);
    text_puts(json, ", \"last\": {\"val\": ");
    json_number_add(json, cell->scores[SWEEP_LAST_VAL]);
    number_add(json, "test", cell->scores[SWEEP_LAST_TEST]);
    text_puts(json, "}");
}

static void cell_add(struct text *json, const struct sweep *s, const struct sweep_cell *cell) {
    text_puts(json, "{\"task\": ");
    json_string_add(json, s->tasks.at[cell->task]);
    text_printf(json, ", \"lr\": %s, \"seed\": %s, \"folder\": ", s->rates.at[cell->rate], s->seeds.at[cell->seed]);
    json_string_add(json, cell->name);
    text_printf(json, ", \"state\": \"%s\"", sweep_state_names[cell->state]);
    if (cell->state != SWEEP_WAITS)
        text_printf(json, ", \"steps\": %" PRIu64, cell->step);
    if (cell->state == SWEEP_DONE)
        cell_scores(json, cell);
    if (cell->trouble) {
        text_puts(json, ", \"trouble\": ");
        json_string_add(json, cell->trouble);
    }
    text_puts(json, "}");
}

void sweep_print_json(struct text *json, const struct sweep *s) {
    text_puts(json, "{\n  \"job\": ");
    json_string_add(json, s->job->job);
    text_puts(json, ",\n  \"base\": ");
    json_string_add(json, s->cells[0].job->model.base);
    text_printf(json, ",\n  \"base_hash\": \"%s\",\n  \"version\": \"%s\",\n  \"complete\": %s,\n  \"tasks\": [",
                s->base_hash, FINETUNED_VERSION, sweep_count(s, SWEEP_WAITS) ? "false" : "true");
    for (size_t task = 0; task < s->tasks.n; task++)
        task_add(json, s, task);
    text_puts(json, "],\n  \"tweet_eval\": ");
    total_add(json, s);
    text_puts(json, ",\n  \"cells\": [");
    for (size_t i = 0; i < s->n; i++) {
        text_puts(json, i ? ",\n    " : "\n    ");
        cell_add(json, s, &s->cells[i]);
    }
    text_puts(json, "],\n  \"others\": [");
    for (size_t i = 0; i < s->others.n; i++) {
        text_puts(json, i ? ", " : "");
        json_string_add(json, s->others.at[i]);
    }
    text_puts(json, "]\n}\n");
}
