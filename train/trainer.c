// SPDX-License-Identifier: Apache-2.0
// A run as phases: open, run, finish.
#include "train/trainer.h"

#include "base/clock.h"
#include "base/file.h"
#include "model/peak.h"
#include "train/folder.h"
#include "train/stop.h"
#include "train/targets.h"

#include <unistd.h>

#define STOPPED_EARLY "before the first step of this start"

// <out>/job.yaml: the resolved job. Its paths are absolute, so that it can be read from any working directory, and it
// goes on from the newest checkpoint, whatever this start was told to begin with.
static enum status open_job_file(const struct trainer *t) {
    const struct job *job = t->job;
    char onwards[] = "auto";
    struct job resolved = *job;
    resolved.train.precision = trainer_bf16(t) ? JOB_BF16 : JOB_FP32;
    resolved.checkpoints.resume = onwards;
    char **paths[] = {&resolved.out,        &resolved.model.vocab,     &resolved.data.dir,
                      &resolved.data.cache, &resolved.checkpoints.dir, &resolved.model.base};
    size_t n = sizeof paths / sizeof *paths - base_random(job->model.base);
    char *made[sizeof paths / sizeof *paths] = {0}, *here = getcwd(NULL, 0), *yaml = NULL;
    enum status status = here ? STATUS_OK : status_errno(STATUS_IO, "trainer: the working directory");
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        made[i] = *paths[i] ? path_join(here, *paths[i]) : NULL;
        if (*paths[i] && !made[i])
            status = status_set(STATUS_SYSTEM, "trainer: no memory");
        *paths[i] = made[i];
    }
    char *path = path_join(job->out, "job.yaml");
    if (status == STATUS_OK)
        status = path ? job_print_yaml(&yaml, &resolved, false) : status_set(STATUS_SYSTEM, "trainer: no memory");
    char *text = yaml ? text_format("%s%s", JOB_FILE_WRITTEN, yaml) : NULL;
    if (status == STATUS_OK)
        status = text ? file_replace(path, text, strlen(text)) : status_set(STATUS_SYSTEM, "trainer: no memory");
    free(text);
    for (size_t i = 0; i < n; i++)
        free(made[i]);
    free(yaml);
    free(path);
    free(here);
    return status;
}

// Ranks that share a mask share its CPUs.
static unsigned open_threads(const struct trainer *t) {
    unsigned cpus = pool_cpus(), host = pool_cpus_host(), ranks = (unsigned)t->comm->local_world;
    if (t->job->threads)
        return (unsigned)t->job->threads;
    if (cpus == 1 && host > 1 && t->comm->local_rank == 0)
        log_warn(
            "threads: rank %d may use one CPU of %u: start mpirun with --bind-to none or --map-by slot:PE=n for more",
            t->comm->rank, host);
    return cpus * ranks > host ? (host / ranks ? (host / ranks < cpus ? host / ranks : cpus) : 1) : cpus;
}

static enum status open_hardware(struct trainer *t) {
    enum isa isa;
    TRY(isa_choose(&isa));
    t->ops = ops_table(isa);
    if (!t->ops)
        return status_set(STATUS_DEVICE, "this build has no kernels for %s", isa_name(isa));
    precision_begin(t);
    TRY(pool_open(&t->pool, open_threads(t)));
    t->checkpoints.pool = t->pool;
    return STATUS_OK;
}

// Without a trace where a run would have made token shards: what is mapped stays when the folder goes.
static enum status look_tokens(struct trainer *t) {
    const char *root = getenv("TMPDIR");
    char *spare = text_format("%s/finetuned-look-XXXXXX", root && *root ? root : "/tmp");
    bool made = spare && mkdtemp(spare);
    enum status status =
        made ? STATUS_OK
             : status_errno(STATUS_IO, "a temporary folder %s (TMPDIR says where; set it to one that can be written)",
                            spare ? spare : "");
    status = comm_agree(t->comm, status);
    t->inputs.spare = spare;
    if (status == STATUS_OK)
        status = inputs_tokenise(&t->inputs, t->job, t->comm, t->pool);
    t->inputs.spare = NULL;
    if (made)
        file_remove(spare);
    free(spare);
    return status;
}

