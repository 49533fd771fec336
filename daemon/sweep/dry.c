// SPDX-License-Identifier: Apache-2.0
// finetuned sweep --dry-run: which cells are done, and what the others would take. Cells of a task differ in seed and
// rate alone, so that one of them tells of all.
#include "daemon/run/dry_run.h"
#include "daemon/sweep/sweep.h"
#include "daemon/units.h"

#include <inttypes.h>

struct estimate {
    size_t cells;        // of the task, to be run
    uint64_t steps;      // of a run
    double seconds;      // of all of them; NaN: not measured
    uint64_t bytes;      // on disk, of all of them
    uint64_t free;       // where the checkpoints go
    char folder[256];    // of `free`
    enum status refused; // too little memory or disk for one run
};

// A fresh one stands for all; else one that has been begun.
static const struct sweep_cell *cell_of(const struct sweep *s, size_t task, size_t *waiting) {
    const struct sweep_cell *found = NULL;
    *waiting = 0;
    for (size_t rate = 0; rate < s->rates.n; rate++)
        for (size_t seed = 0; seed < s->seeds.n; seed++) {
            const struct sweep_cell *cell = sweep_cell(s, task, rate, seed);
            if (cell->state != SWEEP_WAITS)
                continue;
            ++*waiting;
            if (!found || (found->step && !cell->step))
                found = cell;
        }
    return found;
}

static enum status estimate_take(struct estimate *out, struct trainer *t, size_t cells) {
    struct dry_report report = {0};
    enum status status = comm_agree(t->comm, dry_report_open(&report, t));
    if (status == STATUS_OK)
        status = dry_report_time(&report, t);
    if (status == STATUS_OK)
        status = comm_agree(t->comm, dry_report_room(&report));
    if (status == STATUS_OK) {
        *out = (struct estimate){.cells = cells, .steps = t->state.steps_total};
        for (unsigned i = 0; i < report.n_rooms; i++)
            out->bytes += report.rooms[i].needed * cells;
        out->free = report.rooms[0].free;
        snprintf(out->folder, sizeof out->folder, "%s", report.rooms[0].folder);
        out->seconds = report.time.steps ? (report.time.train_s + report.time.score_s) * (double)cells : -1;
    }
    dry_report_close(&report);
    return status;
}

static enum status estimate_task(struct estimate *out, const struct sweep *s, size_t task, struct base *base,
                                 struct comm *comm) {
    size_t waiting;
    const struct sweep_cell *cell = cell_of(s, task, &waiting);
    *out = (struct estimate){0};
    if (!cell)
        return STATUS_OK;
    struct trainer *trainer = calloc(1, sizeof *trainer);
    TRY(comm_agree(comm, trainer ? STATUS_OK : status_set(STATUS_SYSTEM, "sweep: no memory")));
    enum status status = trainer_look(trainer, cell->job, base, comm);
    if (status == STATUS_OK)
        status = estimate_take(out, trainer, waiting);
    trainer_close(trainer);
    free(trainer);
    return status;
}

static void print_cells(const struct sweep *s) {
    for (size_t i = 0; i < s->n; i++) {
        const struct sweep_cell *cell = &s->cells[i];
        printf("%-40s %s", cell->name, cell->state == SWEEP_WAITS ? "" : sweep_state_names[cell->state]);
        if (cell->state == SWEEP_DIVERGED)
            printf(" after step %" PRIu64, cell->step);
        if (cell->state == SWEEP_WAITS)
            printf(cell->step ? "goes on behind step %" PRIu64 : "to be run", cell->step);
        printf("\n");
    }
}

static void print_estimates(const struct sweep *s, const struct estimate *at) {
    double seconds = 0;
    uint64_t bytes = 0;
    bool all = true;
    for (size_t task = 0; task < s->tasks.n; task++) {
        const struct estimate *e = &at[task];
        if (!e->cells)
            continue;
        printf("%s: %zu to be run, %" PRIu64 " steps each", s->tasks.at[task], e->cells, e->steps);
        if (e->seconds >= 0)
            printf(", about %s in all", unit_seconds(e->seconds).text);
        printf("\n");
        seconds += e->seconds;
        bytes += e->bytes;
        all = all && e->seconds >= 0;
    }
    if (all && seconds > 0)
        printf("about %s for all, without saving and exporting\n", unit_seconds(seconds).text);
    if (bytes)
        printf("up to %s on disk\n", unit_bytes(bytes).text);
    printf("nothing was written below %s\n", s->job->out);
}

// Each run would find room; all of them must.
static enum status check_room(const struct sweep *s, const struct estimate *at) {
    uint64_t bytes = 0;
    const struct estimate *last = NULL;
    for (size_t task = 0; task < s->tasks.n; task++) {
        bytes += at[task].bytes;
        last = at[task].cells ? &at[task] : last;
    }
    if (!last || bytes <= last->free)
        return STATUS_OK;
    return status_set(STATUS_IO, "%s: the sweep needs up to %s, %s is free: free some, %sor set out to another disk",
                      last->folder, unit_bytes(bytes).text, unit_bytes(last->free).text, dry_advice(s->job));
}

enum status sweep_dry(const struct sweep *s, struct base *base, struct comm *comm) {
    struct estimate *at = calloc(s->tasks.n, sizeof *at);
    enum status status = comm_agree(comm, at ? STATUS_OK : status_set(STATUS_SYSTEM, "sweep: no memory"));
    for (size_t task = 0; task < s->tasks.n && status == STATUS_OK; task++)
        status = estimate_task(&at[task], s, task, base, comm);
    if (status == STATUS_OK && comm->rank == 0) {
        print_cells(s);
        print_estimates(s, at);
        status = check_room(s, at);
    }
    free(at);
    return comm_agree(comm, status);
}
