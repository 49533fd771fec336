// SPDX-License-Identifier: Apache-2.0
// finetuned sweep JOB.yaml: the loop over the cells, and the table.
#include "daemon/verbs.h"
#include "daemon/paths/written.h"

#include <signal.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "checkpoints/owner.h"
#include "daemon/verify/intact.h"
#include "daemon/paths/places.h"
#include "daemon/run/job.h"
#include "daemon/sweep/sweep.h"
#include "daemon/units.h"
#include "train/folder.h"
#include "train/stop.h"
#include "train/trainer.h"

#define BAD_SHOWN 20 // names in the last line

// How long runs of this start took, by what they were trained on: what the others will take.
struct pace {
    double seconds, texts; // of runs from their first step to the end
    double trained;        // seconds of training, for train.max_time
};

// ---- what is written

static enum status sweep_put(const struct sweep *s, const char *name, struct text *text) {
    char *path = path_join(s->job->out, name);
    enum status status = path && text_string(text) ? file_replace(path, text_string(text), text->size)
                                                   : status_set(STATUS_SYSTEM, "sweep: no memory");
    free(path);
    text_release(text);
    return status;
}

// Rank 0; after each cell, so that what is known so far can be read.
static enum status sweep_write(const struct sweep *s, const struct comm *comm) {
    struct text json = {0}, markdown = {0};
    if (comm->rank != 0)
        return STATUS_OK;
    sweep_print_json(&json, s);
    TRY(sweep_put(s, "sweep.json", &json));
    sweep_print_markdown(&markdown, s);
    return sweep_put(s, "sweep.md", &markdown);
}

static void sweep_show(const struct sweep *s) {
    struct text text = {0};
    sweep_print_text(&text, s);
    if (text_string(&text))
        fputs(text_string(&text), stdout), fflush(stdout);
    text_release(&text);
}

// ---- the loop

static void pace_say(const struct pace *pace, const struct sweep *s, size_t i) {
    double texts = 0;
    for (size_t j = i; j < s->n; j++)
        texts += s->cells[j].state == SWEEP_WAITS ? (double)s->facts[s->cells[j].task].train : 0;
    if (pace->texts > 0)
        log_info("sweep: run %zu of %zu: %s; about %s left", i + 1, s->n, s->cells[i].name,
                 unit_seconds(texts * pace->seconds / pace->texts).text);
    else
        log_info("sweep: run %zu of %zu: %s", i + 1, s->n, s->cells[i].name);
}

// Whether a signal came, or train.max_time is over, between two runs.
static enum status sweep_stopped(const struct sweep *s, const struct pace *pace, struct comm *comm) {
    double limit = s->job->train.max_time;
    uint32_t flags = stop_flags(limit > 0 && comm->rank == 0 && pace->trained >= limit);
    TRY(comm_flags(comm, &flags));
    if (!flags)
        return STATUS_OK;
    const char *why = stop_flags_signal(flags) ? stop_name(stop_flags_signal(flags)) : "train.max_time";
    return status_set(STATUS_AGAIN, "stopped by %s between two runs: start the same sweep again to go on", why);
}

static enum status cell_ended(struct sweep_cell *cell, const struct run_result *result, struct comm *comm) {
    cell->state = result->diverged ? SWEEP_DIVERGED : SWEEP_DONE;
    cell->step = result->step;
    if (result->diverged)
        log_warn("sweep: %s diverged: that is noted, and the sweep goes on", cell->name);
    else if (comm->rank == 0)
        return sweep_cell_read(cell);
    return STATUS_OK;
}

// `said`: the error was logged by the run.
static enum status cell_run(struct sweep *s, struct sweep_cell *cell, struct base *base, struct comm *comm,
                            struct pace *pace, bool *said) {
    struct run_result result;
    double begun = clock_seconds();
    enum status status = run_job(&result, cell->job, base, comm, pace->trained);
    *said = status != STATUS_OK;
    if (status != STATUS_OK && !result.diverged)
        return status;
    *said = false;
    pace->trained += result.seconds;
    if (!result.resumed && !result.diverged) {
        pace->seconds += clock_seconds() - begun;
        pace->texts += (double)s->facts[cell->task].train;
    }
    return comm_agree(comm, cell_ended(cell, &result, comm));
}

