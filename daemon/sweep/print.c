// SPDX-License-Identifier: Apache-2.0
// The sweep's table for people: on standard output, and as sweep.md.
#include "daemon/sweep/sweep.h"

#include "base/markup.h"

#include <inttypes.h>
#include <math.h>

// Pairs are compared on test, or on val where no cell has a test split.
static enum sweep_score pair_score(const struct sweep *s, size_t task) {
    for (size_t rate = 0; rate < s->rates.n; rate++)
        if (sweep_row(s, task, rate).scores[SWEEP_TEST].n)
            return SWEEP_TEST;
    return SWEEP_VAL;
}

// "0.7812", "-" where there is none.
struct figure {
    char text[24];
};

static struct figure figure(double value, bool sign) {
    struct figure f = {"-"};
    if (!isnan(value))
        snprintf(f.text, sizeof f.text, sign ? "%+.4f" : "%.4f", value);
    return f;
}

// The seeds of a rate whose cells are in that state: " 1 2".
static void seeds_add(struct text *out, const struct sweep *s, size_t task, size_t rate, enum sweep_state state) {
    for (size_t seed = 0; seed < s->seeds.n; seed++)
        if (sweep_cell(s, task, rate, seed)->state == state)
            text_printf(out, " %s", s->seeds.at[seed]);
}

// Whether TweetEval's total is asked for: several of its tasks were.
static bool total_asked(const struct sweep *s) {
    return s->job->data.format == JOB_TWEET_EVAL && s->tasks.n > 1;
}

static void total_line(struct text *out, const struct sweep *s) {
    struct text missing = {0};
    double total;
    if (sweep_total(&total, &missing, s))
        text_printf(out, "TweetEval's total: %.4f (mean of the seven tasks on test, each at its best rate)\n", total);
    else
        text_printf(out, "TweetEval's total needs all seven tasks; these have no score on test: %s\n",
                    text_string(&missing) ? text_string(&missing) : "");
    text_release(&missing);
}

// ---- standard output

static void text_rate(struct text *out, const struct sweep *s, size_t task, size_t rate, bool best) {
    struct sweep_row row = sweep_row(s, task, rate);
    const char *label = s->rates.at[rate];
    for (int score = 0; score < SWEEP_SCORES; score++) {
        const struct spread *p = &row.scores[score];
        if (!p->n)
            continue;
        text_printf(out, "%c %-9s  %-9s %3zu  %7s  %7s  %7s  %7s\n", best && *label ? '*' : ' ', label,
                    sweep_score_names[score], p->n, figure(p->mean, false).text, figure(p->sd, false).text,
                    figure(p->least, false).text, figure(p->most, false).text);
        label = "";
    }
    for (int state = SWEEP_DIVERGED; state >= SWEEP_WAITS; state -= SWEEP_DIVERGED - SWEEP_WAITS) {
        if (!row.cells[state])
            continue;
        text_printf(out, "  %-9s  %s: seed", label, sweep_state_names[state]);
        seeds_add(out, s, task, rate, (enum sweep_state)state);
        text_puts(out, "\n");
        label = "";
    }
}

static void text_pairs(struct text *out, const struct sweep *s, size_t task) {
    enum sweep_score score = pair_score(s, task);
    bool head = false;
    for (size_t a = 0; a < s->rates.n; a++)
        for (size_t b = a + 1; b < s->rates.n; b++) {
            struct paired p = sweep_pair(s, task, a, b, score);
            if (!p.difference.n)
                continue;
            if (!head)
                text_printf(out, "  differences on %s, seed by seed\n  %-21s %3s  %7s  %7s  %7s  won lost tied\n",
                            sweep_score_names[score], "", "n", "mean", "sd", "se");
            head = true;
            text_printf(out, "  %-9s - %-9s %3zu  %7s  %7s  %7s  %3zu %4zu %4zu\n", s->rates.at[a], s->rates.at[b],
                        p.difference.n, figure(p.difference.mean, true).text, figure(p.difference.sd, false).text,
                        figure(p.error, false).text, p.wins, p.losses, p.ties);
        }
}

static void text_task(struct text *out, const struct sweep *s, size_t task) {
    size_t best = sweep_best(s, task);
    const char *metric = sweep_metric(s, task);
    text_printf(out, "%s%s%s\n", s->tasks.at[task], *metric ? ": " : "", metric);
    text_printf(out, "  %-9s  %-9s %3s  %7s  %7s  %7s  %7s\n", "rate", "score of", "n", "mean", "sd", "min", "max");
    for (size_t rate = 0; rate < s->rates.n; rate++)
        text_rate(out, s, task, rate, rate == best && s->rates.n > 1);
    if (best != SIZE_MAX && s->rates.n > 1)
        text_printf(out, "  * the best rate, by its mean on val\n");
    text_pairs(out, s, task);
    text_puts(out, "\n");
}

void sweep_print_text(struct text *out, const struct sweep *s) {
    for (size_t task = 0; task < s->tasks.n; task++)
        text_task(out, s, task);
    if (total_asked(s))
        total_line(out, s);
    text_printf(out, "table   %s/sweep.md\nnumbers %s/sweep.json\nruns    %s/<task>/lr-<rate>-seed-<seed>\n",
                s->job->out, s->job->out, s->job->out);
}

