// SPDX-License-Identifier: Apache-2.0
// The rules of a sweep's table on cells made by hand: which rate is the best, what TweetEval's total is made of, and
// what the printed forms hold while cells wait or have diverged.
#include "support.h"

#include "daemon/sweep/sweep.h"

#include <jansson.h>
#include <math.h>

#define TASKS 8

struct rig {
    struct sweep sweep;
    struct job job, cell_job;
    struct sweep_cell cells[TASKS * 3 * 2];
    struct inputs_facts facts[TASKS];
};

static char *tasks[] = {"emotion", "emoji", "hate", "irony", "offensive", "sentiment", "stance", "my | own"};
static char *rates[] = {"1.0e-05", "3.0e-05", "0.0001"};
static char *seeds[] = {"1", "2"};

// Every cell done. On val a rate scores 0.5 + task / 100 + rate / 10, seed 2 a hundredth more; on test a tenth less.
static void rig_init(struct rig *rig, size_t n_tasks) {
    *rig = (struct rig){0};
    rig->cell_job.model.base = "base";
    rig->job.job = "try";
    rig->job.out = "runs/try";
    rig->sweep = (struct sweep){.job = &rig->job,
                                .tasks = {tasks, n_tasks},
                                .rates = {rates, 3},
                                .seeds = {seeds, 2},
                                .cells = rig->cells,
                                .n = n_tasks * 6,
                                .facts = rig->facts,
                                .base_hash = "ba5e"};
    for (size_t i = 0; i < rig->sweep.n; i++) {
        struct sweep_cell *cell = &rig->cells[i];
        *cell =
            (struct sweep_cell){.task = i / 6, .rate = i / 2 % 3, .seed = i % 2, .name = "a/b", .job = &rig->cell_job};
        cell->state = SWEEP_DONE;
        cell->step = 40;
        cell->best_step = 20;
        snprintf(cell->metric, sizeof cell->metric, "macro_f1");
        double val = 0.5 + 0.01 * (double)cell->task + 0.1 * (double)cell->rate + 0.01 * (double)cell->seed;
        cell->scores[SWEEP_VAL] = val;
        cell->scores[SWEEP_TEST] = val - 0.1;
        cell->scores[SWEEP_LAST_VAL] = val - 0.2;
        cell->scores[SWEEP_LAST_TEST] = val - 0.3;
    }
}

static void near(double got, double want) {
    if (!(fabs(got - want) < 1e-12))
        fail_msg("%.17g, wanted %.17g", got, want);
}

static void score_val(struct rig *rig, size_t task, size_t rate, double value) {
    for (size_t seed = 0; seed < 2; seed++)
        sweep_cell(&rig->sweep, task, rate, seed)->scores[SWEEP_VAL] = value;
}

static void test_row(void **state) {
    (void)state;
    struct rig rig;
    rig_init(&rig, 2);
    struct sweep_row row = sweep_row(&rig.sweep, 1, 2);
    near(row.scores[SWEEP_VAL].mean, 0.715);
    near(row.scores[SWEEP_TEST].mean, 0.615);
    near(row.scores[SWEEP_LAST_VAL].least, 0.51);
    near(row.scores[SWEEP_LAST_TEST].most, 0.42);
    near(row.scores[SWEEP_VAL].sd, 0.01 / sqrt(2));
    assert_true(row.cells[SWEEP_DONE] == 2 && !row.cells[SWEEP_WAITS] && !row.cells[SWEEP_DIVERGED]);
    // what a cell scored before it is run again does not count
    sweep_cell(&rig.sweep, 1, 2, 0)->state = SWEEP_WAITS;
    row = sweep_row(&rig.sweep, 1, 2);
    assert_true(row.scores[SWEEP_VAL].n == 1 && row.cells[SWEEP_WAITS] == 1);
    near(row.scores[SWEEP_VAL].mean, 0.72);
    struct paired p = sweep_pair(&rig.sweep, 1, 2, 0, SWEEP_TEST);
    assert_true(p.difference.n == 1 && p.wins == 1);
    near(p.difference.mean, 0.2);
    p = sweep_pair(&rig.sweep, 1, 0, 1, SWEEP_VAL);
    assert_true(p.difference.n == 2 && p.losses == 2);
    near(p.difference.mean, -0.1);
}

static void test_best(void **state) {
    (void)state;
    struct rig rig;
    rig_init(&rig, 2);
    assert_int_equal(sweep_best(&rig.sweep, 0), 2);
    score_val(&rig, 0, 1, 0.9); // by val, whatever test says
    sweep_cell(&rig.sweep, 0, 1, 0)->scores[SWEEP_TEST] = 0;
    assert_int_equal(sweep_best(&rig.sweep, 0), 1);
    assert_int_equal(sweep_best(&rig.sweep, 1), 2);
    score_val(&rig, 0, 0, 0.9); // ties: the first given
    assert_int_equal(sweep_best(&rig.sweep, 0), 0);
    sweep_cell(&rig.sweep, 0, 0, 1)->state = SWEEP_DIVERGED; // a rate that may diverge is not the best
    assert_int_equal(sweep_best(&rig.sweep, 0), 1);
    sweep_cell(&rig.sweep, 0, 2, 1)->state = SWEEP_WAITS; // not known yet
    assert_int_equal(sweep_best(&rig.sweep, 0), SIZE_MAX);
    sweep_cell(&rig.sweep, 0, 2, 1)->state = SWEEP_DIVERGED;
    sweep_cell(&rig.sweep, 0, 1, 0)->state = SWEEP_DIVERGED;
    assert_int_equal(sweep_best(&rig.sweep, 0), SIZE_MAX);
    score_val(&rig, 1, 2, -1); // a metric of a class that nowhere occurs is a number too
    score_val(&rig, 1, 1, -1);
    score_val(&rig, 1, 0, -1);
    assert_int_equal(sweep_best(&rig.sweep, 1), 0);
}