static enum status open_tokens(struct trainer *t) {
    double begun = clock_seconds();
    enum status status = t->look ? look_tokens(t) : inputs_tokenise(&t->inputs, t->job, t->comm, t->pool);
    t->times.tokenise = clock_seconds() - begun;
    return status;
}

static enum status start_event(struct trainer *t) {
    const struct inputs *in = &t->inputs;
    log_info("start: %s on %s, world %d, %u threads each, %s, %s kernels, %llu parameters, %u parts, %llu steps",
             t->job->job, t->job->data.task, t->comm->world, pool_threads(t->pool), t->state.precision,
             isa_name(t->ops->isa), (unsigned long long)t->table.count, t->plan.parts,
             (unsigned long long)t->state.steps_total);
    event_begin(&t->events, "start");
    event_integer(&t->events, "world", t->comm->world);
    event_integer(&t->events, "threads", pool_threads(t->pool));
    event_string(&t->events, "precision", t->state.precision);
    event_string(&t->events, "isa", isa_name(t->ops->isa));
    event_string(&t->events, "backend", t->comm->ops->name);
    event_string(&t->events, "fabric", "none");
    text_printf(&t->events.line, ", \"data\": {\"hash\": \"%s\", \"train\": %u, \"val\": %u, \"test\": %u}",
                in->data_hash, in->shards[SPLIT_TRAIN].n, in->shards[SPLIT_VAL].n, in->shards[SPLIT_TEST].n);
    event_string(&t->events, "base", t->job->model.base);
    event_string(&t->events, "base_hash", in->base_hash);
    event_integer(&t->events, "parameters", (int64_t)t->table.count);
    event_integer(&t->events, "parts", t->plan.parts);
    event_integer(&t->events, "steps_total", (int64_t)t->state.steps_total);
    event_string(&t->events, "config_hash", t->state.config_hash);
    return event_end(&t->events);
}

bool trainer_ended(const struct trainer *t) {
    const struct job *job = t->job;
    if (job->train.early_stopping && t->state.evaluations_without_gain >= (uint64_t)job->train.early_stopping)
        return true;
    if (job->train.max_steps)
        return t->state.step >= (uint64_t)job->train.max_steps;
    return t->state.cursor >= (uint64_t)job->train.epochs * plan_batches(&t->plan);
}

static enum status open_ready(struct trainer *t) {
    bool fewer = t->complete && t->state.steps_total < t->state.step; // not the job that was run
    if (t->comm->rank == 0 && !t->look && !fewer) {
        TRY(folder_held(t));
        TRY(open_job_file(t));
    }
    pulse_step(t->state.step);
    t->started = clock_seconds();
    t->meter.since = t->started;
    t->weights_step = t->state.step;
    t->weights_epoch = t->state.epoch;
    t->end = trainer_ended(t) ? TRAINER_FINISHED : TRAINER_RUNNING;
    t->idle = t->from && trainer_ended(t) && !t->state.evaluation_due && !t->best_lost;
    if (t->look)
        return STATUS_OK;
    TRY(peak_measure(&t->peak_flops, t->ops, t->pool, trainer_bf16(t)));
    t->peak_flops *= t->comm->world;
    if (t->from && !t->complete && t->state.steps_total < t->state.step)
        log_warn("%s is at step %llu, and this job asks for %llu: nothing is trained, and its models are those of the "
                 "longer run; fewer steps need another out",
                 t->from, (unsigned long long)t->state.step, (unsigned long long)t->state.steps_total);
    if (t->complete)
        log_info("%s is already complete at step %llu%s: only what is missing is made", t->job->out,
                 (unsigned long long)t->state.step,
                 t->state.steps_total < t->state.step ? " (this job asks for fewer steps; that needs another out)"
                                                      : "");
    return STATUS_OK;
}

// The first step is about to begin.
static enum status run_start(struct trainer *t) {
    if (t->complete)
        return STATUS_OK;
    if (t->comm->rank == 0 && t->job->log.tensorboard)
        TRY(tensorboard_open(&t->board, t->job->out, t->state.step + 1));
    return start_event(t);
}

