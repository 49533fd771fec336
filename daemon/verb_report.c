// SPDX-License-Identifier: Apache-2.0
// finetuned report DIR [DIR]: a run's report, or two side by side with what differs in their jobs.
#include "daemon/verbs.h"

#include "base/markup.h"
#include "daemon/run/folder.h"
#include "train/report_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status report_print(json_t *json, const struct text *text) {
    char *line = json ? json_dumps(json, JSON_REAL_PRECISION(9)) : NULL;
    enum status status = STATUS_OK;
    if (json && line)
        puts(line);
    else if (!json && text_string(text))
        fputs(text_string(text), stdout);
    else
        status = status_set(STATUS_SYSTEM, "report: no memory");
    free(line);
    return status;
}

static enum status report_one(const char *path, bool json) {
    struct run_folder run;
    struct text text = {0};
    TRY(run_folder_open(&run, path));
    json_t *object = json ? run_folder_json(&run) : NULL;
    if (!json)
        run_folder_markdown(&text, &run);
    enum status status = report_print(object, &text);
    json_decref(object);
    text_release(&text);
    run_folder_close(&run);
    return status;
}

// ---- two runs

// A question answering model's loss is not a classifier's.
static bool scores_alike(const json_t *a, const json_t *b) {
    return !json_object_get(a, "em") == !json_object_get(b, "em");
}

// [{"split", "name", "a", "b", "difference"}]: every score that one of them has.
static void scores_compare(json_t *list, const char *split, const json_t *a, const json_t *b) {
    const json_t *sides[2] = {a, b};
    const char *name;
    json_t *value;
    for (int side = 0; side < 2; side++)
        json_object_foreach((json_t *)(uintptr_t)sides[side], name, value) {
            const json_t *x = json_object_get(a, name), *y = json_object_get(b, name);
            if ((side == 1 && x) || report_is_count(name))
                continue; // it is there already, or no score
            json_t *difference =
                x && y && scores_alike(a, b) ? json_real(json_number_value(y) - json_number_value(x)) : json_null();
            json_array_append_new(list, json_pack("{s:s, s:s, s:O?, s:O?, s:o}", "split", split, "name", name, "a", x,
                                                  "b", y, "difference", difference));
        }
}

// F1 by class, by the labels' names.
static json_t *class_scores(const struct run_folder *run, const char *split) {
    json_t *scores = json_object(), *c;
    size_t i;
    json_array_foreach(run->finished ? report_at(run->report, split, "per_class", NULL) : NULL, i, c) {
        const char *label = json_string_value(json_object_get(c, "label"));
        char *name = label ? text_format("F1 of %s", label) : NULL;
        if (name && json_is_number(json_object_get(c, "f1")))
            json_object_set(scores, name, json_object_get(c, "f1"));
        free(name);
    }
    return scores;
}

static json_t *runs_scores(const struct run_folder *a, const struct run_folder *b) {
    static const char *const splits[] = {"test", "val"};
    json_t *list = json_array();
    for (int i = 0; i < 2; i++) {
        json_t *of[] = {run_folder_scores(a, splits[i]), run_folder_scores(b, splits[i]), class_scores(a, splits[i]),
                        class_scores(b, splits[i])};
        scores_compare(list, splits[i], of[0], of[1]);
        scores_compare(list, splits[i], of[2], of[3]);
        for (int k = 0; k < 4; k++)
            json_decref(of[k]);
    }
    return list;
}

// Numbers of a report that are no scores: where they are, and under which names and in what unit they are shown.
static json_t *run_costs(const struct run_folder *run) {
    static const struct {
        const char *section, *key, *name;
        double unit;
    } costs[] = {{"timings", "train_s", "train_s", 1},
                 {"timings", "evaluate_s", "evaluate_s", 1},
                 {"timings", "save_s", "save_s", 1},
                 {"timings", "all_starts_s", "all_starts_s", 1},
                 {"timings", "tweets_per_s", "tweets_per_s", 1},
                 {"timings", "tokens_per_s", "tokens_per_s", 1},
                 {"memory", "rss_max_bytes", "rss_max_mib", 1048576},
                 {"memory", "rss_sum_bytes", "rss_sum_mib", 1048576}};
    json_t *list = json_object();
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
        const json_t *value = report_at(run->report, costs[i].section, costs[i].key, NULL);
        if (json_is_number(value))
            json_object_set_new(list, costs[i].name, json_real(json_number_value(value) / costs[i].unit));
    }
    return list;
}

static json_t *runs_costs(const struct run_folder *a, const struct run_folder *b) {
    json_t *list = json_array(), *one = run_costs(a), *two = run_costs(b);
    scores_compare(list, "", one, two);
    json_decref(one);
    json_decref(two);
    return list;
}

static void job_difference(json_t *list, const char *key, const char *a, const char *b) {
    if (strcmp(a ? a : "", b ? b : "") != 0)
        json_array_append_new(list, json_pack("{s:s, s:s?, s:s?}", "key", key, "a", a, "b", b));
}

// A text or a number of the report; malloc'ed, NULL: it has none.
static char *report_word(const json_t *report, const char *key) {
    const json_t *value = json_object_get(report, key);
    if (json_is_integer(value))
        return text_format("%lld", (long long)json_integer_value(value));
    return json_is_string(value) ? strdup(json_string_value(value)) : NULL;
}