// Its checkpoints, data or report are unusable (65): the others need not wait for that. All ranks have the same status.
static enum status cell_trouble(struct sweep_cell *cell, const struct comm *comm, bool said) {
    cell->trouble = strdup(status_message());
    cell->state = SWEEP_WAITS;
    if (!cell->trouble)
        return status_set(STATUS_SYSTEM, "sweep: no memory");
    if (!said && comm->rank == 0)
        log_error("%s", cell->trouble);
    log_warn("sweep: %s can't go on: that is noted, and the sweep goes on", cell->name);
    return STATUS_OK;
}

static enum status cells_run(struct sweep *s, struct base *base, struct comm *comm, bool *said) {
    struct pace pace = {0};
    enum status status = comm_agree(comm, sweep_write(s, comm));
    log_info("sweep: %zu tasks, %zu rates, %zu seeds: %zu of %zu runs have ended before", s->tasks.n, s->rates.n,
             s->seeds.n, s->n - sweep_count(s, SWEEP_WAITS), s->n);
    for (size_t i = 0; i < s->n && status == STATUS_OK; i++) {
        if (s->cells[i].state != SWEEP_WAITS)
            continue;
        TRY_GOTO(sweep_stopped(s, &pace, comm), done);
        pace_say(&pace, s, i);
        status = cell_run(s, &s->cells[i], base, comm, &pace, said);
        if (status == STATUS_DATA)
            status = comm_agree(comm, cell_trouble(&s->cells[i], comm, *said));
        TRY_GOTO(status, done);
        *said = false;
        status = comm_agree(comm, sweep_write(s, comm));
    }
done:
    if (status != STATUS_OK && comm->rank == 0)
        log_info("sweep: %zu of %zu runs are done: %s/sweep.md", sweep_count(s, SWEEP_DONE), s->n, s->job->out);
    return status;
}

// ---- all of it

static bool sweep_has(const struct job *job, const char *name) {
    char *path = path_join(job->out, name);
    bool has = path && file_exists(path);
    free(path);
    return has;
}

// Its numbers are there, or runs of its cells.
static bool sweep_begun(const struct sweep *s) {
    bool begun = sweep_has(s->job, FOLDER_SWEEP);
    for (size_t i = 0; i < s->n && !begun; i++)
        begun = sweep_has(s->cells[i].job, "events.jsonl");
    return begun;
}

// A run has events in its folder, a sweep in its cells' alone.
static enum status sweep_kind(const struct sweep *s) {
    const struct job *job = s->job;
    TRY(file_place("out", job->out));
    if (sweep_has(job, "events.jsonl"))
        return status_set(STATUS_USAGE, "out: %s is a run's folder (it holds events.jsonl): a sweep needs another out",
                          job->out);
    TRY(written_file(job->out, FOLDER_SWEEP, true));
    return written_file(job->out, "sweep.md", sweep_begun(s));
}

// Of the cells that are still to be run.
static enum status sweep_places(const struct sweep *s) {
    for (size_t i = 0; i < s->n; i++)
        if (s->cells[i].state == SWEEP_WAITS)
            TRY(places_check(s->cells[i].job));
    return STATUS_OK;
}

static enum status sweep_claim(struct owner **owner, const struct sweep *s, const struct comm *comm) {
    if (comm->rank != 0)
        return STATUS_OK;
    TRY(file_make_place(NULL, "out", s->job->out));
    return owner_take(owner, s->job->out, "out");
}

static bool cell_is_bad(const struct sweep_cell *cell, bool troubled) {
    return troubled ? cell->trouble != NULL : cell->state == SWEEP_DIVERGED;
}

// "2 of 8 runs diverged: a, b (a lower rate may help)"
static void bad_add(struct text *out, const struct sweep *s, bool troubled, const char *what, const char *hint) {
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += cell_is_bad(&s->cells[i], troubled);
    if (n)
        text_printf(out, "%s%zu of %zu runs %s:", out->size ? "; " : "", n, s->n, what);
    for (size_t i = 0, shown = 0; i < s->n && n; i++)
        if (cell_is_bad(&s->cells[i], troubled) && shown < BAD_SHOWN)
            text_printf(out, "%s%s", shown++ ? ", " : " ", s->cells[i].name);
    if (n)
        text_printf(out, "%s (%s)", n > BAD_SHOWN ? ", ..." : "", hint);
}

// 65 if runs diverged or could not go on.
static enum status sweep_ended(const struct sweep *s) {
    struct text bad = {0};
    bad_add(&bad, s, true, "can't go on", "why stands above and in sweep.json");
    bad_add(&bad, s, false, "diverged", "a lower rate may help");
    enum status status = bad.size ? status_set(STATUS_DATA, "sweep: %s", text_string(&bad)) : STATUS_OK;
    text_release(&bad);
    return status;
}

