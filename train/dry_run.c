// SPDX-License-Identifier: Apache-2.0
#include "train/dry_run.h"

#include "base/clock.h"

#include "checkpoints/steps.h"
#include "train/micro.h"
#include "train/stop.h"

#include <sys/stat.h>

#define TIMED_SECONDS 2.0 // of training steps
#define TIMED_LEAST 2     // steps
#define TIMED_MOST 50
#define PROGRAM_BYTES ((uint64_t)64 << 20) // code, libraries, MPI's buffers, tokenizer: measured 40 to 60 MiB

struct dry_memory dry_memory(const struct trainer *t) {
    struct dry_memory m = {.weights = t->arena.size + t->copy_arena.size,
                           .moments = 2 * t->arena.size,
                           .gradients = t->gradients_bytes,
                           .activations = pass_bytes(t->pass),
                           .saves = save_aside(t),
                           .other = PROGRAM_BYTES};
    for (int split = 0; split < SPLITS; split++)
        m.other += t->inputs.shards[split].map.size;
    m.total = m.weights + m.moments + m.gradients + m.activations + m.saves + m.other;
    return m;
}

// ---- disk

static uint64_t disk_artifacts(const struct job *job) {
    uint64_t n = 0;
    for (int kind = 0; kind < JOB_EXPORTS; kind++)
        n += job->export.to[kind];
    return n;
}

// Of the tokenizer's files and the like: what a model directory holds beside its weights.
static uint64_t disk_base_files(const struct job *job) {
    static const char *const names[] = {"tokenizer.json", "vocab.json", "merges.txt", "vocab.txt"};
    uint64_t bytes = 65536;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *folder = base_random(job->model.base) ? job->model.vocab : job->model.base;
        char *path = folder ? path_join(folder, names[i]) : NULL;
        struct stat info;
        bytes += path && stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
        free(path);
    }
    return bytes;
}

// A model's directory has ten and one on its way, in an archive some of code, too; beside them two links and one on its
// way, report.json, report.md, job.yaml, artifacts, tensorboard and its file; the shards, their folder and a lock.
static void disk_files(struct dry_disk *out, const struct trainer *t, uint64_t kinds) {
    out->checkpoint_files = 3; // its folder, checkpoint.h5, MANIFEST.json
    out->files = 11 + 3 + 4 + (kinds ? 1 + kinds + 16 : 0) + (t->job->log.tensorboard ? 2 : 0);
    out->files += out->shards ? SPLITS + 2 : 0;
}

enum status dry_disk(struct dry_disk *out, const struct trainer *t) {
    const struct job *job = t->job;
    struct steps steps;
    *out = (struct dry_disk){0};
    TRY(checkpoint_size(&out->checkpoint, &t->table, &t->state));
    TRY(steps_list(&steps, job->checkpoints.dir));
    out->there = steps.n;
    steps_release(&steps);
    struct dry_work work = dry_work(t);
    uint64_t periodic = job->checkpoints.every ? work.steps / (uint64_t)job->checkpoints.every : 0;
    uint64_t epochs = work.steps / plan_batches(&t->plan) + 1;
    uint64_t made = work.steps ? out->there + periodic + epochs + work.evaluations : out->there;
    uint64_t most = (uint64_t)job->checkpoints.keep + 2;
    out->most = made < most ? made : most;
    out->model = t->table.count * (job->export.dtype == JOB_BF16 ? 2 : 4) + disk_base_files(job);
    uint64_t kinds = disk_artifacts(job);
    out->artifacts = (kinds + (kinds > 0)) * out->model; // one directory more while an archive is being made of it
    for (int split = 0; split < SPLITS && t->look; split++)
        out->shards += t->inputs.made[split] ? t->inputs.shards[split].map.size : 0;
    disk_files(out, t, kinds);
    return STATUS_OK;
}

// ---- work

static uint64_t work_evaluations(const struct trainer *t, uint64_t steps) {
    uint64_t every = (uint64_t)t->job->train.eval_every, batches = plan_batches(&t->plan);
    uint64_t from = every ? t->state.step : t->state.cursor, to = from + steps, each = every ? every : batches;
    return steps ? to / each - from / each + (to % each != 0) : 0;
}