// ---- sweep.md

static void markdown_spread(struct text *out, const struct spread *p) {
    if (!p->n)
        text_puts(out, " |");
    else if (p->n == 1)
        text_printf(out, " %.4f |", p->mean);
    else
        text_printf(out, " %.4f ± %.4f (%.4f to %.4f) |", p->mean, p->sd, p->least, p->most);
}

static void markdown_rate(struct text *out, const struct sweep *s, size_t task, size_t rate) {
    struct sweep_row row = sweep_row(s, task, rate);
    text_printf(out, "| %s | %zu |", s->rates.at[rate], row.cells[SWEEP_DONE]);
    for (int score = 0; score < SWEEP_SCORES; score++)
        markdown_spread(out, &row.scores[score]);
    seeds_add(out, s, task, rate, SWEEP_DIVERGED);
    text_puts(out, " |");
    seeds_add(out, s, task, rate, SWEEP_WAITS);
    text_puts(out, " |\n");
}

static void markdown_pair(struct text *out, const struct paired *p) {
    text_printf(out, " %s | %s | %s | %zu / %zu / %zu |", figure(p->difference.mean, true).text,
                figure(p->difference.sd, false).text, figure(p->error, false).text, p->wins, p->losses, p->ties);
}

static void markdown_pairs(struct text *out, const struct sweep *s, size_t task) {
    enum sweep_score score = pair_score(s, task);
    if (s->rates.n < 2)
        return;
    text_printf(
        out,
        "\nDifferences on %s, seed by seed:\n\n| a − b | seeds | mean | sd | standard error | won / lost / tied |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: |\n",
        sweep_score_names[score]);
    for (size_t a = 0; a < s->rates.n; a++)
        for (size_t b = a + 1; b < s->rates.n; b++) {
            struct paired p = sweep_pair(s, task, a, b, score);
            text_printf(out, "| %s − %s | %zu |", s->rates.at[a], s->rates.at[b], p.difference.n);
            markdown_pair(out, &p);
            text_puts(out, "\n");
        }
}

static void markdown_task(struct text *out, const struct sweep *s, size_t task) {
    size_t best = sweep_best(s, task);
    const char *metric = sweep_metric(s, task);
    text_puts(out, "\n## ");
    markdown_cell_add(out, s->tasks.at[task]);
    text_printf(out, "%s%s\n\n", *metric ? ": " : "", metric);
    if (best != SIZE_MAX)
        text_printf(out, "Best rate, by the mean on val: %s.\n\n", s->rates.at[best]);
    text_puts(out,
              "Mean ± standard deviation (least to most) over the seeds. Val and test are the best model's; last is "
              "the last step's.\n\n| rate | done | val | test | last val | last test | diverged: seed | waiting: "
              "seed |\n| --- | ---: | ---: | ---: | ---: | ---: | --- | --- |\n");
    for (size_t rate = 0; rate < s->rates.n; rate++)
        markdown_rate(out, s, task, rate);
    markdown_pairs(out, s, task);
}

static void markdown_cell(struct text *out, const struct sweep_cell *cell) {
    text_puts(out, "| [");
    markdown_cell_add(out, cell->name);
    text_puts(out, "](<");
    markdown_cell_add(out, cell->name);
    text_printf(out, "/report.md>) | %s |", sweep_state_names[cell->state]);
    for (int score = 0; score < SWEEP_SCORES; score++)
        text_printf(out, " %s |", cell->state == SWEEP_DONE ? figure(cell->scores[score], false).text : "");
    text_puts(out, "\n");
}

// Of other lists: where their own reports are.
static void markdown_others(struct text *out, const struct sweep *s) {
    if (!s->others.n)
        return;
    text_puts(out, "\n## Runs of other lists\n\nIn this folder too, and not in the numbers above:\n\n");
    for (size_t i = 0; i < s->others.n; i++) {
        text_puts(out, "- ");
        markdown_cell_add(out, s->others.at[i]);
        text_puts(out, "\n");
    }
}

void sweep_print_markdown(struct text *out, const struct sweep *s) {
    text_puts(out, "# ");
    markdown_cell_add(out, s->job->job);
    text_printf(out, ": a sweep of %zu runs\n\nBase: ", s->n);
    markdown_cell_add(out, s->cells[0].job->model.base);
    text_printf(out, ", hash %s. finetuned %s. %zu done, %zu diverged, %zu waiting.\n", s->base_hash, FINETUNED_VERSION,
                sweep_count(s, SWEEP_DONE), sweep_count(s, SWEEP_DIVERGED), sweep_count(s, SWEEP_WAITS));
    for (size_t task = 0; task < s->tasks.n; task++)
        markdown_task(out, s, task);
    if (total_asked(s)) {
        text_puts(out, "\n## TweetEval\n\n");
        total_line(out, s);
    }
    text_puts(out,
              "\n## Runs\n\n| run | state | val | test | last val | last test |\n| --- | --- | ---: | ---: | ---: | "
              "---: |\n");
    for (size_t i = 0; i < s->n; i++)
        markdown_cell(out, &s->cells[i]);
    markdown_others(out, s);
}
