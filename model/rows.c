// SPDX-License-Identifier: Apache-2.0
// Row sets of a packed batch: which rows a layer has, work over them in fixed blocks, dropout, gather and scatter.
#include "model/pass_state.h"

#include <string.h>

struct rows rows_tokens(const struct pass *pass) {
    return (struct rows){pass->batch->tokens, pass->batch->part_tokens, false};
}

struct rows rows_examples(const struct pass *pass) {
    return (struct rows){pass->batch->size, pass->batch->part_examples, true};
}

struct rows rows_of_layer(const struct pass *pass, unsigned l) {
    bool first = pass->options.rows == PASS_FIRST && l == pass->config->layers;
    return first ? rows_examples(pass) : rows_tokens(pass);
}

struct dropout dropout_site(const struct pass *pass, unsigned l, enum site kind, double probability) {
    double threshold = probability * 65536 + 0.5;
    return (struct dropout){
        .key = pass->dropout_key,
        .site = l * 4 + (uint32_t)kind,
        .threshold = pass->dropout_key == 0 ? 0
                     : threshold < 65535    ? (uint32_t)threshold
                                            : 65535,
    };
}

struct blocks {
    block_task *fn;
    void *context;
    size_t n, block;
};

static void block_run(void *context, size_t task, unsigned thread) {
    const struct blocks *blocks = context;
    size_t begin = task * blocks->block, rest = blocks->n - begin;
    blocks->fn(blocks->context, begin, begin + (rest < blocks->block ? rest : blocks->block), thread);
}

void blocks_run(const struct pass *pass, block_task *fn, void *context, size_t n, size_t block) {
    struct blocks blocks = {fn, context, n, block};
    if (n > 0)
        pool_run(pass->pool, block_run, &blocks, (n + block - 1) / block);
}

float *pass_scratch(const struct pass *pass, unsigned thread) {
    return pass->act.scratch + thread * pass->act.scratch_floats;
}

// The example that token `row` belongs to.
static uint32_t example_of(const struct batch *batch, uint32_t row) {
    uint32_t low = 0, high = batch->size;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (batch->cu_seqlens[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// Rows of one example, from `begin` on.
struct run {
    uint32_t example, first; // first: the row's number in its example
    size_t end;
};

static struct run rows_run(const struct pass *pass, const struct rows *rows, size_t begin, size_t end) {
    const struct batch *batch = pass->batch;
    if (rows->first)
        return (struct run){batch->examples[begin], 0, begin + 1};
    uint32_t b = example_of(batch, (uint32_t)begin), stop = batch->cu_seqlens[b + 1];
    return (struct run){batch->examples[b], (uint32_t)begin - batch->cu_seqlens[b], stop < end ? stop : end};
}

void rows_bits(const struct pass *pass, uint16_t *kept, const struct rows *rows, size_t begin, size_t end, size_t c,
               const struct dropout *site) {
    for (size_t at = begin; at < end;) {
        struct run run = rows_run(pass, rows, at, end);
        pass->ops->dropout_bits(kept + at * dropout_stride(c), run.end - at, c, run.first, run.example, site);
        at = run.end;
    }
}

void rows_dropout(const struct pass *pass, float *y, const float *x, const struct rows *rows, size_t begin, size_t end,
                  size_t c, const struct dropout *site) {
    for (size_t at = begin; at < end;) {
        struct run run = rows_run(pass, rows, at, end);
        pass->ops->dropout(y + at * c, x + at * c, run.end - at, c, run.first, run.example, site);
        at = run.end;
    }
}

struct dropout_rows {
    const struct pass *pass;
    float *y;
    const float *x;
    const struct rows *rows;
    size_t c;
    const struct dropout *site;
};

static void dropout_block(void *context, size_t begin, size_t end, unsigned thread) {
    const struct dropout_rows *d = context;
    (void)thread;
    rows_dropout(d->pass, d->y, d->x, d->rows, begin, end, d->c, d->site);
}

void rows_dropout_all(const struct pass *pass, float *y, const float *x, const struct rows *rows, size_t c,
                      const struct dropout *site) {
    struct dropout_rows d = {pass, y, x, rows, c, site};
    if (y != x || site->threshold != 0)
        blocks_run(pass, dropout_block, &d, rows->n, ROWS_BLOCK);
}

void rows_gather(const struct pass *pass, float *compact, const float *full, size_t c) {
    for (uint32_t b = 0; b < pass->batch->size; b++)
        memcpy(compact + b * c, full + pass->batch->cu_seqlens[b] * c, c * sizeof *compact);
}

struct scatter {
    const struct pass *pass;
    float *full;
    const float *compact;
    size_t c;
};

static void scatter_examples(void *context, size_t begin, size_t end, unsigned thread) {
    const struct scatter *s = context;
    (void)thread;
    for (size_t b = begin; b < end; b++) {
        uint32_t row = s->pass->batch->cu_seqlens[b], stop = s->pass->batch->cu_seqlens[b + 1];
        memcpy(s->full + row * s->c, s->compact + b * s->c, s->c * sizeof *s->full);
        memset(s->full + (row + 1) * s->c, 0, (stop - row - 1) * s->c * sizeof *s->full);
    }
}

void rows_scatter(const struct pass *pass, float *full, const float *compact, size_t c) {
    struct scatter s = {pass, full, compact, c};
    blocks_run(pass, scatter_examples, &s, pass->batch->size, 1);
}
