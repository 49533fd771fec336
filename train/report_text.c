// SPDX-License-Identifier: Apache-2.0
#include "train/report_text.h"

#include "base/file.h"
#include "base/markup.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

const json_t *report_at(const json_t *report, ...) {
    va_list keys;
    va_start(keys, report);
    for (const char *key; report && (key = va_arg(keys, const char *));)
        report = json_object_get(report, key);
    va_end(keys);
    return report;
}

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static long long count(const json_t *object, const char *key) {
    return (long long)json_integer_value(json_object_get(object, key));
}

static const char *word(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

static void number_add(struct text *out, const char *format, double value) {
    if (isfinite(value))
        text_printf(out, format, value);
    else
        text_puts(out, "–");
}

#define REPORT_MAX ((size_t)1 << 26) // bytes of a report.json

enum status report_read(json_t **out, const char *folder) {
    json_error_t error;
    char *path = path_join(folder, "report.json"), *bytes = NULL;
    size_t size;
    enum status status =
        path ? file_read(&bytes, &size, path, REPORT_MAX) : status_set(STATUS_SYSTEM, "report: no memory");
    *out = status == STATUS_OK ? json_loadb(bytes, size, 0, &error) : NULL;
    if (status == STATUS_OK && !*out)
        status = status_set(STATUS_DATA, "%s:%d: not valid JSON: %s", path, error.line, error.text);
    else if (status == STATUS_OK && !json_is_object(*out))
        status = status_set(STATUS_DATA, "%s: not a JSON object", path);
    if (status != STATUS_OK) {
        json_decref(*out);
        *out = NULL;
    }
    free(bytes);
    free(path);
    return status;
}

// ---- a split

static void split_classes(struct text *out, const json_t *classes) {
    size_t i;
    json_t *c;
    text_puts(out, "\n| label | precision | recall | F1 | support |\n| --- | ---: | ---: | ---: | ---: |\n");
    json_array_foreach(classes, i, c) {
        text_puts(out, "| ");
        markdown_cell_add(out, word(c, "label"));
        text_printf(out, " | %.4f | %.4f | %.4f | %lld |\n", number(c, "precision"), number(c, "recall"),
                    number(c, "f1"), count(c, "support"));
    }
}

static void split_confusion(struct text *out, const json_t *rows, const json_t *classes) {
    size_t i, k;
    json_t *row, *cell;
    text_puts(out, "\nConfusion matrix (rows: gold, columns: predicted)\n\n| |");
    for (i = 0; i < json_array_size(classes); i++) {
        text_puts(out, " ");
        markdown_cell_add(out, word(json_array_get(classes, i), "label"));
        text_puts(out, " |");
    }
    text_puts(out, "\n| --- |");
    for (i = 0; i < json_array_size(classes); i++)
        text_puts(out, " ---: |");
    json_array_foreach(rows, i, row) {
        text_puts(out, "\n| ");
        markdown_cell_add(out, word(json_array_get(classes, i), "label"));
        text_puts(out, " |");
        json_array_foreach(row, k, cell) text_printf(out, " %lld |", (long long)json_integer_value(cell));
    }
    text_puts(out, "\n");
}

// A score of 1 is written as an integer too.
bool report_is_count(const char *key) {
    return strcmp(key, "examples") == 0 || strcmp(key, "questions") == 0;
}

// Question answering: an example is a window.
static bool split_is_questions(const json_t *split) {
    return json_is_number(json_object_get(split, "questions"));
}

// Every number of the split, whichever its head has: "loss 0.4312, accuracy 0.8911, 1421 examples".
static void split_line(struct text *out, const json_t *split) {
    const char *key, *comma = "";
    bool questions = split_is_questions(split);
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)split, key, value) {
        if (!json_is_number(value))
            continue;
        if (report_is_count(key))
            text_printf(out, "%s%lld %s", comma, (long long)json_integer_value(value),
                        questions && strcmp(key, "examples") == 0 ? "windows" : key);
        else
            text_printf(out, "%s%s %.4f", comma, key, json_number_value(value));
        comma = ", ";
    }
    text_puts(out, "\n");
}

// Questions with an answer and without one, where the data has both kinds.
static void split_questions(struct text *out, const json_t *split) {
    static const char *const keys[] = {"has_answer", "no_answer"}, *const names[] = {"with an answer", "without"};
    if (!json_is_object(json_object_get(split, keys[0])))
        return;
    text_puts(out, "\n| questions | em | f1 | number |\n| --- | ---: | ---: | ---: |\n");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *sum = json_object_get(split, keys[i]);
        text_printf(out, "| %s | %.4f | %.4f | %lld |\n", names[i], number(sum, "em"), number(sum, "f1"),
                    count(sum, "questions"));
    }
}

