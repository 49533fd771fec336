// SPDX-License-Identifier: Apache-2.0
// An encoder layer forward (Devlin et al. 2018; as Transformers' BertLayer, post-LayerNorm):
//   middle = LayerNorm(x + dropout(dense(attention(x))))      hidden = LayerNorm(middle +
//   dropout(dense(gelu(dense(middle)))))
// In the last layer with PASS_FIRST only keys and values are made for all tokens.
#include "model/pass_state.h"

#include <math.h>

struct attention attention_segment(const struct pass *pass, unsigned l, const struct rows *rows, uint32_t b,
                                   uint32_t h) {
    const struct layer_activations *act = &pass->act.layers[l];
    const struct batch *batch = pass->batch;
    size_t hidden = pass->config->hidden, d = hidden / pass->config->heads, begin = batch->cu_seqlens[b];
    uint32_t length = batch->cu_seqlens[b + 1] - batch->cu_seqlens[b];
    return (struct attention){
        .q = act->q + (rows->first ? b : begin) * hidden + h * d,
        .k = act->kv + begin * 2 * hidden + h * d,
        .v = act->kv + begin * 2 * hidden + hidden + h * d,
        .stride_q = hidden,
        .stride = 2 * hidden,
        .rows_q = rows->first ? 1 : length,
        .length = length,
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
    const struct norm_activations *norm;
    unsigned norm_weight; // its parameter
    struct dropout site;
};

static void attention_task(void *context, size_t task, unsigned thread) {
    const struct layer_job *job = context;
    uint32_t heads = job->pass->config->heads, b = (uint32_t)(task / heads), h = (uint32_t)(task % heads);
    struct attention segment = attention_segment(job->pass, job->l, &job->rows, b, h);
    const struct layer_activations *act = &job->pass->act.layers[job->l];
    job->pass->ops->attention_forward(act->context + (segment.q - act->q), &segment, pass_scratch(job->pass, thread));
}

// y = LayerNorm(residual + dropout(norm->x)), where norm->x holds a dense layer's output and keeps the sum.
static void residual_block(void *context, size_t begin, size_t end, unsigned thread) {
    const struct layer_job *job = context;
    size_t c = job->pass->config->hidden;
    float *x = job->norm->x;
    (void)thread;
    rows_dropout(job->pass, x, x, &job->rows, begin, end, c, &job->site);
    job->pass->ops->add(x + begin * c, job->residual + begin * c, (end - begin) * c);
    norm_forward(job->pass, job->weights, job->l, job->norm_weight, job->norm, job->y, begin, end);
}

static void gelu_block(void *context, size_t begin, size_t end, unsigned thread) {
    const struct layer_job *job = context;
    const struct layer_activations *act = &job->pass->act.layers[job->l];
    size_t c = job->pass->config->ffn;
    (void)thread;
    job->pass->ops->gelu_forward(act->gelu + begin * c, act->ffn + begin * c, (end - begin) * c);
}

static void attention_part(struct layer_job *job, const float *x) {
    const struct pass *pass = job->pass;
    const struct layer_activations *act = &pass->act.layers[job->l];
    struct linear query = linear_at(pass, job->l, LAYER_QUERY, LAYER_QUERY_BIAS, 1);
    struct linear keys = linear_at(pass, job->l, LAYER_KEY, LAYER_KEY_BIAS, 2);
    struct linear dense = linear_at(pass, job->l, LAYER_CONTEXT, LAYER_CONTEXT_BIAS, 1);
    linear_forward(pass, job->weights, &query, act->q, job->residual, job->rows.n);
    linear_forward(pass, job->weights, &keys, act->kv, x, pass->batch->tokens);
    pool_run(pass->pool, attention_task, job, (size_t)pass->batch->size * pass->config->heads);
    linear_forward(pass, job->weights, &dense, act->norm1.x, act->context, job->rows.n);
    job->norm = &act->norm1;
    job->norm_weight = LAYER_NORM1;
    job->y = act->middle;
    job->site = dropout_site(pass, job->l, SITE_CONTEXT, pass->config->dropout_hidden);
    blocks_run(pass, residual_block, job, job->rows.n, ROWS_BLOCK);
}

static void ffn_part(struct layer_job *job, float *y) {
    const struct pass *pass = job->pass;
    const struct layer_activations *act = &pass->act.layers[job->l];
    struct linear up = linear_at(pass, job->l, LAYER_FFN, LAYER_FFN_BIAS, 1);
    struct linear down = linear_at(pass, job->l, LAYER_OUTPUT, LAYER_OUTPUT_BIAS, 1);
    linear_forward(pass, job->weights, &up, act->ffn, act->middle, job->rows.n);
    blocks_run(pass, gelu_block, job, job->rows.n, ROWS_BLOCK);
    linear_forward(pass, job->weights, &down, act->norm2.x, act->gelu, job->rows.n);
    job->residual = act->middle;
    job->norm = &act->norm2;
    job->norm_weight = LAYER_NORM2;
    job->y = y;
    job->site = dropout_site(pass, job->l, SITE_OUTPUT, pass->config->dropout_hidden);
    blocks_run(pass, residual_block, job, job->rows.n, ROWS_BLOCK);
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
