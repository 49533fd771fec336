// SPDX-License-Identifier: Apache-2.0
// What is there of a sweep already. A cell is taken for done or diverged without being opened where its events say so
// and job, data and base are those of now; what is not plain is left to the run itself, which looks at the checkpoint.
#include "daemon/sweep/sweep.h"

#include "base/file.h"
#include "checkpoints/steps.h"
#include "daemon/run/export.h"
#include "daemon/run/folder.h"
#include "train/ended.h"
#include "train/history.h"
#include "train/report_sums.h"
#include "train/report_text.h"

#include <inttypes.h>
#include <math.h>

// ---- scores

static double official(const json_t *report, const char *part, const char *split) {
    const json_t *value = part ? report_at(report, part, split, "official", "value", NULL)
                               : report_at(report, split, "official", "value", NULL);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

// Scores are shares; -1 is TweetEval's for a class that never occurs.
static bool score_fits(double score) {
    return isnan(score) || (score >= -1 && score <= 1);
}

// A report that was put here from elsewhere would be counted as this cell's.
static bool report_is_of(const json_t *report, const struct job *job) {
    const json_t *seed = json_object_get(report, "seed");
    const char *name = json_string_value(json_object_get(report, "job"));
    return json_is_integer(seed) && (uint64_t)json_integer_value(seed) == job->train.seed && name &&
           strcmp(name, job->job) == 0;
}

static uint64_t count(const json_t *report, const char *key) {
    json_int_t value = json_integer_value(json_object_get(report, key));
    return value > 0 ? (uint64_t)value : 0;
}

enum status sweep_cell_read(struct sweep_cell *cell) {
    json_t *report;
    TRY(report_read(&report, cell->job->out));
    const char *metric = json_string_value(report_at(report, "val", "official", "name", NULL));
    snprintf(cell->metric, sizeof cell->metric, "%s", metric ? metric : "");
    cell->scores[SWEEP_VAL] = official(report, NULL, "val");
    cell->scores[SWEEP_TEST] = official(report, NULL, "test");
    cell->scores[SWEEP_LAST_VAL] = official(report, "last", "val");
    cell->scores[SWEEP_LAST_TEST] = official(report, "last", "test");
    cell->step = count(report, "steps");
    cell->best_step = count(report, "best_step");
    bool own = report_is_of(report, cell->job);
    json_decref(report);
    for (int score = 0; score < SWEEP_SCORES; score++)
        own = own && score_fits(cell->scores[score]);
    if (!own)
        return status_set(STATUS_DATA,
                          "%s/report.json is not this run's (its job, seed or scores don't fit): remove it and start "
                          "the sweep again",
                          cell->job->out);
    if (!metric || isnan(cell->scores[SWEEP_VAL]) || isnan(cell->scores[SWEEP_LAST_VAL]))
        return status_set(STATUS_DATA, "%s/report.json lacks val's scores: remove it and start the sweep again",
                          cell->job->out);
    return STATUS_OK;
}

// ---- the same job

// Keys that don't define a run but say whether it is at its end, and what it makes.
static bool key_completes(const char *key) {
    static const char *const keys[] = {"job", "train.epochs", "train.max_steps", "export.to", "export.dtype"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

// A run that goes on takes the precision that it has over, where none is asked for.
static bool key_adopts(const char *key, const char *now) {
    return strcmp(key, "train.precision") == 0 && strcmp(now, "auto") == 0;
}

// "auto" and the number that it comes to are the same run: that is for the run to say.
static bool key_resolves(const char *key) {
    return strcmp(key, "train.parts") == 0 || strcmp(key, "train.precision") == 0;
}

static enum status cell_refuse(const struct sweep_cell *cell, const char *key, const char *then, const char *now) {
    return status_set(STATUS_DATA, "%s: %s was %s, but this sweep says %s: restore it, or choose another out",
                      cell->job->out, key, then, now);
}

// Whether the run in a cell's folder is that of now, and the first thing that says that it may not be.
struct cell_run {
    bool settled;
    char why[900];
};

static void run_unsettle(struct cell_run *run, const char *key, const char *then, const char *now) {
    if (run->settled)
        snprintf(run->why, sizeof run->why, "%s was %s, but this sweep says %s", key, then, now);
    run->settled = false;
}

// Compares the job that the folder was made with. STATUS_DATA for what a run would refuse.
static enum status cell_compare(struct cell_run *run, const struct sweep_cell *cell, const struct job *then) {
    enum status status = STATUS_OK;
    for (size_t i = 0; job_key(i) && status == STATUS_OK; i++) {
        const char *key = job_key(i);
        if (!job_key_defines_run(i) && !key_completes(key))
            continue;
        char *a = job_value(then, key), *b = job_value(cell->job, key);
        bool same = a && b && (strcmp(a, b) == 0 || key_adopts(key, b));
        if (!same)
            run_unsettle(run, key, a ? a : "", b ? b : "");
        if (!same && job_key_defines_run(i) && !key_resolves(key))
            status = cell_refuse(cell, key, a ? a : "", b ? b : "");
        free(a);
        free(b);
    }
    return status;
}

// The same by content. Not recorded: not settled.
static enum status cell_compare_hash(struct cell_run *run, const struct sweep_cell *cell, const char *what,
                                     const char *then, const char *now) {
    if (*then && strcmp(then, now) != 0)
        return cell_refuse(cell, what, then, now);
    if (!*then)
        run_unsettle(run, what, "not recorded", now);
    return STATUS_OK;
}

static enum status cell_same(struct cell_run *run, const struct sweep *s, const struct sweep_cell *cell,
                             const struct history *history) {
    struct job *then = NULL;
    char *path = path_join(cell->job->out, "job.yaml");
    if (!path)
        return status_set(STATUS_SYSTEM, "sweep: no memory");
    run->settled = job_read(&then, path, NULL, 0, JOB_NEED_NOTHING) == STATUS_OK;
    if (!run->settled)
        snprintf(run->why, sizeof run->why, "%s", file_named(path) ? status_message() : "its job.yaml is missing");
    free(path);
    if (!run->settled)
        return STATUS_OK;
    enum status status = cell_compare(run, cell, then);
    job_free(then);
    TRY(status);
    TRY(cell_compare_hash(run, cell, "the data's hash", history->data_hash, s->facts[cell->task].hash));
    return cell_compare_hash(run, cell, "model.base's hash", history->base_hash, s->base_hash);
}

// A folder without checkpoints may become any run's.
static enum status cell_begun(bool *begun, const struct sweep_cell *cell) {
    struct steps steps;
    TRY(steps_list(&steps, cell->job->checkpoints.dir));
    *begun = steps.n > 0;
    steps_release(&steps);
    return STATUS_OK;
}

// A run that ended, without its checkpoints, may stay as it is, but is not begun anew. (A run refuses the same.) `why`:
// it can't stay as it is.
static enum status cell_refuse_gone(const struct sweep_cell *cell, uint64_t end_step, const char *why) {
    const char *out = cell->job->out;
    char *path = path_join(out, "job.yaml"), when[32] = "";
    struct job *then = NULL;
    struct text command = {0};
    if (path && file_exists(path) && job_read(&then, path, NULL, 0, JOB_NEED_NOTHING) == STATUS_OK)
        run_folder_command(&command, out, then);
    if (end_step)
        snprintf(when, sizeof when, " at step %" PRIu64, end_step);
    enum status status =
        status_set(STATUS_DATA,
                   "%s: its run ended%s, its checkpoints are gone, and %s: bring %s back, %s%s%sor remove the folder; "
                   "then start the sweep again",
                   out, when, why, cell->job->checkpoints.dir, then ? "train it again from step 0 by `" : "",
                   then && !command.failed ? text_string(&command) : "", then ? " --checkpoints.resume never`, " : "");
    text_release(&command);
    job_free(then);
    free(path);
    return status;
}

// Whether nothing is to be done: STATUS_DATA says what is. Without checkpoints the model can't be made again: it is
// looked into.
static enum status cell_check_done(struct sweep_cell *cell, const struct history *history, bool begun) {
    const struct job *job = cell->job;
    if (strcmp(history->ended, "end") != 0)
        return status_set(STATUS_DATA, "it went on since (%s)", history->ended);
    TRY(run_check_outputs(job));
    TRY(report_sums_check(&history->report, job->out));
    TRY(begun ? STATUS_OK : run_check_kept(job));
    return sweep_cell_read(cell);
}

static enum status cell_look(struct sweep_cell *cell, const struct sweep *s, const struct history *history) {
    struct cell_run run = {0};
    bool begun, diverged = strcmp(history->ended, "stop: nonfinite") == 0;
    const bool has = ended_has(cell->job->out, history->any, history->end_step);
    if (!history->any && !has)
        return STATUS_OK;
    TRY(cell_begun(&begun, cell));
    const bool gone = !begun && has;
    if (!history->any)
        return gone ? cell_refuse_gone(cell, 0, "so is its events.jsonl") : STATUS_OK;
    cell->step = begun ? history->step : 0;
    enum status status = cell_same(&run, s, cell, history);
    if (!begun && !gone && status == STATUS_DATA)
        return STATUS_OK;
    TRY(status);
    if (run.settled && diverged) {
        cell->state = SWEEP_DIVERGED;
        cell->step = history->step;
    } else if (run.settled && cell_check_done(cell, history, begun) == STATUS_OK)
        cell->state = SWEEP_DONE;
    else if (run.settled)
        snprintf(run.why, sizeof run.why, "%s", status_message());
    return gone && cell->state == SWEEP_WAITS ? cell_refuse_gone(cell, history->end_step, run.why) : STATUS_OK;
}

// ---- all of it

static enum status look_tasks(struct sweep *s) {
    for (size_t task = 0; task < s->tasks.n; task++)
        TRY(inputs_survey(&s->facts[task], sweep_cell(s, task, 0, 0)->job));
    return STATUS_OK;
}

static enum status look_cells(struct sweep *s) {
    for (size_t i = 0; i < s->n; i++) {
        struct history history = {0};
        enum status status = history_read(&history, s->cells[i].job->out);
        if (status == STATUS_OK)
            status = cell_look(&s->cells[i], s, &history);
        history_release(&history);
        TRY(status);
    }
    return STATUS_OK;
}

static enum status look_here(struct sweep *s, struct base *base) {
    TRY(look_tasks(s));
    TRY(base_hash(base));
    memcpy(s->base_hash, base->hash, sizeof s->base_hash);
    TRY(look_cells(s));
    return sweep_others(s);
}

enum status sweep_look(struct sweep *s, struct base *base, struct comm *comm) {
    uint8_t *states = calloc(s->n, 1);
    enum status status = states ? STATUS_OK : status_set(STATUS_SYSTEM, "sweep: no memory");
    if (status == STATUS_OK && comm->rank == 0)
        status = look_here(s, base);
    status = comm_agree(comm, status);
    for (size_t i = 0; i < s->n && status == STATUS_OK; i++)
        states[i] = (uint8_t)s->cells[i].state;
    if (status == STATUS_OK)
        status = comm_broadcast(comm, states, s->n, 0);
    for (size_t i = 0; i < s->n && status == STATUS_OK; i++)
        s->cells[i].state = (enum sweep_state)states[i];
    free(states);
    return status;
}