void report_scores(struct text *out, const json_t *split) {
    const json_t *official = json_object_get(split, "official");
    const char *key;
    json_t *value;
    text_printf(out, "%s ", word(official, "name"));
    number_add(out, "%.4f", number(official, "value"));
    json_object_foreach((json_t *)(uintptr_t)split, key, value) {
        if (json_is_number(value) && !report_is_count(key) && strcmp(key, "loss") != 0 &&
            strcmp(key, word(official, "name")))
            text_printf(out, ", %s %.4f", key, json_number_value(value));
    }
}

void report_split_markdown(struct text *out, const char *marks, const char *name, const json_t *split) {
    const json_t *official = json_object_get(split, "official"), *classes = json_object_get(split, "per_class");
    if (!json_is_object(split)) {
        text_printf(out, "\n%s %s: none\n\nThe data has no %s split.\n", marks, name, name);
        return;
    }
    text_printf(out, "\n%s %s: %s ", marks, name, word(official, "name"));
    number_add(out, "%.4f", number(official, "value"));
    text_puts(out, "\n\n");
    split_line(out, split);
    split_questions(out, split);
    if (!json_is_array(classes))
        return;
    split_classes(out, classes);
    split_confusion(out, json_object_get(split, "confusion"), classes);
}

// ---- the head of the report

static void row_add(struct text *out, const char *name, const char *value) {
    if (!*value)
        return;
    text_printf(out, "| %s | ", name);
    markdown_cell_add(out, value);
    text_puts(out, " |\n");
}

static void counted_add(struct text *out, long long n, const char *what) {
    text_printf(out, "%lld %s%s", n, what, n == 1 ? "" : "s");
}

static void head_speed(struct text *out, const json_t *report) {
    const json_t *times = json_object_get(report, "timings");
    static const struct {
        const char *key, *name;
    } parts[] = {{"train_s", "training"},
                 {"evaluate_s", "evaluating"},
                 {"save_s", "saving"},
                 {"export_s", "exporting"},
                 {"tokenise_s", "tokenising"}};
    if (!json_is_object(times))
        return;
    text_puts(out, "| this start |");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        text_printf(out, "%s %s ", i ? "," : "", parts[i].name);
        number_add(out, "%.1f s", number(times, parts[i].key));
    }
    text_printf(out, "; %lld steps |\n| all starts | ", count(times, "steps"));
    text_printf(out, "%lld, ", count(times, "starts"));
    number_add(out, "%.1f s", number(times, "all_starts_s"));
    text_puts(out, " |\n| speed in training | ");
    number_add(out, "%.1f examples/s, ", number(times, "tweets_per_s"));
    number_add(out, "%.0f tokens/s", number(times, "tokens_per_s"));
    text_puts(out, " |\n");
}

static void head_memory(struct text *out, const json_t *report) {
    const json_t *memory = json_object_get(report, "memory");
    double mib = 1.0 / 1048576;
    if (!json_is_object(memory))
        return;
    text_printf(out,
                "| memory | at most %.0f MiB in a rank, %.0f MiB in all; of a rank: weights and moments %.1f MiB, "
                "gradients %.1f MiB, activations at most %.1f MiB |\n",
                number(memory, "rss_max_bytes") * mib, number(memory, "rss_sum_bytes") * mib,
                number(memory, "weights_and_moments_bytes") * mib, number(memory, "gradients_bytes") * mib,
                number(memory, "activations_bytes") * mib);
}

static void head_provenance(struct text *out, const json_t *report) {
    const json_t *from = json_object_get(report, "provenance");
    text_printf(out, "| ran from | %s to %s |\n| version | finetuned %s, %s, %s, %s |\n", word(from, "started"),
                word(from, "ended"), word(report, "version"), word(from, "compiler"), word(from, "mpi"),
                word(from, "hdf5"));
    row_add(out, "processor", word(from, "cpu"));
    row_add(out, "import", word(from, "import"));
    row_add(out, "run id", word(report, "run_id"));
    row_add(out, "config hash", word(report, "config_hash"));
    row_add(out, "data hash", word(report, "data_hash"));
    row_add(out, "base hash", word(report, "base_hash"));
}