// Keys whose values differ, and what the job does not say of how it was started; those that only follow from `out`,
// which always differs, are left out.
static json_t *runs_jobs(const struct run_folder *a, const struct run_folder *b) {
    static const char *const content[] = {"world", "isa", "data_hash", "base_hash", "version"};
    json_t *list = json_array();
    for (size_t i = 0; job_key(i) && a->job && b->job; i++) {
        if (strcmp(job_key(i), "out") == 0 || (job_key_is_default(a->job, i) && job_key_is_default(b->job, i)))
            continue;
        char *x = job_value(a->job, job_key(i)), *y = job_value(b->job, job_key(i));
        job_difference(list, job_key(i), x, y);
        free(x);
        free(y);
    }
    for (size_t i = 0; a->report && b->report && i < sizeof content / sizeof *content; i++) {
        char *x = report_word(a->report, content[i]), *y = report_word(b->report, content[i]);
        job_difference(list, content[i], x, y);
        free(x);
        free(y);
    }
    return list;
}

static void cell_number(struct text *out, const json_t *value, const char *format) {
    text_puts(out, " | ");
    if (json_is_number(value))
        text_printf(out, format, json_number_value(value));
    else
        text_puts(out, "–");
}

static void rows_markdown(struct text *out, const json_t *list, const char *value, const char *difference) {
    size_t i;
    json_t *row;
    json_array_foreach(list, i, row) {
        const char *split = json_string_value(json_object_get(row, "split"));
        text_printf(out, "| %s%s", split, *split ? " " : "");
        markdown_cell_add(out, json_string_value(json_object_get(row, "name")));
        cell_number(out, json_object_get(row, "a"), value);
        cell_number(out, json_object_get(row, "b"), value);
        cell_number(out, json_object_get(row, "difference"), difference);
        text_puts(out, " |\n");
    }
}

static void jobs_markdown(struct text *out, const json_t *list) {
    size_t i;
    json_t *row;
    text_puts(out, "\n## What differs in their jobs\n\n");
    if (json_array_size(list) == 0)
        text_puts(out, "Nothing.\n");
    else
        text_puts(out, "| key | a | b |\n| --- | --- | --- |\n");
    json_array_foreach(list, i, row) {
        const char *a = json_string_value(json_object_get(row, "a")), *b = json_string_value(json_object_get(row, "b"));
        text_printf(out, "| %s | ", json_string_value(json_object_get(row, "key")));
        markdown_cell_add(out, a ? a : "");
        text_puts(out, " | ");
        markdown_cell_add(out, b ? b : "");
        text_puts(out, " |\n");
    }
}

static void side_markdown(struct text *out, const char *name, const struct run_folder *run) {
    const json_t *p = run->progress;
    text_printf(out, "- %s: ", name);
    markdown_cell_add(out, run->path);
    text_printf(out, ", %s: step %lld of %lld", run->finished ? "finished" : "not finished",
                (long long)json_integer_value(json_object_get(p, "step")),
                (long long)json_integer_value(json_object_get(p, "steps_total")));
    if (run->finished)
        text_printf(out, ", the best model of step %lld",
                    (long long)json_integer_value(json_object_get(run->report, "best_step")));
    text_puts(out, "\n");
}

static void runs_markdown(struct text *out, const struct run_folder *a, const struct run_folder *b,
                          const json_t *compared) {
    text_puts(out, "# Two runs\n\n");
    side_markdown(out, "a", a);
    side_markdown(out, "b", b);
    text_puts(out, "\n| | a | b | b − a |\n| --- | ---: | ---: | ---: |\n");
    rows_markdown(out, json_object_get(compared, "scores"), "%.4f", "%+.4f");
    rows_markdown(out, json_object_get(compared, "costs"), "%.1f", "%+.1f");
    jobs_markdown(out, json_object_get(compared, "job"));
}

static enum status report_two(const char *const paths[2], bool json) {
    struct run_folder a = {0}, b = {0};
    struct text text = {0};
    json_t *compared = NULL;
    enum status status;
    TRY_GOTO(run_folder_open(&a, paths[0]), done);
    TRY_GOTO(run_folder_open(&b, paths[1]), done);
    compared = json_pack("{s:o, s:o, s:o, s:o, s:o}", "a", run_folder_json(&a), "b", run_folder_json(&b), "scores",
                         runs_scores(&a, &b), "costs", runs_costs(&a, &b), "job", runs_jobs(&a, &b));
    if (!compared)
        status = status_set(STATUS_SYSTEM, "report: no memory");
    if (compared && !json)
        runs_markdown(&text, &a, &b, compared);
    if (compared)
        status = report_print(json ? compared : NULL, &text);
done:
    json_decref(compared);
    text_release(&text);
    run_folder_close(&b);
    run_folder_close(&a);
    return status;
}

static bool json;
static const struct flag flags[] = {
    {"--json", FLAG_SWITCH, &json, NULL, "one JSON object on one line", NULL, false},
    FLAGS_END,
};

const struct verb_flags verb_report_flags = {
    .verb = "report",
    .usage = "[--json] DIR [DIR]",
    .about =
        "A run's report: scores of the best and the last model, timings, memory, settings. Of a run that has not "
        "ended: how far it is.\n"
        "Of two runs: their scores side by side, and what differs in their jobs, ranks and data. DIR is a job's `out`.",
    .flags = flags,
    .min_words = 1,
    .max_words = 2,
    .words = "DIR",
};

int verb_report(int argc, char **argv) {
    size_t n;
    bool helped;
    enum status status = flags_parse(&verb_report_flags, argc, argv, argv, &n, &helped);
    if (helped)
        return 0;
    if (status == STATUS_OK)
        status = n == 1 ? report_one(argv[0], json) : report_two((const char *const[2]){argv[0], argv[1]}, json);
    return verb_exit(status);
}
