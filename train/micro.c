// SPDX-License-Identifier: Apache-2.0
#include "train/micro.h"

#include "model/flops.h"

#define WALK_EXAMPLES ((uint64_t)1 << 22) // of the plan that a start looks at: well under a second

static const struct shard *train_shard(const struct trainer *t) {
    return &t->inputs.shards[SPLIT_TRAIN];
}

static uint64_t example_tokens(const struct trainer *t, uint32_t example) {
    const uint64_t *offsets = train_shard(t)->offsets;
    return offsets[example + 1] - offsets[example];
}

static uint64_t parts_tokens(const struct trainer *t, const struct plan_batch *global, uint32_t first, uint32_t parts) {
    uint64_t tokens = 0;
    for (uint32_t i = global->part_offsets[first]; i < global->part_offsets[first + parts]; i++)
        tokens += example_tokens(t, global->by_part[i]);
    return tokens;
}

static bool runs_fit(const struct trainer *t, const struct plan_batch *global, uint32_t first, uint32_t parts) {
    for (uint32_t p = 0; p < t->parts_own; p += parts)
        if (parts_tokens(t, global, first + p, parts) > (uint64_t)t->job->train.max_tokens)
            return false;
    return true;
}

static struct micro micro_cut(const struct trainer *t, const struct plan_batch *global, uint32_t first) {
    uint32_t parts = t->parts_own;
    while (parts > 1 && !runs_fit(t, global, first, parts))
        parts /= 2;
    return (struct micro){global, first, parts, t->parts_own / parts};
}

struct micro micro_begin(const struct trainer *t, const struct plan_batch *global) {
    return micro_cut(t, global, (uint32_t)t->comm->rank * t->parts_own);
}

// micro_plan has walked the cursors of a run without skipped batches, or the first of them; those that come behind them
// need not fit.
enum status micro_room(const struct trainer *t, const struct micro *micro, uint64_t cursor) {
    bool fits = micro->n <= t->max_micro;
    for (uint32_t m = 0; m < micro->n && fits; m++)
        fits = parts_tokens(t, micro->global, micro->first + m * micro->parts, micro->parts) <= t->batch_tokens;
    if (fits)
        return STATUS_OK;
    return status_set(STATUS_USAGE,
                      "train.max_tokens: %lld: batch %llu, behind those that were looked at, needs more than the run "
                      "was planned for: start it again with a larger train.max_tokens",
                      (long long)t->job->train.max_tokens, (unsigned long long)cursor);
}

void micro_fill(struct trainer *t, const struct micro *micro, uint32_t m) {
    batch_fill(&t->batch, train_shard(t), micro->global->by_part,
               micro->global->part_offsets + micro->first + m * micro->parts, micro->parts);
}

void micro_rows(struct trainer *t, const struct plan_batch *global) {
    const struct shard *shard = train_shard(t);
    row_set_clear(&t->rows);
    for (uint32_t i = 0; i < global->size; i++) {
        uint64_t begin = shard->offsets[global->samples[i]];
        embeddings_read(&t->rows, &t->table, &t->inputs.config, shard->ids + begin, shard->types + begin,
                        (uint32_t)example_tokens(t, global->samples[i]));
    }
}

void micro_count(const struct trainer *t, const struct plan_batch *global, struct step_result *out) {
    double tokens = 0, squares = 0;
    for (uint32_t i = 0; i < global->size; i++) {
        double n = (double)example_tokens(t, global->samples[i]);
        tokens += n;
        squares += n * n;
    }
    out->tokens = (uint64_t)tokens;
    out->flops = flops_step(&t->table, &t->inputs.config, tokens, squares, global->size);
}

static enum status micro_check(const struct trainer *t, const struct plan_batch *global, uint64_t cursor) {
    for (uint32_t p = 0; p < t->plan.parts; p++) {
        uint64_t tokens = parts_tokens(t, global, p, 1);
        if (tokens > (uint64_t)t->job->train.max_tokens)
            return status_set(STATUS_USAGE,
                              "train.max_tokens: %lld, but batch %llu has a part of %llu tokens (train.parts %u): "
                              "raise train.max_tokens or "
                              "train.parts, or lower train.batch or data.max_length",
                              (long long)t->job->train.max_tokens, (unsigned long long)cursor,
                              (unsigned long long)tokens, t->plan.parts);
    }
    return STATUS_OK;
}

