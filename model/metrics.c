// SPDX-License-Identifier: Apache-2.0
// The scores of scikit-learn's classification_report, which TweetEval's official scorer calls.
#include "model/metrics.h"

#include "data/labels.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum status metrics_open(struct metrics *out, uint32_t classes) {
    *out = (struct metrics){.classes = classes};
    if (classes > LABELS_MAX)
        return status_set(STATUS_DATA, "scores: %u classes; %d are the most", classes, LABELS_MAX);
    out->confusion = calloc((size_t)classes * classes + 1, sizeof *out->confusion);
    out->per_class = calloc((size_t)classes + 1, sizeof *out->per_class);
    if (out->confusion && out->per_class)
        return STATUS_OK;
    metrics_close(out);
    return status_set(STATUS_SYSTEM, "metrics: no memory for %u classes", classes);
}

void metrics_close(struct metrics *metrics) {
    free(metrics->confusion);
    free(metrics->per_class);
    *metrics = (struct metrics){0};
}

void metrics_count(struct metrics *metrics, int32_t gold, int32_t predicted) {
    assert(gold >= 0 && (uint32_t)gold < metrics->classes && predicted >= 0 && (uint32_t)predicted < metrics->classes);
    metrics->confusion[(size_t)gold * metrics->classes + (size_t)predicted]++;
}

static double ratio(double a, double b) {
    return b > 0 ? a / b : 0;
}

static void class_finish(struct metrics *metrics, uint32_t c) {
    uint64_t gold = 0, predicted = 0, hit = metrics->confusion[(size_t)c * metrics->classes + c];
    for (uint32_t i = 0; i < metrics->classes; i++) {
        gold += metrics->confusion[(size_t)c * metrics->classes + i];
        predicted += metrics->confusion[(size_t)i * metrics->classes + c];
    }
    metrics->per_class[c] = (struct class_scores){
        .precision = ratio((double)hit, (double)predicted),
        .recall = ratio((double)hit, (double)gold),
        .f1 = ratio(2 * (double)hit, (double)(gold + predicted)),
        .support = gold,
        .seen = gold + predicted > 0,
    };
}

static void means_finish(struct metrics *metrics) {
    double seen = 0, weight = (double)metrics->examples;
    for (uint32_t c = 0; c < metrics->classes; c++) {
        const struct class_scores *scores = &metrics->per_class[c];
        double support = (double)scores->support;
        seen += scores->seen;
        metrics->macro_precision += scores->precision;
        metrics->macro_recall += scores->recall;
        metrics->macro_f1 += scores->f1;
        metrics->weighted_precision += support * scores->precision;
        metrics->weighted_recall += support * scores->recall;
        metrics->weighted_f1 += support * scores->f1;
    }
    metrics->macro_precision = ratio(metrics->macro_precision, seen);
    metrics->macro_recall = ratio(metrics->macro_recall, seen);
    metrics->macro_f1 = ratio(metrics->macro_f1, seen);
    metrics->weighted_precision = ratio(metrics->weighted_precision, weight);
    metrics->weighted_recall = ratio(metrics->weighted_recall, weight);
    metrics->weighted_f1 = ratio(metrics->weighted_f1, weight);
}

void metrics_finish(struct metrics *metrics) {
    uint64_t hits = 0;
    metrics->examples = 0;
    metrics->macro_precision = metrics->macro_recall = metrics->macro_f1 = 0;
    metrics->weighted_precision = metrics->weighted_recall = metrics->weighted_f1 = 0;
    for (uint32_t c = 0; c < metrics->classes; c++) {
        class_finish(metrics, c);
        metrics->examples += metrics->per_class[c].support;
        hits += metrics->confusion[(size_t)c * metrics->classes + c];
    }
    metrics->accuracy = ratio((double)hits, (double)metrics->examples);
    means_finish(metrics);
}

enum metric metric_official(const char *task) {
    if (strcmp(task, "sentiment") == 0)
        return METRIC_MACRO_RECALL;
    if (strcmp(task, "irony") == 0)
        return METRIC_F1_CLASS_1;
    if (strcmp(task, "stance") == 0 || strncmp(task, "stance/", 7) == 0)
        return METRIC_MEAN_F1_1_2;
    return METRIC_MACRO_F1;
}

const char *metric_name(enum metric metric) {
    static const char *const names[] = {
        [METRIC_ACCURACY] = "accuracy",
        [METRIC_MACRO_F1] = "macro_f1",
        [METRIC_MACRO_RECALL] = "macro_recall",
        [METRIC_F1_CLASS_1] = "f1_of_class_1",
        [METRIC_MEAN_F1_1_2] = "mean_f1_of_classes_1_and_2",
        [METRIC_LOSS] = "loss",
    };
    return names[metric];
}

static bool is_seen(const struct metrics *metrics, uint32_t c) {
    return c < metrics->classes && metrics->per_class[c].seen;
}

double metric_value(const struct metrics *metrics, enum metric metric) {
    switch (metric) {
    case METRIC_ACCURACY:
        return metrics->accuracy;
    case METRIC_MACRO_F1:
        return metrics->macro_f1;
    case METRIC_MACRO_RECALL:
        return metrics->macro_recall;
    case METRIC_F1_CLASS_1:
        return is_seen(metrics, 1) ? metrics->per_class[1].f1 : -1;
    case METRIC_MEAN_F1_1_2:
        if (!is_seen(metrics, 1) || !is_seen(metrics, 2))
            return -1;
        return (metrics->per_class[1].f1 + metrics->per_class[2].f1) / 2;
    case METRIC_LOSS:
        break;
    }
    assert(!"the loss is not among the counts");
    return -1;
}
