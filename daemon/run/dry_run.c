// SPDX-License-Identifier: Apache-2.0
#include "daemon/run/dry_run.h"

#include "base/file.h"
#include "base/host.h"
#include "base/log.h"
#include "base/text.h"
#include "daemon/units.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

typedef unsigned long long ull;

// ---- sizes

static enum status room_open(struct dry_room *out, const char *path, uint64_t needed, uint64_t files,
                             const char *what) {
    struct statvfs info;
    *out = (struct dry_room){.folder = file_nearest_folder(path), .needed = needed, .files = files, .what = what};
    if (!out->folder)
        return status_set(STATUS_SYSTEM, "dry run: no memory");
    if (statvfs(out->folder, &info) != 0)
        return status_errno(STATUS_IO, "free space of %s", out->folder);
    out->free = (uint64_t)info.f_bavail * info.f_frsize;
    out->files_free = info.f_files > 0 ? (uint64_t)info.f_favail : UINT64_MAX;
    return STATUS_OK;
}

static bool rooms_same(const struct dry_room *a, const struct dry_room *b) {
    struct stat x, y;
    return stat(a->folder, &x) == 0 && stat(b->folder, &y) == 0 && x.st_dev == y.st_dev;
}

static enum status rooms_open(struct dry_report *r) {
    const struct job *job = r->trainer->job;
    uint64_t more = r->disk.most > r->disk.there ? r->disk.most - r->disk.there : 0;
    if (!more && r->work.steps)
        more = 1; // the old ones go when the new one is there
    TRY(room_open(&r->rooms[r->n_rooms++], job->checkpoints.dir, more * r->disk.checkpoint,
                  more * r->disk.checkpoint_files, "checkpoints"));
    TRY(room_open(&r->rooms[r->n_rooms++], job->out, r->disk.model + r->disk.artifacts + r->disk.shards, r->disk.files,
                  "model and artifacts"));
    if (rooms_same(&r->rooms[0], &r->rooms[1])) {
        r->rooms[0].needed += r->rooms[1].needed;
        r->rooms[0].files += r->rooms[1].files;
        r->rooms[0].what = "the run";
        free(r->rooms[--r->n_rooms].folder);
    }
    return STATUS_OK;
}

enum status dry_report_open(struct dry_report *out, const struct trainer *t) {
    struct host_memory memory;
    *out = (struct dry_report){.trainer = t, .step = t->state.step, .memory = dry_memory(t), .work = dry_work(t)};
    out->available = host_memory(&memory, "") ? memory.available : HOST_NONE;
    TRY(dry_disk(&out->disk, t));
    return rooms_open(out);
}

void dry_report_close(struct dry_report *report) {
    for (unsigned i = 0; i < report->n_rooms; i++)
        free(report->rooms[i].folder);
}

uint64_t dry_report_memory(const struct dry_report *report) {
    return report->memory.total * (uint64_t)report->trainer->comm->local_world;
}

const char *dry_advice(const struct job *job) {
    return job->checkpoints.keep > 1 ? "lower checkpoints.keep, " : "";
}

enum status dry_report_room(const struct dry_report *report) {
    for (unsigned i = 0; i < report->n_rooms; i++) {
        const struct dry_room *room = &report->rooms[i];
        if (room->needed && room->files > room->files_free)
            return status_set(
                STATUS_IO,
                "%s: %s needs up to %llu more files and folders, and %llu inodes are left for them, "
                "whatever room there is: remove some files there (see df -i), %sor set checkpoints.dir or "
                "out to another disk",
                room->folder, room->what, (ull)room->files, (ull)room->files_free, dry_advice(report->trainer->job));
        if (room->needed > room->free)
            return status_set(STATUS_IO,
                              "%s: %s needs up to %s more, %s is free: free some, %sor set checkpoints.dir or out to "
                              "another disk",
                              room->folder, room->what, unit_bytes(room->needed).text, unit_bytes(room->free).text,
                              dry_advice(report->trainer->job));
    }
    return STATUS_OK;
}

enum status dry_room(const struct trainer *t) {
    struct dry_report report = {0};
    enum status status = dry_report_open(&report, t);
    if (status == STATUS_OK)
        status = dry_report_room(&report);
    dry_report_close(&report);
    return status;
}

static bool report_fits(const struct dry_report *r) {
    return r->available == HOST_NONE || dry_report_memory(r) <= r->available;
}

// ---- for people

static void print_start(const struct dry_report *r) {
    const struct trainer *t = r->trainer;
    if (t->complete)
        printf("start        complete at step %llu: only what is missing would be made\n", (ull)r->step);
    else if (t->end == TRAINER_FINISHED)
        printf("start        at its last step already, %llu: it would be scored and exported\n", (ull)r->step);
    else if (t->from)
        printf("start        goes on behind step %llu, from %s\n", (ull)r->step, t->from);
    else
        printf("start        fresh\n");
}

