// SPDX-License-Identifier: Apache-2.0
// Golden scores of scikit-learn (golden/metrics) and of the official scorer (golden/tweeteval_predictions), to 1e-9.
#include "support.h"

#include "base/file.h"
#include "base/text.h"
#include "model/metrics.h"

#include <dirent.h>
#include <jansson.h>

static double real(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        fail_msg("%s is not there", key);
    return json_number_value(value);
}

static void class_check(const struct metrics *metrics, const json_t *want) {
    const struct class_scores *got = &metrics->per_class[(int)real(want, "class")];
    if (json_object_get(want, "absent")) {
        assert_false(got->seen);
        return;
    }
    assert_near(got->precision, real(want, "precision"), 1e-9, 0);
    assert_near(got->recall, real(want, "recall"), 1e-9, 0);
    assert_near(got->f1, real(want, "f1"), 1e-9, 0);
    assert_int_equal(got->support, (uint64_t)real(want, "support"));
}

static void confusion_check(const struct metrics *metrics, const json_t *want) {
    for (uint32_t g = 0; g < metrics->classes; g++)
        for (uint32_t p = 0; p < metrics->classes; p++)
            assert_int_equal(metrics->confusion[g * metrics->classes + p],
                             json_integer_value(json_array_get(json_array_get(want, g), p)));
}

static void seen_check(const struct metrics *metrics, const json_t *want) {
    size_t seen = 0;
    for (uint32_t c = 0; c < metrics->classes; c++)
        seen += metrics->per_class[c].seen;
    assert_int_equal(seen, json_array_size(want));
    for (size_t i = 0; i < seen; i++)
        assert_true(metrics->per_class[json_integer_value(json_array_get(want, i))].seen);
}

static void scores_check(const struct metrics *metrics, const json_t *want) {
    static const char *const also[] = {"weighted_precision", "weighted_recall"};
    enum metric official = metric_official(json_string_value(json_object_get(want, "task")));
    size_t i;
    json_t *class;
    assert_string_equal(metric_name(official), json_string_value(json_object_get(want, "official_metric")));
    assert_near(metric_value(metrics, official), real(want, "official"), 1e-9, 0);
    assert_near(metric_value(metrics, METRIC_ACCURACY), real(want, "accuracy"), 1e-9, 0);
    assert_near(metric_value(metrics, METRIC_MACRO_F1), real(want, "macro_f1"), 1e-9, 0);
    assert_near(metric_value(metrics, METRIC_MACRO_RECALL), real(want, "macro_recall"), 1e-9, 0);
    assert_near(metrics->macro_precision, real(want, "macro_precision"), 1e-9, 0);
    assert_near(metrics->weighted_f1, real(want, "weighted_f1"), 1e-9, 0);
    const double got[] = {metrics->weighted_precision, metrics->weighted_recall};
    for (int k = 0; k < 2; k++)
        if (json_object_get(want, also[k]))
            assert_near(got[k], real(want, also[k]), 1e-9, 0);
    json_array_foreach(json_object_get(want, "per_class"), i, class) {
        class_check(metrics, class);
    }
    confusion_check(metrics, json_object_get(want, "confusion"));
    seen_check(metrics, json_object_get(want, "classes_seen"));
}

static void test_cases(void **state) {
    (void)state;
    const char *path = support_path("FINETUNED_GOLDEN", "metrics/cases.json");
    SUPPORT_NEED(path, "FINETUNED_GOLDEN/metrics");
    json_t *cases = json_load_file(path, 0, NULL), *one;
    size_t i;
    assert_true(json_array_size(cases) > 0);
    json_array_foreach(cases, i, one) {
        const json_t *gold = json_object_get(one, "y_true"), *predicted = json_object_get(one, "y_pred");
        struct metrics metrics;
        assert_ok(metrics_open(&metrics, (uint32_t)real(one, "num_classes")));
        for (size_t k = 0; k < json_array_size(gold); k++)
            metrics_count(&metrics, (int32_t)json_integer_value(json_array_get(gold, k)),
                          (int32_t)json_integer_value(json_array_get(predicted, k)));
        metrics_finish(&metrics);
        assert_int_equal(metrics.examples, json_array_size(gold));
        scores_check(&metrics, one);
        metrics_close(&metrics);
    }
    json_decref(cases);
}

