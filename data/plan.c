// SPDX-License-Identifier: Apache-2.0
#include "data/plan.h"

#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

#define PLAN_PURPOSE UINT64_C(0x706c616e) // "plan": a random stream of its own

static uint32_t batch_most(const struct plan *plan) {
    return plan->batch < plan->n ? plan->batch : plan->n;
}

static enum status memory_take(struct plan *plan) {
    size_t n = plan->n, most = batch_most(plan), parts = plan->parts;
    plan->lengths = malloc(n * sizeof *plan->lengths);
    plan->order = malloc(n * sizeof *plan->order);
    plan->scratch = malloc((2 * most + parts + 1) * sizeof *plan->scratch);
    plan->keys = malloc(most * sizeof *plan->keys);
    plan->sums = malloc(parts * sizeof *plan->sums);
    if (plan->lengths && plan->order && plan->scratch && plan->keys && plan->sums)
        return STATUS_OK;
    plan_close(plan);
    return status_set(STATUS_SYSTEM, "plan: no memory for %zu examples", n);
}

enum status plan_open(struct plan *plan, uint64_t seed, uint32_t n, const uint64_t *shard_offsets, uint32_t batch,
                      uint32_t parts) {
    *plan = (struct plan){.seed = seed, .n = n, .batch = batch, .parts = parts, .order_epoch = UINT64_MAX};
    if (n == 0 || batch == 0 || parts == 0)
        return status_set(STATUS_ARGUMENT, "plan: %u examples, batch %u, %u parts", n, batch, parts);
    TRY(memory_take(plan));
    for (uint32_t i = 0; i < n; i++) {
        plan->lengths[i] = shard_offsets[i + 1] - shard_offsets[i];
        if (shard_offsets[i + 1] < shard_offsets[i] || plan->lengths[i] > UINT32_MAX) {
            plan_close(plan);
            return status_set(STATUS_ARGUMENT, "plan: offset of example %u is out of order", i);
        }
    }
    return STATUS_OK;
}

void plan_close(struct plan *plan) {
    free(plan->lengths);
    free(plan->order);
    free(plan->scratch);
    free(plan->keys);
    free(plan->sums);
    *plan = (struct plan){.order_epoch = UINT64_MAX};
}

uint64_t plan_batches(const struct plan *plan) {
    return ((uint64_t)plan->n + plan->batch - 1) / plan->batch;
}

// The epoch's permutation, from the identity by Fisher and Yates (Durstenfeld's form, CACM 7, 1964).
static void order_shuffle(struct plan *plan, uint64_t epoch) {
    struct rng rng = rng_stream(rng_mix(plan->seed, epoch), PLAN_PURPOSE);
    for (uint32_t i = 0; i < plan->n; i++)
        plan->order[i] = i;
    for (uint32_t i = plan->n - 1; i > 0; i--) {
        uint32_t j = (uint32_t)rng_below(&rng, (uint64_t)i + 1), keep = plan->order[i];
        plan->order[i] = plan->order[j];
        plan->order[j] = keep;
    }
    plan->order_epoch = epoch;
}

static int key_compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// keys: the batch's positions, longest example first, the earlier one where lengths are equal.
static void keys_sort(struct plan *plan, const uint32_t *samples, uint32_t size) {
    for (uint32_t i = 0; i < size; i++)
        plan->keys[i] = (UINT32_MAX - plan->lengths[samples[i]]) << 32 | i;
    qsort(plan->keys, size, sizeof *plan->keys, key_compare);
}

static uint32_t part_lightest(const struct plan *plan) {
    uint32_t best = 0;
    for (uint32_t part = 1; part < plan->parts; part++)
        if (plan->sums[part] < plan->sums[best])
            best = part;
    return best;
}

// part_of[i]: the part of the batch's i-th sample.
static void parts_choose(struct plan *plan, const uint32_t *samples, uint32_t size, uint32_t *part_of) {
    keys_sort(plan, samples, size);
    memset(plan->sums, 0, plan->parts * sizeof *plan->sums);
    for (uint32_t i = 0; i < size; i++) {
        uint32_t position = (uint32_t)plan->keys[i], part = part_lightest(plan);
        part_of[position] = part;
        plan->sums[part] += plan->lengths[samples[position]];
    }
}

// A counting sort by part, which keeps the batch's order inside a part.
static void parts_gather(const struct plan *plan, struct plan_batch *batch, const uint32_t *part_of) {
    uint32_t *offsets = batch->part_offsets; // while filling: offsets[p+1] is where part p's next sample goes
    memset(offsets, 0, ((size_t)plan->parts + 1) * sizeof *offsets);
    for (uint32_t i = 0; i < batch->size; i++)
        if (part_of[i] + 2 <= plan->parts)
            offsets[part_of[i] + 2]++;
    for (uint32_t part = 2; part <= plan->parts; part++)
        offsets[part] += offsets[part - 1];
    for (uint32_t i = 0; i < batch->size; i++)
        batch->by_part[offsets[part_of[i] + 1]++] = batch->samples[i];
}

void plan_at(struct plan *plan, uint64_t cursor, struct plan_batch *out) {
    uint64_t batches = plan_batches(plan), epoch = cursor / batches;
    uint64_t first = cursor % batches * plan->batch;
    if (plan->order_epoch != epoch)
        order_shuffle(plan, epoch);
    uint32_t most = batch_most(plan);
    uint32_t left = (uint32_t)(plan->n - first);
    *out = (struct plan_batch){.epoch = epoch,
                               .size = left < plan->batch ? left : plan->batch,
                               .samples = plan->order + first,
                               .by_part = plan->scratch,
                               .part_offsets = plan->scratch + 2 * (size_t)most};
    uint32_t *part_of = plan->scratch + most;
    parts_choose(plan, out->samples, out->size, part_of);
    parts_gather(plan, out, part_of);
}

uint32_t plan_auto_parts(uint32_t batch, uint64_t tokens, uint32_t n) {
    uint64_t parts = 1;
    // 2 parts <= batch * (tokens / n) / 50, without rounding
    while (2 * parts <= batch && (unsigned __int128)2 * parts * 50 * n <= (unsigned __int128)batch * tokens)
        parts *= 2;
    return (uint32_t)parts;
}

uint32_t plan_world_parts(uint32_t parts, uint32_t world) {
    uint32_t power = 1;
    while (power < world)
        power *= 2;
    return world * (parts / power);
}
