// SPDX-License-Identifier: Apache-2.0
// The classification head over the first row of each text (Transformers' RobertaClassificationHead; BertPooler and
// classifier):
//   RoBERTa: out_proj(dropout(tanh(dense(dropout(x)))))      BERT: classifier(dropout(tanh(pooler.dense(x))))
#include "model/pass_state.h"

static unsigned head_layer(const struct pass *pass) {
    return pass->config->layers + 1;
}

static struct dropout head_site(const struct pass *pass, enum site kind) {
    double probability = pass->config->dropout_classifier;
    if (kind == SITE_HEAD && pass->config->kind == MODEL_BERT)
        probability = 0;
    return dropout_site(pass, head_layer(pass), kind, probability);
}

static void tanh_forward_block(void *context, size_t begin, size_t end, unsigned thread) {
    const struct pass *pass = context;
    (void)thread;
    pass->ops->tanh_forward(pass->act.tanh + begin, pass->act.tanh + begin, end - begin);
}

static void tanh_backward_block(void *context, size_t begin, size_t end, unsigned thread) {
    const struct pass *pass = context;
    float *d = pass->act.dpooled + begin;
    (void)thread;
    pass->ops->tanh_backward(d, d, pass->act.tanh + begin, end - begin);
}

void head_forward(struct pass *pass, const float *weights) {
    struct activations *act = &pass->act;
    unsigned l = head_layer(pass);
    size_t c = pass->config->hidden, n = pass->batch->size;
    struct rows rows = rows_examples(pass);
    struct dropout before = head_site(pass, SITE_HEAD), behind = head_site(pass, SITE_HEAD_TANH);
    struct linear dense = linear_at(pass, l, HEAD_DENSE, HEAD_DENSE_BIAS, 1);
    struct linear output = linear_at(pass, l, HEAD_OUTPUT, HEAD_OUTPUT_BIAS, 1);
    const float *x = act->hidden[pass->config->layers];
    if (pass->options.rows == PASS_ALL) {
        rows_gather(pass, act->pooled, x, c);
        x = act->pooled;
    }
    rows_dropout_all(pass, act->pooled, x, &rows, c, &before);
    linear_forward(pass, weights, &dense, act->tanh, act->pooled, n);
    blocks_run(pass, tanh_forward_block, pass, n * c, ROWS_BLOCK * c);
    rows_dropout_all(pass, act->dropped, act->tanh, &rows, c, &behind);
    linear_forward(pass, weights, &output, act->logits, act->dropped, n);
}

void head_backward(struct pass *pass, const float *weights, float *gradients) {
    struct activations *act = &pass->act;
    unsigned l = head_layer(pass);
    size_t c = pass->config->hidden, n = pass->batch->size;
    struct rows rows = rows_examples(pass);
    struct dropout before = head_site(pass, SITE_HEAD), behind = head_site(pass, SITE_HEAD_TANH);
    struct linear dense = linear_at(pass, l, HEAD_DENSE, HEAD_DENSE_BIAS, 1);
    struct linear output = linear_at(pass, l, HEAD_OUTPUT, HEAD_OUTPUT_BIAS, 1);
    bool all = pass->options.rows == PASS_ALL;
    linear_parameters(pass, gradients, &output, act->dlogits, act->dropped, &rows);
    linear_input(pass, weights, &output, act->dpooled, act->dlogits, n, false);
    rows_dropout_all(pass, act->dpooled, act->dpooled, &rows, c, &behind);
    blocks_run(pass, tanh_backward_block, pass, n * c, ROWS_BLOCK * c);
    linear_parameters(pass, gradients, &dense, act->dpooled, act->pooled, &rows);
    float *dx = all ? act->drows : act->dhidden;
    linear_input(pass, weights, &dense, dx, act->dpooled, n, false);
    rows_dropout_all(pass, dx, dx, &rows, c, &before);
    if (all)
        rows_scatter(pass, act->dhidden, dx, c);
}