static enum status sweep_phases(struct sweep *s, struct base *base, struct comm *comm, bool dry, bool *said) {
    struct owner *owner = NULL;
    TRY(comm_agree(comm, stop_install()));
    TRY(comm_agree(comm, comm->rank == 0 ? sweep_kind(s) : STATUS_OK));
    TRY(intact_base(s->cells[0].job, comm));
    TRY(base_open(base, s->cells[0].job, comm));
    TRY(sweep_look(s, base, comm));
    TRY(comm_agree(comm, comm->rank == 0 ? sweep_places(s) : STATUS_OK));
    if (dry)
        return sweep_dry(s, base, comm);
    enum status status = comm_agree(comm, sweep_claim(&owner, s, comm));
    if (status == STATUS_OK)
        status = cells_run(s, base, comm, said);
    owner_release(owner);
    if (status == STATUS_OK && comm->rank == 0)
        sweep_show(s);
    return status == STATUS_OK ? sweep_ended(s) : status;
}

static enum status sweep_world(struct sweep *s, struct comm *comm, bool dry) {
    struct base base = {0};
    bool said = false;
    enum status status = sweep_phases(s, &base, comm, dry, &said);
    if (status != STATUS_OK && !said && comm_speaks(comm))
        log_error("%s", status_message());
    base_close(&base);
    return status;
}

static enum status sweep_start(struct sweep *s, bool dry) {
    struct comm *comm = NULL;
    enum status status = comm_open(&comm, s->job->comm.backend);
    if (status != STATUS_OK)
        return verb_exit(status), status;
    log_setup((enum log_level)s->job->log.level, comm->rank, comm->world);
    status = comm_watch(comm, s->job->comm.timeout);
    if (status == STATUS_OK)
        status = sweep_world(s, comm, dry);
    else if (comm_speaks(comm))
        log_error("%s", status_message());
    comm_close(comm);
    return status;
}

static bool dry;
static const struct flag flags[] = {
    {"--dry-run", FLAG_SWITCH, &dry, NULL,
     "says which runs are done, and of the others what they would take; refuses what they would refuse; writes nothing",
     NULL, false},
    FLAGS_END,
};

const struct verb_flags verb_sweep_flags = {
    .verb = "sweep",
    .usage = "[JOB.yaml] [--dry-run] [--key value …]",
    .about =
        "A run for each of sweep.tasks, sweep.rates and sweep.seeds, one after the other, each in a folder of its own, "
        "<out>/<task>/lr-<rate>-seed-<seed>; what was given no list is as in the job. The base model is opened once.\n"
        "Prints a table, and writes it into <out>/sweep.md and sweep.json: by task and rate the mean and spread over "
        "the "
        "seeds of the official metric, the best rate by its mean on val, differences of two rates seed by seed, and "
        "with TweetEval's seven tasks its total.\n"
        "Start it alone, or under mpirun or srun. The same command again goes on where it was; a run that is done is "
        "not "
        "opened again. train.max_time counts all runs of a start.\n"
        "Exit codes as of run; 65 also if a run diverged: it is noted, and the others are made.",
    .flags = flags,
    .words = "FILE",
    .keys = true,
    .examples =
        "finetuned sweep job.yaml --sweep.seeds 1,2,3 --sweep.rates 1e-5,3e-5,5e-5\n"
        "mpirun -np 4 finetuned sweep job.yaml --sweep.tasks emoji,emotion,hate,irony,offensive,sentiment,stance",
};

int verb_sweep(int argc, char **argv) {
    enum status status = stop_install(); // first of all: a launcher may pass a signal on while we start
    signal(SIGPIPE, SIG_IGN);            // a closed standard output must not end a run
    struct sweep sweep;
    struct job_words words = {0};
    bool helped = false;
    if (status == STATUS_OK)
        status = flags_parse_job(&words, &verb_sweep_flags, argc, argv, &helped);
    if (status == STATUS_OK && !helped && !words.file && !words.n_options)
        status = status_set(STATUS_USAGE, "sweep: of which job? Give a job file (finetuned config --yaml prints one to "
                                          "edit), or its keys as flags");
    if (status == STATUS_OK && !helped)
        status = sweep_open(&sweep, &words);
    job_words_release(&words);
    if (status != STATUS_OK || helped)
        return helped ? 0 : verb_refused(status);
    status = sweep_start(&sweep, dry);
    sweep_close(&sweep);
    return status == STATUS_OK ? verb_exit(status) : status_exit_code(status);
}
