// SPDX-License-Identifier: Apache-2.0
// An encoder layer forward (Devlin et al. 2018; as Transformers' BertLayer, post-LayerNorm):
//   middle = LayerNorm(x + dropout(dense(attention(x))))      hidden = LayerNorm(middle +
//   dropout(dense(gelu(dense(middle)))))
// In the last layer with PASS_FIRST only keys and values are made for all tokens.
#include "model/pass_state.h"

#include <math.h>

struct head_run head_run(const struct pass *pass, size_t task) {
    uint32_t runs = (uint32_t)head_runs(pass), begin = (uint32_t)(task % runs) * HEADS_A_TASK;
    uint32_t end = begin + HEADS_A_TASK, heads = pass->config->heads;
    return (struct head_run){(uint32_t)(task / runs), begin, end < heads ? end : heads};
}

size_t attention_place(const struct pass *pass, const struct rows *rows, uint32_t b, uint32_t h) {
    size_t hidden = pass->config->hidden, d = hidden / pass->config->heads;
    return (rows->first ? b : pass->batch->cu_seqlens[b]) * hidden + h * d;
}

struct linear linear_query(const struct pass *pass, unsigned l, unsigned count) {
    struct linear query = linear_at(pass, l, LAYER_QUERY, LAYER_QUERY_BIAS, count);
    query.stride = 3 * (size_t)pass->config->hidden;
    query.kept = count > 1 ? pass->act.hidden16[l - 1] : NULL; // one alone has the first rows for input
    return query;
}

struct linear linear_keys(const struct pass *pass, unsigned l) {
    struct linear keys = linear_at(pass, l, LAYER_KEY, LAYER_KEY_BIAS, 2);
    keys.stride = 3 * (size_t)pass->config->hidden;
    keys.kept = pass->act.hidden16[l - 1];
    return keys;
}

struct linear linear_up(const struct pass *pass, unsigned l) {
    struct linear up = linear_at(pass, l, LAYER_FFN, LAYER_FFN_BIAS, 1);
    up.stride = pass->act.ffn_stride;
    up.kept = pass->act.layers[l].middle16;
    return up;
}

struct linear linear_down(const struct pass *pass, unsigned l) {
    struct linear down = linear_at(pass, l, LAYER_OUTPUT, LAYER_OUTPUT_BIAS, 1);
    down.stride_x = pass->act.ffn_stride;
    down.kept = pass->act.layers[l].gelu16;
    return down;
}

struct attention attention_segment(const struct pass *pass, unsigned l, const struct rows *rows, uint32_t b,
                                   uint32_t h) {
    const struct layer_activations *act = &pass->act.layers[l];
    const struct batch *batch = pass->batch;
    size_t hidden = pass->config->hidden, d = hidden / pass->config->heads, begin = batch->cu_seqlens[b];
    uint32_t length = batch->cu_seqlens[b + 1] - batch->cu_seqlens[b];
    return (struct attention){
        .q = act->heads + (rows->first ? b : begin) * 3 * hidden + h * d,
        .k = act->heads + begin * 3 * hidden + hidden + h * d,
        .v = act->heads + begin * 3 * hidden + 2 * hidden + h * d,
        .stride = 3 * hidden,
        .stride_out = hidden,
        .rows_q = rows->first ? 1 : length,
        .length = length,
        .more = (h + 1) % HEADS_A_TASK != 0 && h + 1 < pass->config->heads,
        .head = h,
        .example = batch->examples[b],
        .head_size = (uint32_t)d,
        .scale = (float)(1 / sqrt((double)d)),
        .dropout = dropout_site(pass, l, SITE_ATTENTION, pass->config->dropout_attention),
    };
}

struct layer_job {
    const struct pass *pass;
    const float *weights;
    unsigned l;
    struct rows rows;
    const float *residual; // (rows, H)
    float *y;              // (rows, H)
    struct norm_place norm;
};

static void attention_task(void *context, size_t task, unsigned thread) {
    const struct layer_job *job = context;
    const struct pass *pass = job->pass;
    struct head_run run = head_run(pass, task);
    for (uint32_t h = run.begin; h < run.end; h++) {
        struct attention segment = attention_segment(pass, job->l, &job->rows, run.b, h);
        float *out = pass->act.layers[job->l].context + attention_place(pass, &job->rows, run.b, h);
        pass->ops->attention_forward(out, &segment, pass_scratch(pass, thread));
    }
}