static void print_data(const struct trainer *t) {
    const struct shard *s = t->inputs.shards;
    printf("data         %u train, %u val, %u test %s; %.1f tokens on average, the longest has %u\n", s[SPLIT_TRAIN].n,
           s[SPLIT_VAL].n, s[SPLIT_TEST].n, t->job->data.format == JOB_SQUAD ? "windows" : "texts",
           s[SPLIT_TRAIN].n ? (double)s[SPLIT_TRAIN].tokens / s[SPLIT_TRAIN].n : 0, s[SPLIT_TRAIN].longest);
}

static void print_steps(const struct dry_report *r) {
    const struct trainer *t = r->trainer;
    uint64_t batches = plan_batches(&t->plan);
    printf(
        "steps        %llu to go of %llu (%.2f epochs of %llu); %.0f tokens in %llu steps, val is scored %llu times\n",
        (ull)r->work.steps, (ull)t->state.steps_total, (double)t->state.steps_total / (double)batches, (ull)batches,
        (double)r->work.tokens, (ull)r->work.steps, (ull)r->work.evaluations);
    printf("batch        %u texts in %u part%s, %u on each rank; %u micro-batch%s a step at most, of up to %u tokens\n",
           t->plan.batch, t->plan.parts, t->plan.parts == 1 ? "" : "s", t->parts_own, t->max_micro,
           t->max_micro == 1 ? "" : "es", t->batch_tokens);
}

static void print_memory(const struct dry_report *r) {
    const struct dry_memory *m = &r->memory;
    printf("memory       %s a rank at most: weights %s, moments %s, gradients %s, activations %s, saves %s, other %s\n",
           unit_bytes(m->total).text, unit_bytes(m->weights).text, unit_bytes(m->moments).text,
           unit_bytes(m->gradients).text, unit_bytes(m->activations).text, unit_bytes(m->saves).text,
           unit_bytes(m->other).text);
    if (r->available != HOST_NONE)
        printf("             %s for %d rank%s of this host, %s available%s\n", unit_bytes(dry_report_memory(r)).text,
               r->trainer->comm->local_world, r->trainer->comm->local_world == 1 ? "" : "s",
               unit_bytes(r->available).text, report_fits(r) ? "" : ": TOO LITTLE");
}

static void print_disk(const struct dry_report *r) {
    printf("disk         %llu checkpoints at once at most (%llu there), %s each; model %s, artifacts up to %s\n",
           (ull)r->disk.most, (ull)r->disk.there, unit_bytes(r->disk.checkpoint).text, unit_bytes(r->disk.model).text,
           unit_bytes(r->disk.artifacts).text);
    for (unsigned i = 0; i < r->n_rooms; i++)
        printf("             up to %s more for %s, %s free in %s%s\n", unit_bytes(r->rooms[i].needed).text,
               r->rooms[i].what, unit_bytes(r->rooms[i].free).text, r->rooms[i].folder,
               r->rooms[i].needed > r->rooms[i].free ? ": TOO LITTLE" : "");
}

static void print_time(const struct dry_report *r) {
    const struct dry_time *time = &r->time;
    if (!r->work.steps)
        printf("time         nothing to train\n");
    else if (!time->steps)
        printf("time         not measured: the memory may not suffice\n");
    else
        printf("time         about %s: training %s, scoring %s; an estimate from %u steps of %.3f s in memory\n"
               "             (%.0f tokens/s), without saving and exporting\n",
               unit_seconds(time->train_s + time->score_s).text, unit_seconds(time->train_s).text,
               unit_seconds(time->score_s).text, time->steps, time->step_s, time->tokens_per_s);
    double most = r->trainer->job->train.max_time;
    if (time->steps && most > 0 && time->train_s > most)
        printf("             train.max_time stops it before, after %s\n", unit_seconds(most).text);
}

static void report_print(const struct dry_report *r) {
    const struct trainer *t = r->trainer;
    char *kinds = job_value(t->job, "export.to");
    printf("job          %s: %s on %s\n", t->job->job, t->job->data.task ? t->job->data.task : t->job->data.dir,
           t->job->model.base);
    print_start(r);
    printf("world        %d rank%s of %u thread%s, %s, %s kernels, %llu parameters\n", t->comm->world,
           t->comm->world == 1 ? "" : "s", pool_threads(t->pool), pool_threads(t->pool) == 1 ? "" : "s",
           t->state.precision, isa_name(t->ops->isa), (ull)t->table.count);
    print_data(t);
    print_steps(r);
    print_memory(r);
    print_disk(r);
    print_time(r);
    printf("makes        %s/model, report.json, report.md; artifacts %s\n", t->job->out, kinds ? kinds : "");
    printf("nothing was written below %s\n", t->job->out);
    free(kinds);
}

// ---- for programs

static const char *report_start(const struct trainer *t) {
    if (t->complete)
        return "complete";
    if (t->end == TRAINER_FINISHED)
        return "trained";
    return t->from ? "resume" : "fresh";
}

