// SPDX-License-Identifier: Apache-2.0
// An encoder layer backward: from the gradient of hidden[l] to that of hidden[l-1], both in act.dhidden, and the
// layer's parameter gradients. With PASS_FIRST the last layer's incoming gradient is (B, H). Every chain of sums is the
// one that PASS_ALL has, where the other rows' gradients are zeros, so both give the same values.
#include "model/pass_state.h"

struct layer_job {
    struct pass *pass;
    const float *weights;
    float *gradients;
    unsigned l;
    struct rows rows;
};

static void gelu_block(void *context, size_t begin, size_t end, unsigned thread) {
    const struct layer_job *job = context;
    const struct activations *act = &job->pass->act;
    size_t ld = act->ffn_stride;
    float *d = act->dffn + begin * ld;
    (void)thread;
    job->pass->ops->gelu_backward(d, d, act->layers[job->l].slope + begin * ld, end - begin, job->pass->config->ffn,
                                  ld);
}

// dhidden: gradient behind a LayerNorm -> before it. Returns the gradient before the dropout that precedes it.
static const float *norm_part(const struct layer_job *job, unsigned weight, const struct norm_activations *norm,
                              enum site site) {
    struct pass *pass = job->pass;
    struct norm_place place = norm_at(pass, job->l, weight, norm, &job->rows);
    place.site = dropout_site(pass, job->l, site, pass->config->dropout_hidden);
    return norm_backward(pass, job->weights, job->gradients, &place);
}

// dhidden: gradient of hidden[l] -> of middle.
static void ffn_part(const struct layer_job *job) {
    struct pass *pass = job->pass;
    const struct layer_activations *act = &pass->act.layers[job->l];
    struct linear up = linear_up(pass, job->l), down = linear_down(pass, job->l);
    const float *dy = norm_part(job, LAYER_NORM2, &act->norm2, SITE_OUTPUT);
    linear_parameters(pass, job->gradients, &down, dy, act->gelu, &job->rows);
    linear_input(pass, job->weights, &down, pass->act.dffn, dy, job->rows.n, false);
    blocks_run(pass, gelu_block, (void *)job, job->rows.n, ROWS_BLOCK);
    linear_parameters(pass, job->gradients, &up, pass->act.dffn, act->middle, &job->rows);
    linear_input(pass, job->weights, &up, pass->act.dhidden, pass->act.dffn, job->rows.n, true);
}

static void attention_task(void *context, size_t task, unsigned thread) {
    const struct layer_job *job = context;
    const struct pass *pass = job->pass;
    const float *x = pass->act.layers[job->l].heads;
    float *dx = pass->act.dheads; // laid out as x
    struct head_run run = head_run(pass, task);
    for (uint32_t h = run.begin; h < run.end; h++) {
        struct attention segment = attention_segment(pass, job->l, &job->rows, run.b, h);
        const float *dout = pass->act.dspare + attention_place(pass, &job->rows, run.b, h);
        pass->ops->attention_backward(dx + (segment.q - x), dx + (segment.k - x), dx + (segment.v - x), dout, &segment,
                                      pass_scratch(pass, thread));
    }
}

// With PASS_FIRST dhidden, the residual's gradient (B, H), is spread over all tokens.
static void residual_spread(struct pass *pass) {
    float *compact = pass->act.dhidden;
    rows_scatter(pass, pass->act.drows, compact, pass->config->hidden);
    pass->act.dhidden = pass->act.drows;
    pass->act.drows = compact;
}

// Adds to dhidden, the residual's gradient, what comes through queries, keys and values; not if no layer below learns.
static void heads_part(const struct layer_job *job) {
    struct pass *pass = job->pass;
    const float *x = pass->act.hidden[job->l - 1], *d = pass->act.dheads, *dkeys = d + pass->config->hidden;
    bool first = job->rows.first, below = job->l > pass->table->frozen;
    struct linear query = linear_query(pass, job->l, first ? 1 : 3), keys = linear_keys(pass, job->l);
    struct rows tokens = rows_tokens(pass);
    linear_parameters(pass, job->gradients, &query, d, first ? pass->act.first : x, &job->rows);
    if (below)
        linear_input(pass, job->weights, &query, pass->act.dhidden, d, job->rows.n, true);
    if (!first)
        return;
    linear_parameters(pass, job->gradients, &keys, dkeys, x, &tokens);
    if (!below)
        return;
    residual_spread(pass);
    linear_input(pass, job->weights, &keys, pass->act.dhidden, dkeys, tokens.n, true);
}

// dhidden: gradient of middle -> of hidden[l-1].
static void attention_part(const struct layer_job *job) {
    struct pass *pass = job->pass;
    const struct layer_activations *act = &pass->act.layers[job->l];
    struct linear dense = linear_at(pass, job->l, LAYER_CONTEXT, LAYER_CONTEXT_BIAS, 1);
    dense.kept = act->context16;
    const float *dy = norm_part(job, LAYER_NORM1, &act->norm1, SITE_CONTEXT);
    linear_parameters(pass, job->gradients, &dense, dy, act->context, &job->rows);
    linear_input(pass, job->weights, &dense, pass->act.dspare, dy, job->rows.n, false);
    pool_run(pass->pool, attention_task, (void *)job, pass->batch->size * head_runs(pass));
    heads_part(job);
}

void encoder_backward(struct pass *pass, const float *weights, float *gradients, unsigned l) {
    struct layer_job job = {pass, weights, gradients, l, rows_of_layer(pass, l)};
    ffn_part(&job);
    attention_part(&job);
}
