// SPDX-License-Identifier: Apache-2.0
#include "daemon/sweep/spread.h"

#include <math.h>
#include <stdbool.h>

// One value more. Welford's recurrence (Technometrics 4, 1962): squares of differences from the mean, never of the
// values, so that close values keep their digits.
static void spread_add(struct spread *s, double *squares, double value) {
    double from = value - s->mean;
    s->n++;
    s->mean += from / (double)s->n;
    *squares += from * (value - s->mean);
    s->least = s->n == 1 || value < s->least ? value : s->least;
    s->most = s->n == 1 || value > s->most ? value : s->most;
}

static void spread_end(struct spread *s, double squares) {
    if (s->n == 0)
        s->mean = s->least = s->most = (double)NAN;
    s->sd = s->n > 1 ? sqrt(squares / (double)(s->n - 1)) : (double)NAN;
}

struct spread spread_of(const double *values, size_t n) {
    struct spread s = {0};
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        if (!isnan(values[i]))
            spread_add(&s, &squares, values[i]);
    spread_end(&s, squares);
    return s;
}

struct paired paired_of(const double *a, const double *b, size_t n) {
    struct paired p = {0};
    double squares = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(a[i]) || isnan(b[i]))
            continue;
        spread_add(&p.difference, &squares, a[i] - b[i]);
        p.wins += a[i] > b[i];
        p.losses += a[i] < b[i];
        p.ties += a[i] == b[i];
    }
    spread_end(&p.difference, squares);
    p.error = p.difference.sd / sqrt((double)p.difference.n);
    return p;
}
