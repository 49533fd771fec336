// SPDX-License-Identifier: Apache-2.0
// The plan, the memory and the weights of a run.
#include "train/micro.h"
#include "train/targets.h"
#include "train/trainer.h"

#include "model/weights.h"

#include <inttypes.h>
#include <math.h>

#define EVALUATION_EXAMPLES 64 // examples that one evaluation batch has at most, if training's batch is smaller
// Tokens of an evaluation batch, or one example of more: enough for the matrix products' full speed, and no more, since
// training's pass has every layer's activations of its own.
#define EVALUATION_TOKENS 512u

static enum status setup_ranks(const struct trainer *t, uint32_t parts) {
    bool set = t->job->train.parts != 0;
    if ((uint32_t)t->comm->world <= parts)
        return STATUS_OK;
    return status_set(
        STATUS_USAGE,
        "train.parts: a batch of %lld has %u part%s%s, but there are %d ranks: start at most %u, or raise "
        "train.batch%s",
        (long long)t->job->train.batch, parts, parts == 1 ? "" : "s", set ? "" : " (auto)", t->comm->world, parts,
        set ? " and train.parts" : ", or set train.parts");
}

enum status setup_world(const struct trainer *t) {
    uint32_t most = 1;
    while (2 * most <= (uint64_t)t->job->train.batch && 2 * most <= PASS_PARTS_MAX)
        most *= 2;
    return setup_ranks(t, t->job->train.parts ? (uint32_t)t->job->train.parts : most);
}

static enum status setup_parts(struct trainer *t, uint32_t *parts) {
    const struct shard *train = &t->inputs.shards[SPLIT_TRAIN];
    uint32_t batch = (uint32_t)t->job->train.batch, world = (uint32_t)t->comm->world;
    uint32_t automatic = plan_auto_parts(batch, train->tokens, train->n);
    if (automatic >
        PASS_PARTS_MAX) // what one rank can run: a batch of more texts than anyone has is no mistake in parts
        automatic = PASS_PARTS_MAX;
    *parts = t->job->train.parts ? (uint32_t)t->job->train.parts : automatic;
    TRY(setup_ranks(t, *parts));
    t->parts_own = plan_world_parts(*parts, world) / world;
    if (t->parts_own > PASS_PARTS_MAX)
        return status_set(STATUS_USAGE, "train.parts: %u are %u on each rank, at most %u fit: lower train.parts",
                          *parts, t->parts_own, PASS_PARTS_MAX);
    if (world & (world - 1))
        log_info("%u ranks are no power of two: a batch is cut into %u parts, not %u, and the bits are this world's "
                 "own; those of 1, 2, 4, … ranks are equal",
                 world, world * t->parts_own, *parts);
    return STATUS_OK;
}

// Buckets that train.freeze leaves as they are.
static enum status setup_frozen(struct trainer *t) {
    int64_t freeze = t->job->train.freeze;
    uint32_t layers = t->inputs.config.layers;
    if (freeze > layers)
        return status_set(STATUS_USAGE,
                          "train.freeze: %" PRId64 ", but %s has %u layers: %u leaves only the head to train", freeze,
                          t->job->model.base, layers, layers);
    t->table.frozen = freeze < 0 ? 1 : freeze > 0 ? (size_t)freeze + 1 : 0;
    uint64_t trained = 0;
    for (size_t i = 0; i < t->table.n; i++)
        trained += t->table.at[i].bucket >= t->table.frozen ? param_elements(&t->table.at[i]) : 0;
    if (t->table.frozen)
        log_info("train.freeze: %" PRIu64 " of %" PRIu64 " parameters are trained", trained, t->table.count);
    return STATUS_OK;
}

static uint64_t setup_steps(const struct trainer *t) {
    uint64_t epochs = (uint64_t)t->job->train.epochs * plan_batches(&t->plan);
    return t->job->train.max_steps ? (uint64_t)t->job->train.max_steps : epochs;
}

static uint32_t smaller(uint64_t a, uint64_t b) {
    return (uint32_t)(a < b ? a : b);
}

// Room for the largest micro-batch and for evaluation.
static enum status setup_batch(struct trainer *t, uint32_t train_tokens) {
    uint32_t longest = 1;
    for (int split = 0; split < SPLITS; split++)
        longest = t->inputs.shards[split].longest > longest ? t->inputs.shards[split].longest : longest;
    if (longest > t->job->train.max_tokens)
        return status_set(STATUS_USAGE,
                          "train.max_tokens: %" PRId64
                          ", but the longest example has %u tokens (data.max_length %" PRId64 ")",
                          t->job->train.max_tokens, longest, t->job->data.max_length);
    t->evaluation_tokens =
        smaller(longest > EVALUATION_TOKENS ? longest : EVALUATION_TOKENS, (uint64_t)t->job->train.max_tokens);
    t->batch_tokens = train_tokens > t->evaluation_tokens ? train_tokens : t->evaluation_tokens;
    t->batch_examples = t->plan.batch > EVALUATION_EXAMPLES ? t->plan.batch : EVALUATION_EXAMPLES;
    return batch_open(&t->batch, t->batch_tokens, t->batch_examples, t->parts_own);
}

static enum status setup_pass(struct trainer *t) {
    bool plain = !t->class_weights && t->targets.smoothing == 0;
    struct pass_options options = {.max_tokens = t->batch_tokens,
                                   .max_examples = t->batch_examples,
                                   .max_length = (uint32_t)t->job->data.max_length,
                                   .rows = pass_rows_of(&t->inputs.config),
                                   .training = true,
                                   .bf16 = trainer_bf16(t),
                                   .max_parts = t->parts_own};
    TRY(pass_open(&t->pass, &t->inputs.config, &t->table, t->pool, t->ops, &options));
    pass_targets(t->pass, plain ? NULL : &t->targets);
    pass_copy(t->pass, t->copy);
    return STATUS_OK;
}