// Walks the plan: only where the largest conceivable batch does not fit anyway, and the run is not too long.
static enum status micro_walk(struct trainer *t, uint64_t batches, uint32_t *max_tokens, uint32_t *max_micro) {
    for (uint64_t cursor = 0; cursor < batches; cursor++) {
        struct plan_batch global;
        plan_at(&t->plan, cursor, &global);
        TRY(micro_check(t, &global, cursor));
        for (uint32_t first = 0; first < t->plan.parts; first += t->parts_own) {
            struct micro micro = micro_cut(t, &global, first);
            *max_micro = micro.n > *max_micro ? micro.n : *max_micro;
            for (uint32_t p = 0; p < t->parts_own; p += micro.parts) {
                uint64_t tokens = parts_tokens(t, &global, first + p, micro.parts);
                *max_tokens = tokens > *max_tokens ? (uint32_t)tokens : *max_tokens;
            }
        }
    }
    return STATUS_OK;
}

static int longest_first(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

// Tokens of the largest batch that the data could give.
static enum status largest_batch(const struct trainer *t, uint64_t *out) {
    uint32_t n = train_shard(t)->n;
    uint64_t *lengths = malloc(n * sizeof *lengths);
    if (!lengths)
        return status_set(STATUS_SYSTEM, "trainer: no memory for %u lengths", n);
    for (uint32_t i = 0; i < n; i++)
        lengths[i] = example_tokens(t, i);
    qsort(lengths, n, sizeof *lengths, longest_first);
    *out = 0;
    for (uint32_t i = 0; i < n && i < t->plan.batch; i++)
        *out += lengths[i];
    free(lengths);
    return STATUS_OK;
}

// For runs too long to be walked: what no batch exceeds. Parts are filled longest example first, each into the part
// with the fewest tokens; so a part has at most the mean, before its last example, and that example.
static bool micro_bound(const struct trainer *t, uint64_t largest, uint32_t *max_micro) {
    uint64_t part = largest / t->plan.parts + 1 + train_shard(t)->longest;
    uint32_t parts = t->parts_own;
    while (parts > 1 && parts * part > (uint64_t)t->job->train.max_tokens)
        parts /= 2;
    *max_micro = t->parts_own / parts;
    return parts * part <= (uint64_t)t->job->train.max_tokens;
}

// A start must not take longer because the run is long.
static enum status micro_long(struct trainer *t, uint64_t batches, uint64_t looked, uint64_t largest,
                              uint32_t *max_tokens, uint32_t *max_micro) {
    if (micro_bound(t, largest, max_micro))
        return STATUS_OK;
    *max_micro = 1;
    log_info("train.max_tokens: the first %llu of %llu batches were looked at; should a later one need more, the run "
             "stops there and says so",
             (unsigned long long)looked, (unsigned long long)batches);
    return micro_walk(t, looked, max_tokens, max_micro);
}

enum status micro_plan(struct trainer *t, uint64_t steps, uint32_t *max_tokens, uint32_t *max_micro) {
    uint64_t limit = (uint64_t)t->job->train.max_tokens, largest = 0;
    if (train_shard(t)->longest > limit)
        return status_set(STATUS_USAGE,
                          "train.max_tokens: %llu, but the longest example has %u tokens (data.max_length %lld): raise "
                          "train.max_tokens or lower data.max_length",
                          (unsigned long long)limit, train_shard(t)->longest, (long long)t->job->data.max_length);
    TRY(largest_batch(t, &largest));
    *max_tokens = (uint32_t)(largest < limit ? largest : limit);
    *max_micro = 1;
    uint64_t looked = WALK_EXAMPLES / t->plan.batch + 1;
    if (largest > limit && steps > looked)
        return micro_long(t, steps, looked, largest, max_tokens, max_micro);
    return largest <= limit ? STATUS_OK : micro_walk(t, steps, max_tokens, max_micro);
}