static void json_rooms(struct text *json, const struct dry_report *r) {
    text_puts(json, ", \"rooms\": [");
    for (unsigned i = 0; i < r->n_rooms; i++) {
        text_puts(json, i ? ", {\"folder\": " : "{\"folder\": ");
        json_string_add(json, r->rooms[i].folder);
        text_printf(json, ", \"needed\": %llu, \"free\": %llu}", (ull)r->rooms[i].needed, (ull)r->rooms[i].free);
    }
    text_puts(json, "]}");
}

static void json_time(struct text *json, const struct dry_time *time) {
    if (!time->steps) {
        text_puts(json, ", \"time\": null}");
        return;
    }
    text_printf(json, ", \"time\": {\"steps\": %u, \"step_s\": ", time->steps);
    json_number_add(json, time->step_s);
    text_puts(json, ", \"tokens_per_s\": ");
    json_number_add(json, time->tokens_per_s);
    text_puts(json, ", \"train_s\": ");
    json_number_add(json, time->train_s);
    text_puts(json, ", \"score_s\": ");
    json_number_add(json, time->score_s);
    text_puts(json, "}}");
}

static void report_json(const struct dry_report *r) {
    const struct trainer *t = r->trainer;
    const struct dry_memory *m = &r->memory;
    struct text json = {0};
    text_puts(&json, "{\"job\": ");
    json_string_add(&json, t->job->job);
    text_printf(&json, ", \"start\": \"%s\", \"step\": %llu, \"checkpoint\": ", report_start(t), (ull)r->step);
    if (t->from)
        json_string_add(&json, t->from);
    else
        text_puts(&json, "null");
    text_printf(&json,
                ", \"world\": %d, \"threads\": %u, \"precision\": \"%s\", \"isa\": \"%s\", \"parameters\": %llu"
                ", \"steps_total\": %llu, \"steps_left\": %llu, \"steps_an_epoch\": %llu, \"tokens_left\": %llu"
                ", \"evaluations\": %llu, \"parts\": %u, \"micro_batches\": %u, \"micro_tokens\": %u",
                t->comm->world, pool_threads(t->pool), t->state.precision, isa_name(t->ops->isa), (ull)t->table.count,
                (ull)t->state.steps_total, (ull)r->work.steps, (ull)plan_batches(&t->plan), (ull)r->work.tokens,
                (ull)r->work.evaluations, t->plan.parts, t->max_micro, t->batch_tokens);
    text_printf(&json,
                ", \"memory\": {\"weights\": %llu, \"moments\": %llu, \"gradients\": %llu, \"activations\": %llu, "
                "\"saves\": %llu, \"other\": %llu, \"rank\": %llu, \"host\": %llu, \"available\": ",
                (ull)m->weights, (ull)m->moments, (ull)m->gradients, (ull)m->activations, (ull)m->saves, (ull)m->other,
                (ull)m->total, (ull)dry_report_memory(r));
    text_printf(&json, r->available == HOST_NONE ? "null}" : "%llu}", (ull)r->available);
    text_printf(&json,
                ", \"disk\": {\"checkpoint\": %llu, \"checkpoints\": %llu, \"checkpoints_there\": %llu, \"model\": "
                "%llu, \"artifacts\": %llu, \"shards\": %llu",
                (ull)r->disk.checkpoint, (ull)r->disk.most, (ull)r->disk.there, (ull)r->disk.model,
                (ull)r->disk.artifacts, (ull)r->disk.shards);
    json_rooms(&json, r);
    json_time(&json, &r->time);
    if (text_string(&json))
        puts(text_string(&json));
    text_release(&json);
}

// ---- all of it

enum status dry_report_time(struct dry_report *r, struct trainer *t) {
    uint32_t skip = !r->work.steps || !report_fits(r);
    TRY(comm_flags(t->comm, &skip));
    return skip ? STATUS_OK : dry_time(&r->time, t, &r->work);
}

static enum status run_phases(struct trainer *t, const struct job *job, struct base *base, struct comm *comm,
                              bool json) {
    struct dry_report report = {0};
    enum status status;
    TRY(trainer_look(t, job, base, comm));
    TRY_GOTO(comm_agree(comm, dry_report_open(&report, t)), done);
    TRY_GOTO(dry_report_time(&report, t), done);
    if (comm->rank == 0)
        (json ? report_json : report_print)(&report);
    if (!report_fits(&report))
        log_warn("memory: this host's ranks may take %s, %s is available: lower train.max_tokens or start fewer ranks",
                 unit_bytes(dry_report_memory(&report)).text, unit_bytes(report.available).text);
    status = comm_agree(comm, dry_report_room(&report));
done:
    dry_report_close(&report);
    return status;
}

enum status dry_run(const struct job *job, struct base *base, struct comm *comm, bool json) {
    struct trainer *trainer = calloc(1, sizeof *trainer);
    if (!trainer)
        return status_set(STATUS_SYSTEM, "dry run: no memory");
    enum status status = run_phases(trainer, job, base, comm, json);
    if (status != STATUS_OK && comm->rank == 0)
        log_error("%s", status_message());
    trainer_close(trainer);
    free(trainer);
    return status;
}