static struct optimizer_options setup_optimizer(const struct trainer *t) {
    const struct job *job = t->job;
    uint64_t warmup = schedule_warmup_steps(job->train.warmup, t->state.steps_total);
    return (struct optimizer_options){.beta1 = job->train.betas[0],
                                      .beta2 = job->train.betas[1],
                                      .eps = job->train.eps,
                                      .weight_decay = job->train.weight_decay,
                                      .clip = job->train.clip,
                                      .schedule = {.kind = (enum schedule_kind)job->train.schedule,
                                                   .base_lr = job->train.lr,
                                                   .warmup = warmup,
                                                   .total = t->state.steps_total,
                                                   .power = 1.0,
                                                   .lr_end = 1e-7,
                                                   .cycles = 0.5}};
}

// layer_decay^(L - l) for the embeddings (l = 0) and the layers l = 1 … L; 1 for the head.
static enum status setup_shares(const struct trainer *t, double **shares) {
    uint32_t layers = t->inputs.config.layers;
    *shares = malloc((layers + 2) * sizeof **shares);
    if (!*shares)
        return status_set(STATUS_SYSTEM, "trainer: no memory");
    for (uint32_t l = 0; l <= layers; l++)
        (*shares)[l] = pow(t->job->train.layer_decay, layers - l);
    (*shares)[layers + 1] = 1;
    return STATUS_OK;
}

static enum status setup_copy(struct trainer *t) {
    size_t bytes = arena_piece(t->table.pairs * sizeof(float));
    if (!trainer_bf16(t))
        return STATUS_OK;
    TRY(arena_init(&t->copy_arena, bytes, true));
    t->copy = arena_take(&t->copy_arena, bytes);
    return STATUS_OK;
}

static enum status setup_arenas(struct trainer *t) {
    struct optimizer_options options = setup_optimizer(t);
    double *shares;
    size_t bytes = arena_piece(t->table.floats * sizeof(float));
    TRY(arena_init(&t->arena, bytes, true));
    t->arenas.weights = arena_take(&t->arena, bytes);
    TRY(setup_copy(t));
    TRY(setup_shares(t, &shares));
    options.shares = shares;
    options.copy = t->copy;
    enum status status = optimizer_open(&t->optimizer, &t->table, t->pool, t->arenas.weights, &options);
    free(shares);
    TRY(status);
    t->arenas.exp_avg = t->optimizer->exp_avg;
    t->arenas.exp_avg_sq = t->optimizer->exp_avg_sq;
    return STATUS_OK;
}

static enum status setup_weights(struct trainer *t) {
    const struct base *base = t->base;
    struct weights_report report = {0};
    if (base->random)
        return weights_random(t->arenas.weights, &t->table, &t->inputs.config, t->state.seed, t->pool, t->ops);
    enum status status = weights_load(t->arenas.weights, &report, &t->table, &t->inputs.config, &base->config,
                                      &base->files, t->state.seed, t->pool);
    base_rest(base);
    TRY(status);
    if (*report.note && !t->from) // else the checkpoint has it all
        log_info("model: %s: %s", base->name, report.note);
    snprintf(t->base_note, sizeof t->base_note, "%s", report.note);
    return STATUS_OK;
}

enum status setup_plan(struct trainer *t) {
    uint32_t parts, train_tokens;
    const struct shard *train = &t->inputs.shards[SPLIT_TRAIN];
    t->state.seed = t->job->train.seed;
    TRY(setup_parts(t, &parts));
    TRY(plan_open(&t->plan, t->state.seed, train->n, train->offsets, (uint32_t)t->job->train.batch,
                  t->parts_own * (uint32_t)t->comm->world));
    t->state.steps_total = setup_steps(t);
    t->state.world = (uint32_t)t->comm->world;
    t->state.batch = t->plan.batch;
    t->state.parts = parts;
    TRY(micro_plan(t, t->state.steps_total, &train_tokens, &t->max_micro));
    TRY(setup_batch(t, train_tokens));
    t->part_losses = calloc(t->parts_own, sizeof *t->part_losses);
    if (!t->part_losses)
        return status_set(STATUS_SYSTEM, "trainer: no memory for %u parts", t->parts_own);
    TRY(targets_open(t));
    TRY(weights_table(&t->table, &t->inputs.config));
    TRY(setup_frozen(t));
    TRY(row_set_init(&t->rows, &t->table));
    TRY(row_set_init(&t->changes, &t->table));
    TRY(buckets_open(&t->buckets, t->comm, &t->table, t->pool, t->max_micro));
    t->gradients_bytes = buckets_bytes(t->buckets);
    return STATUS_OK;
}

enum status setup_model(struct trainer *t) {
    TRY(setup_arenas(t));
    TRY(setup_pass(t));
    log_info("memory: weights and moments %.1f MiB%s, gradients %.1f MiB, activations %.1f MiB at most (%u tokens), "
             "saves %.1f MiB at most; %u part%s, %u on each rank",
             (3.0 * (double)t->arena.size + (double)t->copy_arena.size) / 1048576, t->copy ? " with the bf16 copy" : "",
             (double)t->gradients_bytes / 1048576, (double)pass_bytes(t->pass) / 1048576, t->batch_tokens,
             (double)save_aside(t) / 1048576, t->plan.parts, t->plan.parts == 1 ? "" : "s", t->parts_own);
    TRY(setup_weights(t));
    optimizer_copy(t->optimizer);
    return STATUS_OK;
}
