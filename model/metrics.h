// SPDX-License-Identifier: Apache-2.0
// TweetEval's metrics, from a confusion matrix of counts: exact in any number of ranks.
#ifndef FINETUNED_MODEL_METRICS_H
#define FINETUNED_MODEL_METRICS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum metric {
    METRIC_ACCURACY,
    METRIC_MACRO_F1,
    METRIC_MACRO_RECALL,
    METRIC_F1_CLASS_1,
    METRIC_MEAN_F1_1_2,
    METRIC_LOSS
};

struct class_scores {
    double precision, recall, f1;
    uint64_t support;
    bool seen; // occurs in gold or prediction
};

struct metrics {
    uint32_t classes;
    uint64_t examples;
    uint64_t *confusion; // [classes][classes], rows gold, columns predicted
    struct class_scores *per_class;
    double accuracy, macro_precision, macro_recall, macro_f1, weighted_precision, weighted_recall, weighted_f1;
};

enum status metrics_open(struct metrics *out, uint32_t classes);
void metrics_close(struct metrics *metrics);
void metrics_count(struct metrics *metrics, int32_t gold, int32_t predicted);
// Fills the scores from the counts (scikit-learn's rules: macro means run over the classes seen, 0/0 = 0).
void metrics_finish(struct metrics *metrics);

// The official metric of a TweetEval task ("stance/abortion" as stance); macro F1 for other names.
enum metric metric_official(const char *task);
const char *metric_name(enum metric metric); // "macro_f1", "macro_recall", "f1_of_class_1",
                                             // "mean_f1_of_classes_1_and_2", "accuracy", "loss"
// Its value; -1 if the metric names a class that occurs in neither gold nor prediction (as the official script).
double metric_value(const struct metrics *metrics, enum metric metric);

#endif
