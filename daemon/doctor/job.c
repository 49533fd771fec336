// SPDX-License-Identifier: Apache-2.0
// The job, opened as run opens it, with nothing written.
#include "daemon/doctor/doctor.h"

#include "daemon/verify/intact.h"
#include "daemon/paths/places.h"

#include <stdlib.h>

static enum status job_look(struct doctor *d, struct comm *comm) {
    TRY(places_agree(d->job, comm));
    TRY(intact_base(d->job, comm));
    TRY(base_open(&d->base, d->job, comm));
    d->trainer = calloc(1, sizeof *d->trainer);
    if (!d->trainer)
        return status_set(STATUS_SYSTEM, "doctor: no memory");
    TRY(trainer_look(d->trainer, d->job, &d->base, comm));
    return comm_agree(comm, dry_report_open(&d->report, d->trainer));
}

void doctor_job_open(struct doctor *d, enum status refused) {
    struct comm *comm = d->comm;
    d->job_status = d->comm ? comm_agree(d->comm, refused) : refused;
    if (d->job_status == STATUS_OK && d->job) {
        if (!comm)
            d->job_status = comm_open(&comm, JOB_BACKEND_SELF);
        if (d->job_status == STATUS_OK)
            d->job_status = job_look(d, comm);
    }
    if (d->job_status != STATUS_OK) {
        d->job_message = strdup(status_message());
        if (d->trainer)
            trainer_close(d->trainer);
        free(d->trainer);
        d->trainer = NULL;
    }
    d->own = d->comm ? NULL : comm;
}

static const char *job_fix(enum status status) {
    switch (status) {
    case STATUS_USAGE:
        return "change the job; finetuned config lists every key";
    case STATUS_AGAIN:
        return "wait for the other run, or set another out";
    default:
        return "see the message; finetuned run would end with it";
    }
}

void doctor_job(struct doctor *d) {
    const struct trainer *t = d->trainer;
    if (d->job_status != STATUS_OK) {
        doctor_fail(d, d->job_status, job_fix(d->job_status), "%s", d->job_message ? d->job_message : "refused");
        return;
    }
    if (!t)
        return;
    doctor_ok(d, "%s: %llu parameters, %u train %s, %llu steps to go; %s", t->job->job,
              (unsigned long long)t->table.count, t->inputs.shards[SPLIT_TRAIN].n,
              t->inputs.shards[SPLIT_TRAIN].spans ? "windows" : "texts", (unsigned long long)d->report.work.steps,
              t->complete ? "it is complete"
              : t->from   ? "it goes on from a checkpoint"
                          : "a fresh start");
}