static void markdown_head(struct text *out, const json_t *report) {
    const json_t *n = json_object_get(report, "examples");
    bool questions = split_is_questions(json_object_get(report, "val"));
    text_puts(out, "# ");
    markdown_cell_add(out, word(report, "job"));
    text_puts(out, ": ");
    markdown_cell_add(out, word(report, "task"));
    text_printf(out, "\n\nBest model of step %lld (epoch %lld) of %lld steps.\n\n| | |\n| --- | --- |\n",
                count(report, "best_step"), count(report, "best_epoch"), count(report, "steps"));
    row_add(out, "base", word(report, "base"));
    text_puts(out, "| data | ");
    markdown_cell_add(out, word(report, "task"));
    text_printf(out, ": %lld train, %lld val, %lld test%s", count(n, "train"), count(n, "val"), count(n, "test"),
                questions ? " windows" : "");
    if (count(report, "shared_texts"))
        text_printf(out, "; %lld %s of test stand in train too", count(report, "shared_texts"),
                    questions ? "questions" : "texts");
    text_puts(out, " |\n");
    text_printf(out, "| seed | %llu |\n", (unsigned long long)json_integer_value(json_object_get(report, "seed")));
    text_puts(out, "| world | ");
    counted_add(out, count(report, "world"), "rank");
    text_puts(out, " × ");
    counted_add(out, count(report, "threads"), "thread");
    text_puts(out, " on ");
    counted_add(out, count(json_object_get(report, "provenance"), "hosts"), "host");
    text_printf(out, ", %s, %s kernels, ", word(report, "precision"), word(report, "isa"));
    counted_add(out, count(report, "parts"), "part");
    text_puts(out, " |\n");
    head_speed(out, report);
    head_memory(out, report);
    head_provenance(out, report);
}

// ---- best and last, settings, evaluations

static void compare_row(struct text *out, const char *split, const char *key, double best, double last) {
    text_printf(out, "| %s %s | ", split, key);
    number_add(out, "%.4f", best);
    text_puts(out, " | ");
    number_add(out, "%.4f", last);
    text_puts(out, " |\n");
}

static void compare_split(struct text *out, const char *name, const json_t *best, const json_t *last) {
    const char *key;
    json_t *value;
    if (!json_is_object(best))
        return;
    json_object_foreach((json_t *)(uintptr_t)best, key, value) {
        if (json_is_number(value) && !report_is_count(key))
            compare_row(out, name, key, json_number_value(value), number(last, key));
    }
}

static void markdown_last(struct text *out, const json_t *report) {
    const json_t *last = json_object_get(report, "last");
    if (!json_is_object(last))
        return;
    text_printf(out, "\n## Best and last model\n\n| | best, step %lld | last, step %lld |\n| --- | ---: | ---: |\n",
                count(report, "best_step"), count(last, "step"));
    compare_split(out, "test", json_object_get(report, "test"), json_object_get(last, "test"));
    compare_split(out, "val", json_object_get(report, "val"), json_object_get(last, "val"));
}

void report_keys_markdown(struct text *out, const json_t *keys) {
    const char *key;
    json_t *value;
    text_puts(out, "| key | value |\n| --- | --- |\n");
    json_object_foreach((json_t *)(uintptr_t)keys, key, value) {
        text_puts(out, "| ");
        markdown_cell_add(out, key);
        text_puts(out, " | ");
        markdown_cell_add(out, json_is_string(value) ? json_string_value(value) : "");
        text_puts(out, " |\n");
    }
}

void report_history_markdown(struct text *out, const json_t *history) {
    size_t i;
    json_t *e;
    if (json_array_size(history) == 0)
        return;
    text_printf(out, "\n## Evaluations on val\n\n| epoch | step | loss | %s |\n| ---: | ---: | ---: | ---: |\n",
                word(json_object_get(json_array_get(history, 0), "official"), "name"));
    json_array_foreach(history, i, e) {
        text_printf(out, "| %lld | %lld | ", count(e, "epoch"), count(e, "step"));
        number_add(out, "%.4f", number(e, "loss"));
        text_puts(out, " | ");
        number_add(out, "%.4f", number(json_object_get(e, "official"), "value"));
        text_puts(out, " |\n");
    }
}

void report_markdown(struct text *out, const json_t *report) {
    const json_t *settings = json_object_get(report, "settings");
    markdown_head(out, report);
    report_split_markdown(out, "##", "test", json_object_get(report, "test"));
    report_split_markdown(out, "##", "val", json_object_get(report, "val"));
    markdown_last(out, report);
    report_history_markdown(out, json_object_get(report, "history"));
    if (json_object_size(settings)) {
        text_puts(out, "\n## Settings that are not the defaults\n\n");
        report_keys_markdown(out, settings);
    }
}
