// SPDX-License-Identifier: Apache-2.0
// The numbers of a sweep's table, all from the cells' reports.
#include "daemon/sweep/sweep.h"

#include "data/source.h"

#include <math.h>

// One score of a rate, by seed. NaN where the cell has none.
static void scores_of(double out[JOB_LIST_MAX], const struct sweep *s, size_t task, size_t rate,
                      enum sweep_score score) {
    for (size_t seed = 0; seed < s->seeds.n; seed++) {
        const struct sweep_cell *cell = sweep_cell(s, task, rate, seed);
        out[seed] = cell->state == SWEEP_DONE ? cell->scores[score] : (double)NAN;
    }
}

struct sweep_row sweep_row(const struct sweep *s, size_t task, size_t rate) {
    struct sweep_row row = {0};
    double values[JOB_LIST_MAX];
    for (size_t seed = 0; seed < s->seeds.n; seed++)
        row.cells[sweep_cell(s, task, rate, seed)->state]++;
    for (int score = 0; score < SWEEP_SCORES; score++) {
        scores_of(values, s, task, rate, (enum sweep_score)score);
        row.scores[score] = spread_of(values, s->seeds.n);
    }
    return row;
}

struct paired sweep_pair(const struct sweep *s, size_t task, size_t a, size_t b, enum sweep_score score) {
    double left[JOB_LIST_MAX], right[JOB_LIST_MAX];
    scores_of(left, s, task, a, score);
    scores_of(right, s, task, b, score);
    return paired_of(left, right, s->seeds.n);
}

size_t sweep_best(const struct sweep *s, size_t task) {
    size_t best = SIZE_MAX;
    double most = 0;
    for (size_t rate = 0; rate < s->rates.n; rate++) {
        struct sweep_row row = sweep_row(s, task, rate);
        if (row.cells[SWEEP_WAITS])
            return SIZE_MAX;
        if (row.cells[SWEEP_DIVERGED] || (best != SIZE_MAX && row.scores[SWEEP_VAL].mean <= most))
            continue;
        best = rate;
        most = row.scores[SWEEP_VAL].mean;
    }
    return best;
}

const char *sweep_metric(const struct sweep *s, size_t task) {
    for (size_t rate = 0; rate < s->rates.n; rate++)
        for (size_t seed = 0; seed < s->seeds.n; seed++)
            if (sweep_cell(s, task, rate, seed)->state == SWEEP_DONE)
                return sweep_cell(s, task, rate, seed)->metric;
    return "";
}

double sweep_part(const struct sweep *s, const char *name) {
    for (size_t task = 0; task < s->tasks.n; task++) {
        size_t best = strcmp(s->tasks.at[task], name) == 0 ? sweep_best(s, task) : SIZE_MAX;
        if (best != SIZE_MAX)
            return sweep_row(s, task, best).scores[SWEEP_TEST].mean;
    }
    return (double)NAN;
}

bool sweep_total(double *out, struct text *missing, const struct sweep *s) {
    double sum = 0;
    size_t n = 0, lacking = 0;
    for (; tweet_eval_tasks[n]; n++) {
        double part = sweep_part(s, tweet_eval_tasks[n]);
        if (isnan(part) && missing)
            text_printf(missing, "%s%s", lacking ? ", " : "", tweet_eval_tasks[n]);
        lacking += isnan(part);
        sum += part;
    }
    *out = sum / (double)n;
    return lacking == 0;
}