// y = LayerNorm(residual + dropout(x)), where norm's x holds a dense layer's output and keeps the sum.
static void norm_block(void *context, size_t begin, size_t end, unsigned thread) {
    const struct layer_job *job = context;
    (void)thread;
    norm_forward(job->pass, job->weights, &job->norm, job->y, job->residual, begin, end);
}

// Whole rows in a pass of their own: behind each piece of the product, 32 columns of rows that lie pages apart, the
// stores to a second matrix cost more than reading the first one again.
static void gelu_block(void *context, size_t begin, size_t end, unsigned thread) {
    const struct layer_job *job = context;
    const struct layer_activations *act = &job->pass->act.layers[job->l];
    size_t ld = job->pass->act.ffn_stride;
    float *slope = act->slope + begin * ld;
    (void)thread;
    job->pass->ops->gelu_forward(act->gelu + begin * ld, job->pass->options.training ? slope : NULL, slope, end - begin,
                                 job->pass->config->ffn, ld);
}

// The LayerNorm behind a dense layer.
static void norm_part(struct layer_job *job, unsigned weight, const struct norm_activations *norm, enum site site,
                      float *y) {
    const struct pass *pass = job->pass;
    job->norm = norm_at(pass, job->l, weight, norm, &job->rows);
    job->norm.site = dropout_site(pass, job->l, site, pass->config->dropout_hidden);
    job->y = y;
    blocks_run(pass, norm_block, job, job->rows.n, ROWS_BLOCK);
}

// Queries, keys and values, side by side; with PASS_FIRST queries of the first rows only.
static void heads_part(const struct layer_job *job, const float *x) {
    const struct pass *pass = job->pass;
    float *heads = pass->act.layers[job->l].heads;
    struct linear query = linear_query(pass, job->l, job->rows.first ? 1 : 3);
    struct linear keys = linear_keys(pass, job->l);
    linear_forward(pass, job->weights, &query, heads, job->residual, job->rows.n);
    if (job->rows.first)
        linear_forward(pass, job->weights, &keys, heads + pass->config->hidden, x, pass->batch->tokens);
}

static void attention_part(struct layer_job *job, const float *x) {
    const struct pass *pass = job->pass;
    const struct layer_activations *act = &pass->act.layers[job->l];
    struct linear dense = linear_at(pass, job->l, LAYER_CONTEXT, LAYER_CONTEXT_BIAS, 1);
    dense.kept = act->context16;
    heads_part(job, x);
    pool_run(pass->pool, attention_task, job, pass->batch->size * head_runs(pass));
    linear_forward(pass, job->weights, &dense, act->norm1.x, act->context, job->rows.n);
    norm_part(job, LAYER_NORM1, &act->norm1, SITE_CONTEXT, act->middle);
}

static void ffn_part(struct layer_job *job, float *y) {
    const struct pass *pass = job->pass;
    const struct layer_activations *act = &pass->act.layers[job->l];
    struct linear up = linear_up(pass, job->l), down = linear_down(pass, job->l);
    linear_forward(pass, job->weights, &up, act->slope, act->middle, job->rows.n);
    blocks_run(pass, gelu_block, job, job->rows.n, ROWS_BLOCK);
    linear_forward(pass, job->weights, &down, act->norm2.x, act->gelu, job->rows.n);
    job->residual = act->middle;
    norm_part(job, LAYER_NORM2, &act->norm2, SITE_OUTPUT, y);
}

void encoder_forward(struct pass *pass, const float *weights, unsigned l) {
    const float *x = pass->act.hidden[l - 1];
    struct layer_job job = {.pass = pass, .weights = weights, .l = l, .rows = rows_of_layer(pass, l), .residual = x};
    if (job.rows.first) {
        rows_gather(pass, pass->act.first, x, pass->config->hidden);
        job.residual = pass->act.first;
    }
    attention_part(&job, x);
    ffn_part(&job, pass->act.hidden[l]);
}