static void test_total(void **state) {
    (void)state;
    struct rig rig;
    struct text missing = {0};
    double total;
    rig_init(&rig, TASKS);
    assert_true(sweep_total(&total, &missing, &rig.sweep));
    near(total, 0.5 + 0.03 + 0.2 - 0.1 + 0.005); // seven tasks, the mean of 0 to 6; the eighth is not one of them
    assert_null(missing.at);
    near(sweep_part(&rig.sweep, "hate"), 0.625);
    assert_true(isnan(sweep_part(&rig.sweep, "stance/abortion")));
    sweep_cell(&rig.sweep, 3, 0, 0)->state = SWEEP_WAITS;
    for (size_t i = 0; i < 6; i++)
        rig.cells[5 * 6 + i].scores[SWEEP_TEST] = NAN;
    assert_false(sweep_total(&total, &missing, &rig.sweep));
    assert_string_equal(text_string(&missing), "irony, sentiment");
    text_release(&missing);
    rig_init(&rig, 1);
    assert_false(sweep_total(&total, &missing, &rig.sweep));
    assert_string_equal(text_string(&missing), "emoji, hate, irony, offensive, sentiment, stance");
    text_release(&missing);
}

static json_t *json_of(const struct sweep *sweep) {
    struct text text = {0};
    json_error_t error;
    sweep_print_json(&text, sweep);
    json_t *json = json_loadb(text.at, text.size, JSON_REJECT_DUPLICATES, &error);
    if (!json)
        fail_msg("line %d: %s in\n%s", error.line, error.text, text.at);
    text_release(&text);
    return json;
}

static void test_json(void **state) {
    (void)state;
    struct rig rig;
    rig_init(&rig, TASKS);
    json_t *json = json_of(&rig.sweep);
    assert_true(json_is_true(json_object_get(json, "complete")));
    json_t *last = json_array_get(json_object_get(json, "tasks"), TASKS - 1);
    assert_string_equal(json_string_value(json_object_get(last, "task")), "my | own");
    near(json_number_value(json_object_get(last, "best_rate")), 0.0001);
    assert_int_equal(json_array_size(json_object_get(last, "pairs")), 3);
    assert_int_equal(json_array_size(json_object_get(json, "cells")), TASKS * 6);
    near(json_number_value(json_object_get(json_object_get(json, "tweet_eval"), "total")), 0.635);
    json_decref(json);

    // nothing is there yet; without TweetEval's layout there is no total
    for (size_t i = 0; i < rig.sweep.n; i++)
        rig.cells[i].state = i == 0 ? SWEEP_DIVERGED : SWEEP_WAITS;
    rig.job.data.format = JOB_CSV;
    json = json_of(&rig.sweep);
    assert_true(json_is_false(json_object_get(json, "complete")) && json_is_null(json_object_get(json, "tweet_eval")));
    json_t *first = json_array_get(json_object_get(json, "tasks"), 0);
    assert_true(json_is_null(json_object_get(first, "metric")) && json_is_null(json_object_get(first, "best_rate")));
    json_t *rate = json_array_get(json_object_get(first, "rates"), 0);
    assert_int_equal(json_integer_value(json_object_get(rate, "diverged")), 1);
    assert_int_equal(json_integer_value(json_object_get(rate, "waiting")), 1);
    assert_true(json_is_null(json_object_get(rate, "val")));
    json_decref(json);
}

static void holds(const char *text, const char *what) {
    if (!strstr(text, what))
        fail_msg("'%s' is not in\n%s", what, text);
}

static void test_people(void **state) {
    (void)state;
    struct rig rig;
    struct text text = {0}, markdown = {0};
    rig_init(&rig, TASKS);
    sweep_cell(&rig.sweep, 7, 0, 1)->state = SWEEP_DIVERGED;
    sweep_cell(&rig.sweep, 7, 1, 0)->state = SWEEP_WAITS;
    sweep_print_text(&text, &rig.sweep);
    holds(text_string(&text), "* 0.0001     val         2   0.7050   0.0071   0.7000   0.7100\n");
    holds(text_string(&text), "  1.0e-05   - 0.0001      2  -0.2000   0.0000   0.0000    0    2    0\n");
    holds(text_string(&text), "diverged: seed 2\n");
    holds(text_string(&text), "waiting: seed 1\n");
    holds(text_string(&text), "TweetEval's total: 0.6350 ");
    sweep_print_markdown(&markdown, &rig.sweep);
    holds(text_string(&markdown), "## my \\| own: macro_f1\n");
    holds(text_string(&markdown), "| 0.0001 | 2 | 0.7050 ± 0.0071 (0.7000 to 0.7100) |");
    holds(text_string(&markdown), "| 1.0e-05 − 0.0001 | 2 | -0.2000 | 0.0000 | 0.0000 | 0 / 2 / 0 |");
    text_release(&text);
    text_release(&markdown);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_row), cmocka_unit_test(test_best),
                                       cmocka_unit_test(test_total), cmocka_unit_test(test_json),
                                       cmocka_unit_test(test_people)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
