// SPDX-License-Identifier: Apache-2.0
#include "daemon/run/job.h"

#include "base/clock.h"

#include "daemon/run/dry_run.h"
#include "daemon/run/export.h"
#include "train/report.h"

// A disk that will be full is told before anything is trained.
static enum status run_room(const struct trainer *t) {
    bool asks = t->comm->rank == 0 && t->end == TRAINER_RUNNING;
    return comm_agree(t->comm, asks ? dry_room(t) : STATUS_OK);
}

static enum status run_phases(struct trainer *t, const struct job *job, struct base *base, struct comm *comm,
                              double spent) {
    uint32_t make;
    TRY(trainer_open(t, job, base, comm));
    t->spent = spent;
    TRY(run_room(t));
    TRY(trainer_run(t));
    TRY(run_missing(&make, t));
    if (!make)
        return STATUS_OK;
    TRY(trainer_finish(t, make & RUN_MAKES_REPORT));
    pulse_set(PULSE_EXPORT);
    TRY(run_export(t, make));
    pulse_set(PULSE_REPORT);
    if (make & RUN_MAKES_REPORT)
        TRY(report_write(t));
    return comm_agree(comm, trainer_end_event(t));
}

enum status run_job(struct run_result *out, const struct job *job, struct base *base, struct comm *comm, double spent) {
    struct trainer *trainer = calloc(1, sizeof *trainer);
    *out = (struct run_result){0};
    if (!trainer)
        return status_set(STATUS_SYSTEM, "run: no memory");
    enum status status = run_phases(trainer, job, base, comm, spent);
    if (status != STATUS_OK && comm_speaks(comm))
        log_error("%s", status_message());
    if (status != STATUS_OK)
        trainer_fail(trainer, status);
    *out = (struct run_result){.resumed = trainer->from != NULL,
                               .diverged = trainer->diverged,
                               .step = trainer->state.step,
                               .seconds = trainer->begun > 0 ? clock_seconds() - trainer->begun : 0};
    trainer_close(trainer);
    free(trainer);
    return status;
}