static enum status trainer_phases(struct trainer *t, const struct job *job, struct base *base, struct comm *comm,
                                  bool look) {
    *t = (struct trainer){.job = job,
                          .base = base,
                          .comm = comm,
                          .look = look,
                          .events.fd = -1,
                          .board.fd = -1,
                          .state.format = CHECKPOINT_FORMAT};
    t->checkpoints = (struct checkpoint_dir){.path = job->checkpoints.dir,
                                             .keep = (uint32_t)job->checkpoints.keep,
                                             .buffer = (uint64_t)job->checkpoints.buffer};
    pulse_set(PULSE_START);
    TRY(stop_install());
    TRY(comm_agree(comm, setup_world(t)));
    TRY(comm_agree(comm, open_hardware(t)));
    TRY(folder_claim(t));
    TRY(folder_shared(t));
    TRY(inputs_begin(&t->inputs, job, base, comm));
    TRY(resume_choose(t));
    TRY(precision_settle(t));
    TRY(boundary_asked(t, STOPPED_EARLY));
    pulse_set(PULSE_TOKENISE);
    TRY(open_tokens(t));
    pulse_set(PULSE_START);
    TRY(boundary_asked(t, STOPPED_EARLY));
    TRY(comm_agree(comm, setup_plan(t)));
    TRY(comm_agree(comm, setup_model(t)));
    TRY(resume_load(t));
    TRY(folder_settle(t));
    TRY(resume_open(t));
    return comm_agree(comm, open_ready(t));
}

enum status trainer_open(struct trainer *t, const struct job *job, struct base *base, struct comm *comm) {
    return trainer_phases(t, job, base, comm, false);
}

enum status trainer_look(struct trainer *t, const struct job *job, struct base *base, struct comm *comm) {
    return trainer_phases(t, job, base, comm, true);
}

void trainer_close(struct trainer *t) {
    save_drop(t);
    lost_close(&t->lost);
    checkpoint_choice_release(&t->choice);
    free(t->from);
    optimizer_close(t->optimizer);
    buckets_close(t->buckets);
    pass_close(t->pass);
    arena_release(&t->arena);
    arena_release(&t->copy_arena);
    param_table_release(&t->table);
    row_set_release(&t->rows);
    row_set_release(&t->changes);
    free(t->part_losses);
    targets_close(t);
    batch_close(&t->batch);
    plan_close(&t->plan);
    trainer_state_release(&t->state);
    for (int split = 0; split < SPLITS; split++) {
        evaluation_release(&t->best[split]);
        evaluation_release(&t->last[split]);
    }
    inputs_close(&t->inputs);
    events_close(&t->events);
    tensorboard_close(&t->board);
    pool_close(t->pool);
    owner_release(t->owners[1]);
    owner_release(t->owners[0]);
    folder_unmake(t);
}

enum status trainer_failed(struct trainer *t, enum status status) {
    if (t->comm->world == 1)
        return status;
    log_error("step %llu: %s", (unsigned long long)t->state.step, status_message());
    save_drop(t);
    comm_abort(t->comm, status_exit_code(status));
}

// Stopped between two evaluations, and now told to end there (a lower train.max_steps): its first evaluation is still
// to come.
static enum status run_unevaluated(struct trainer *t) {
    if (t->end != TRAINER_FINISHED || t->complete || t->best_lost || t->state.best_step != 0 || t->state.step == 0)
        return STATUS_OK;
    t->idle = false;
    t->state.evaluation_due = 1;
    return boundary_due(t);
}

enum status trainer_run(struct trainer *t) {
    pulse_set(PULSE_BOUNDARY);
    TRY(comm_agree(t->comm, run_start(t)));
    TRY(boundary_asked(t, STOPPED_EARLY));
    TRY(boundary_due(t));
    TRY(run_unevaluated(t));
    double besides = t->times.evaluate + t->times.save;
    const bool steps = t->end == TRAINER_RUNNING;
    t->begun = clock_seconds();
    while (t->end == TRAINER_RUNNING) {
        struct step_result result;
        enum status status = train_step(t, &result);
        if (status != STATUS_OK)
            return trainer_failed(t, status);
        TRY(trainer_boundary(t, &result));
        if (trainer_ended(t))
            t->end = TRAINER_FINISHED;
    }
    TRY(save_wait(t));
    t->trained_s = clock_seconds() - t->started;
    t->times.steps = steps ? clock_seconds() - t->begun - (t->times.evaluate + t->times.save - besides) : 0;
    return STATUS_OK;
}
