// SPDX-License-Identifier: Apache-2.0
// finetuned sweep: a run for each task, rate and seed, in one start. A cell is an ordinary run in a folder of its own,
// <out>/<task>/lr-<rate>-seed-<seed>; what came of all is <out>/sweep.json and sweep.md.
#ifndef FINETUNED_DAEMON_SWEEP_SWEEP_H
#define FINETUNED_DAEMON_SWEEP_SWEEP_H

#include "base/job.h"
#include "base/text.h"
#include "comm/comm.h"
#include "daemon/flags.h"
#include "daemon/sweep/spread.h"
#include "train/base.h"
#include "train/inputs.h"

#define SWEEP_CELLS_MAX 4096

// The task's official metric: of the best model, and of the last step's.
enum sweep_score { SWEEP_VAL, SWEEP_TEST, SWEEP_LAST_VAL, SWEEP_LAST_TEST, SWEEP_SCORES };
extern const char *const sweep_score_names[SWEEP_SCORES]; // "val", "test", "last val", "last test"

enum sweep_state { SWEEP_WAITS, SWEEP_DONE, SWEEP_DIVERGED };
extern const char *const sweep_state_names[]; // "waiting", "done", "diverged"

struct sweep_cell {
    size_t task, rate, seed; // which of the lists
    char *name;              // its folder below the sweep's out
    struct job *job;
    enum sweep_state state;
    uint64_t step, best_step;    // how far it is; of a cell that is done also its best
    char metric[40];             // the official one's name, of a cell that is done
    double scores[SWEEP_SCORES]; // NaN: none
    char *trouble;               // why it could not go on in this start, one line; NULL: it could
};

struct sweep {
    struct job *job; // as it was given; its out is the sweep's
    struct job_list tasks, rates, seeds;
    struct sweep_cell *cells; // [tasks][rates][seeds]
    size_t n;
    struct inputs_facts *facts; // (tasks)
    char base_hash[33];
    struct job_list others; // rank 0: folders of runs that other lists made, sorted
};

// ---- sweep.c

// Lists and every cell's job, from the words of the command line. STATUS_USAGE: what no cell, or no sweep, can do.
enum status sweep_open(struct sweep *out, const struct job_words *words);
void sweep_close(struct sweep *sweep);
struct sweep_cell *sweep_cell(const struct sweep *sweep, size_t task, size_t rate, size_t seed);
// How many cells are in that state.
size_t sweep_count(const struct sweep *sweep, enum sweep_state state);

// ---- sweep_state.c

// Reads the data of every task and what is in the cells' folders: which are done or diverged. STATUS_DATA: data that is
// unusable, or a cell that was begun with another job. Writes nothing. Collective.
enum status sweep_look(struct sweep *sweep, struct base *base, struct comm *comm);
// What a cell that has ended scored, from its report.json.
enum status sweep_cell_read(struct sweep_cell *cell);

// ---- sweep_others.c

// Fills `others` by what is in the sweep's folder, and warns of them.
enum status sweep_others(struct sweep *sweep);

// ---- sweep_table.c

struct sweep_row {
    size_t cells[3]; // by enum sweep_state
    struct spread scores[SWEEP_SCORES];
};
struct sweep_row sweep_row(const struct sweep *sweep, size_t task, size_t rate);
// Rate a less rate b, seed by seed.
struct paired sweep_pair(const struct sweep *sweep, size_t task, size_t a, size_t b, enum sweep_score score);
// The rate with the highest mean on val (ties: the one that was given first) of those whose cells are all done;
// SIZE_MAX if there is none, or cells of the task are still to be run.
size_t sweep_best(const struct sweep *sweep, size_t task);
// The official metric's name, "" if no cell of the task is done.
const char *sweep_metric(const struct sweep *sweep, size_t task);
// A TweetEval task's part of the total: its mean on test at its best rate; NaN: none.
double sweep_part(const struct sweep *sweep, const char *task);
// TweetEval's total: the mean over its seven tasks of their parts. False: `missing` (may be NULL)
// gets the tasks that have none.
bool sweep_total(double *out, struct text *missing, const struct sweep *sweep);

// ---- sweep_print.c, sweep_json.c

void sweep_print_json(struct text *out, const struct sweep *sweep);
void sweep_print_markdown(struct text *out, const struct sweep *sweep);
void sweep_print_text(struct text *out, const struct sweep *sweep);

// ---- sweep_dry.c

// What the sweep would do, for people: cells and their state, an estimate a task. Collective; rank 0 prints. Refuses
// what the cells' runs would refuse.
enum status sweep_dry(const struct sweep *sweep, struct base *base, struct comm *comm);

#endif