struct dry_work dry_work(const struct trainer *t) {
    const struct shard *shards = t->inputs.shards;
    uint64_t done = t->job->train.max_steps ? t->state.step : t->state.cursor;
    struct dry_work work = {.steps = t->state.steps_total > done ? t->state.steps_total - done : 0};
    if (t->end == TRAINER_FINISHED)
        work.steps = 0;
    work.tokens = (uint64_t)((double)work.steps * (double)shards[SPLIT_TRAIN].tokens / (double)plan_batches(&t->plan));
    work.evaluations = work_evaluations(t, work.steps);
    // In the end the last and the best model are scored on both.
    work.tokens_forward = (work.evaluations + 2) * shards[SPLIT_VAL].tokens + 2 * shards[SPLIT_TEST].tokens;
    return work;
}

// ---- time

// Rank 0's clock decides for all; a signal to any rank ends it.
static enum status time_goes_on(struct trainer *t, bool *on, double since, uint32_t steps) {
    double seconds = clock_seconds() - since;
    uint32_t stop = 0;
    if (t->comm->rank == 0)
        stop = steps >= TIMED_MOST || (steps >= TIMED_LEAST && seconds >= TIMED_SECONDS);
    TRY(comm_flags(t->comm, &stop));
    *on = !stop;
    return STATUS_OK;
}

static enum status time_step(struct trainer *t, struct step_result *result) {
    enum status status = train_step(t, result);
    if (status != STATUS_OK)
        return trainer_failed(t, status);
    if (t->stop_signal)
        return status_set(STATUS_AGAIN, "stopped by %s", stop_name(t->stop_signal));
    return STATUS_OK;
}

// The first step brings memory in and is not counted.
static enum status time_training(struct dry_time *out, struct trainer *t) {
    struct step_result result;
    uint64_t tokens = 0;
    bool on = true;
    TRY(time_step(t, &result));
    double since = clock_seconds();
    for (; on; out->steps++) {
        TRY(time_step(t, &result));
        tokens += result.tokens;
        TRY(time_goes_on(t, &on, since, out->steps + 1));
    }
    double seconds = clock_seconds() - since;
    out->step_s = seconds / out->steps;
    out->tokens_per_s = (double)tokens / seconds;
    return STATUS_OK;
}

// Forward alone, as evaluation runs it, over the same kind of batches.
static enum status time_forward(struct dry_time *out, struct trainer *t) {
    struct step_result counted;
    uint64_t tokens = 0, cursor = t->state.cursor;
    bool on = true;
    save_current(t);
    TRY(comm_barrier(t->comm));
    double since = clock_seconds();
    for (uint32_t n = 0; on; n++) {
        struct plan_batch global;
        plan_at(&t->plan, cursor + n, &global);
        struct micro micro = micro_begin(t, &global);
        for (uint32_t m = 0; m < micro.n; m++) {
            micro_fill(t, &micro, m);
            enum status status = pass_begin(t->pass, &t->batch, 0);
            if (status != STATUS_OK)
                return trainer_failed(t, status);
            for (unsigned l = 0; l <= t->inputs.config.layers + 1; l++)
                layer_forward(t->pass, t->arenas.weights, l);
        }
        micro_count(t, &global, &counted);
        tokens += counted.tokens;
        TRY(time_goes_on(t, &on, since - TIMED_SECONDS / 2, n + 1)); // half the time will do
    }
    out->forward_per_s = (double)tokens / (clock_seconds() - since);
    return STATUS_OK;
}

enum status dry_time(struct dry_time *out, struct trainer *t, const struct dry_work *work) {
    *out = (struct dry_time){0};
    TRY(time_training(out, t));
    TRY(time_forward(out, t));
    out->train_s = (double)work->tokens / out->tokens_per_s;
    out->score_s = (double)work->tokens_forward / out->forward_per_s;
    return STATUS_OK;
}
