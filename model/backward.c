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
    size_t c = job->pass->config->ffn;
    float *d = act->dffn + begin * c;
    (void)thread;
    job->pass->ops->gelu_backward(d, d, act->layers[job->l].ffn + begin * c, (end - begin) * c);
}

// The gradient behind a site's dropout: dhidden itself if nothing is dropped, else its masked copy in drows.
static const float *site_backward(const struct layer_job *job, enum site kind) {
    const struct pass *pass = job->pass;
    struct dropout site = dropout_site(pass, job->l, kind, pass->config->dropout_hidden);
    if (site.threshold == 0)
        return pass->act.dhidden;
    rows_dropout_all(pass, pass->act.drows, pass->act.dhidden, &job->rows, pass->config->hidden, &site);
    return pass->act.drows;
}

// dhidden: gradient of hidden[l] -> of middle.
static void ffn_part(const struct layer_job *job) {
    struct pass *pass = job->pass;
    const struct layer_activations *act = &pass->act.layers[job->l];
    struct linear up = linear_at(pass, job->l, LAYER_FFN, LAYER_FFN_BIAS, 1);
    struct linear down = linear_at(pass, job->l, LAYER_OUTPUT, LAYER_OUTPUT_BIAS, 1);
    norm_backward(pass, job->weights, job->gradients, job->l, LAYER_NORM2, &act->norm2, pass->act.dhidden, &job->rows);
    const float *dy = site_backward(job, SITE_OUTPUT);
    linear_parameters(pass, job->gradients, &down, dy, act->gelu, &job->rows);
    linear_input(pass, job->weights, &down, pass->act.dffn, dy, job->rows.n, false);
    blocks_run(pass, gelu_block, (void *)job, job->rows.n, ROWS_BLOCK);
    linear_parameters(pass, job->gradients, &up, pass->act.dffn, act->middle, &job->rows);
    linear_input(pass, job->weights, &up, pass->act.dhidden, pass->act.dffn, job->rows.n, true);
}

static void attention_task(void *context, size_t task, unsigned thread) {
    const struct layer_job *job = context;
    const struct pass *pass = job->pass;
    uint32_t heads = pass->config->heads, b = (uint32_t)(task / heads), h = (uint32_t)(task % heads);
    struct attention segment = attention_segment(pass, job->l, &job->rows, b, h);
    const struct layer_activations *act = &pass->act.layers[job->l];
    size_t query = (size_t)(segment.q - act->q), key = (size_t)(segment.k - act->kv);
    float *dk = pass->act.dkv + key;
    pass->ops->attention_backward(pass->act.dq + query, dk, dk + pass->config->hidden, pass->act.dcontext + query,
                                  &segment, pass_scratch(pass, thread));
}

// dhidden, the residual's gradient (rows, H), gets the part that comes through the queries; then it is spread over all
// tokens.
static void queries_part(const struct layer_job *job, const float *x) {
    struct pass *pass = job->pass;
    struct linear query = linear_at(pass, job->l, LAYER_QUERY, LAYER_QUERY_BIAS, 1);
    linear_parameters(pass, job->gradients, &query, pass->act.dq, job->rows.first ? pass->act.first : x, &job->rows);
    linear_input(pass, job->weights, &query, pass->act.dhidden, pass->act.dq, job->rows.n, true);
    if (!job->rows.first)
        return;
    float *compact = pass->act.dhidden;
    rows_scatter(pass, pass->act.drows, compact, pass->config->hidden);
    pass->act.dhidden = pass->act.drows;
    pass->act.drows = compact;
}

// dhidden: gradient of middle -> of hidden[l-1].
static void attention_part(const struct layer_job *job) {
    struct pass *pass = job->pass;
    const struct layer_activations *act = &pass->act.layers[job->l];
    const float *x = pass->act.hidden[job->l - 1];
    struct linear dense = linear_at(pass, job->l, LAYER_CONTEXT, LAYER_CONTEXT_BIAS, 1);
    struct linear keys = linear_at(pass, job->l, LAYER_KEY, LAYER_KEY_BIAS, 2);
    struct rows tokens = rows_tokens(pass);
    norm_backward(pass, job->weights, job->gradients, job->l, LAYER_NORM1, &act->norm1, pass->act.dhidden, &job->rows);
    const float *dy = site_backward(job, SITE_CONTEXT);
    linear_parameters(pass, job->gradients, &dense, dy, act->context, &job->rows);
    linear_input(pass, job->weights, &dense, pass->act.dcontext, dy, job->rows.n, false);
    pool_run(pass->pool, attention_task, (void *)job, (size_t)pass->batch->size * pass->config->heads);
    queries_part(job, x);
    linear_parameters(pass, job->gradients, &keys, pass->act.dkv, x, &tokens);
    linear_input(pass, job->weights, &keys, pass->act.dhidden, pass->act.dkv, tokens.n, true);
}

void encoder_backward(struct pass *pass, const float *weights, float *gradients, unsigned l) {
    struct layer_job job = {pass, weights, gradients, l, rows_of_layer(pass, l)};
    ffn_part(&job);
    attention_part(&job);
}
