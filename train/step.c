// SPDX-License-Identifier: Apache-2.0
// One step: a global batch through the model and into the weights. A reader of train_step alone knows the program.
#include "train/folder.h"
#include "train/micro.h"
#include "train/stage.h"
#include "train/stop.h"
#include "train/targets.h"
#include "train/trainer.h"

#include "base/clock.h"
#include "base/rng.h"

#include <math.h>

const char *const stage_names[TRACE_STAGES] = {
    [STAGE_NONE] = "none",       [STAGE_DATA] = "data", [STAGE_UPDATE] = "update",
    [STAGE_FORWARD] = "forward", [STAGE_LOSS] = "loss", [STAGE_BACKWARD] = "backward",
    [STAGE_REDUCE] = "reduce",   [STAGE_NORM] = "norm", [STAGE_AGREE] = "agree",
};

const enum pulse_operation stage_pulses[STAGES] = {
    [STAGE_NONE] = PULSE_BOUNDARY,   [STAGE_DATA] = PULSE_DATA, [STAGE_UPDATE] = PULSE_UPDATE,
    [STAGE_FORWARD] = PULSE_FORWARD, [STAGE_LOSS] = PULSE_LOSS, [STAGE_BACKWARD] = PULSE_BACKWARD,
    [STAGE_REDUCE] = PULSE_REDUCE,   [STAGE_NORM] = PULSE_NORM, [STAGE_AGREE] = PULSE_AGREE,
};

static unsigned head_layer(const struct trainer *t) {
    return t->inputs.config.layers + 1;
}

static bool step_time_over(const struct trainer *t) {
    double limit = t->job->train.max_time;
    return limit > 0 && t->comm->rank == 0 && t->spent + clock_seconds() - t->begun >= limit;
}

// Loss, stops and how far a save is: what all ranks must know before the update. Loss and norm are of the same bits on
// every rank already, unless a message was corrupted on its way, or a rank computes otherwise.
static enum status step_agree(struct trainer *t, struct step_result *out, double weight) {
    // This rank's leaves of the loss tree, then the ranks'.
    for (uint32_t width = 1; width < t->parts_own; width *= 2)
        for (uint32_t p = 0; p + width < t->parts_own; p += 2 * width)
            t->part_losses[p] += t->part_losses[p + width];
    double scratch;
    TRY(comm_tree_sum_double(t->comm, t->part_losses, 1, &scratch));
    out->loss = t->part_losses[0] / weight;
    uint32_t flags = stop_flags(step_time_over(t)) | save_flags(t) | folder_flags(t);
    TRY(comm_flags_check(t->comm, &flags, boundary_hash(out->loss, out->norm), &out->differs));
    t->stop_signal = stop_flags_signal(flags);
    t->stop_time = stop_flags_time(flags);
    save_told(t, flags);
    folder_told(t, flags);
    return STATUS_OK;
}

// The update becomes pending, or the batch is skipped.
static void step_update(struct trainer *t, struct step_result *out, const struct gradient *gradient) {
    if (out->differs >= 0) // the run ends at the boundary
        return;
    out->skipped = !isfinite(out->loss) || !optimizer_takes(t->optimizer, out->norm);
    t->state.cursor++;
    if (out->skipped) {
        t->state.skips_in_a_row++;
        return;
    }
    out->lr = optimizer_step(t->optimizer, gradient, out->norm);
    t->state.skips_in_a_row = 0;
    t->state.step++;
}

enum status train_step(struct trainer *t, struct step_result *out) {
    struct plan_batch global;
    stage(t, STAGE_DATA);
    plan_at(&t->plan, t->state.cursor, &global);
    struct micro micro = micro_begin(t, &global);
    TRY(micro_room(t, &micro, t->state.cursor));
    const uint64_t dropout_key = rng_mix(t->state.seed, t->state.cursor);
    const double weight = targets_weight(t, &global);
    micro_rows(t, &global);
    // With several ranks or micro-batches the squares are those of what is reduced: optimizer_norm sums them.
    struct gradient gradient = {.summed = t->comm->world == 1 && micro.n == 1, .rows = &t->rows};
    float *values;

    *out = (struct step_result){
        .cursor = t->state.cursor, .epoch = global.epoch + 1, .examples = global.size, .samples = global.samples};
    buckets_start(t->buckets, t->state.cursor, micro.n, &t->rows);
    pass_squares(t->pass, gradient.summed ? optimizer_squares(t->optimizer) : NULL);
    for (uint32_t m = 0; m < micro.n; m++) {
        stage(t, STAGE_DATA);
        micro_fill(t, &micro, m);
        TRY(pass_begin(t->pass, &t->batch, dropout_key));
        for (unsigned l = 0; l <= head_layer(t); l++) {
            stage(t, STAGE_UPDATE);
            save_release(t, l, &t->rows);
            bucket_current(t->optimizer, l, &t->rows);
            stage(t, STAGE_FORWARD);
            layer_forward(t->pass, t->arenas.weights, l);
        }
        stage(t, STAGE_LOSS);
        pass_loss(t->pass, t->part_losses + m * micro.parts, 1.0f / (float)weight);
        for (unsigned l = head_layer(t) + 1; l-- > t->table.frozen;) {
            stage(t, STAGE_BACKWARD);
            layer_backward(t->pass, t->arenas.weights, bucket_arena(t->buckets, l, m), l);
            stage(t, STAGE_REDUCE);
            TRY(bucket_begin(t->buckets, l, m));
        }
    }
    stage(t, STAGE_REDUCE);
    TRY(buckets_finish(t->buckets, &values));
    gradient.values = values;
    stage(t, STAGE_NORM);
    out->norm = optimizer_norm(t->optimizer, &gradient);
    stage(t, STAGE_AGREE);
    TRY(step_agree(t, out, weight));
    step_update(t, out, &gradient);
    micro_count(t, &global, out);
    out->step = t->state.step;
    pulse_step(t->state.step);
    stage(t, STAGE_NONE);
    return STATUS_OK;
}