// Counts the lines of <folder>/{gold,pred}.txt.
static void folder_count(struct metrics *metrics, const char *folder) {
    char path[2][PATH_MAX], *bytes[2], *next[2];
    static const char *const names[2] = {"gold.txt", "pred.txt"};
    for (int k = 0; k < 2; k++) {
        snprintf(path[k], PATH_MAX, "%s/%s", folder, names[k]);
        assert_ok(file_read(&bytes[k], NULL, path[k], 1 << 20));
        next[k] = bytes[k];
    }
    while (*next[0] && *next[1])
        metrics_count(metrics, (int32_t)strtol(next[0], &next[0], 10), (int32_t)strtol(next[1], &next[1], 10)),
            next[0]++, next[1]++;
    assert_true(!*next[0] && !*next[1]);
    free(bytes[0]);
    free(bytes[1]);
}

// A task's own files, or those of its folders (stance's targets, pooled).
static void task_count(struct metrics *metrics, const char *root, const char *task) {
    char folder[PATH_MAX], inner[PATH_MAX + 256];
    char **names;
    size_t n;
    snprintf(folder, sizeof folder, "%s/%s", root, task);
    snprintf(inner, sizeof inner, "%s/gold.txt", folder);
    if (file_exists(inner))
        folder_count(metrics, folder);
    assert_ok(file_list(&names, &n, folder));
    for (size_t i = 0; i < n; i++) {
        snprintf(inner, sizeof inner, "%s/%s", folder, names[i]);
        if (file_is_folder(inner))
            folder_count(metrics, inner);
    }
    file_list_free(names, n);
}

static void test_predictions(void **state) {
    (void)state;
    const char *root = support_path("FINETUNED_GOLDEN", "tweeteval_predictions");
    SUPPORT_NEED(root, "FINETUNED_GOLDEN/tweeteval_predictions");
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/expected.json", root);
    json_t *expected = json_load_file(path, 0, NULL), *task;
    size_t i;
    assert_true(json_array_size(json_object_get(expected, "tasks")) > 0);
    json_array_foreach(json_object_get(expected, "tasks"), i, task) {
        struct metrics metrics;
        assert_ok(metrics_open(&metrics, (uint32_t)json_array_size(json_object_get(task, "confusion"))));
        task_count(&metrics, root, json_string_value(json_object_get(task, "task")));
        metrics_finish(&metrics);
        assert_int_equal(metrics.examples, (uint64_t)real(task, "n"));
        scores_check(&metrics, task);
        metrics_close(&metrics);
    }
    json_decref(expected);
}

static void test_rules(void **state) {
    (void)state;
    struct metrics metrics;
    assert_ok(metrics_open(&metrics, 2));
    metrics_finish(&metrics); // nothing counted: no division by 0
    assert_true(metrics.accuracy == 0 && metrics.macro_f1 == 0 && metrics.weighted_f1 == 0);
    assert_true(metric_value(&metrics, METRIC_MEAN_F1_1_2) == -1); // no class 2 at all
    metrics_count(&metrics, 1, 1);
    metrics_finish(&metrics);
    metrics_finish(&metrics); // twice is as once
    assert_true(metrics.macro_f1 == 1 && metrics.accuracy == 1);
    assert_int_equal(metric_official("stance/abortion"), METRIC_MEAN_F1_1_2);
    assert_int_equal(metric_official("my own"), METRIC_MACRO_F1);
    metrics_close(&metrics);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_predictions),
                                       cmocka_unit_test(test_rules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
