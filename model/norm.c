// SPDX-License-Identifier: Apache-2.0
// LayerNorm in a layer: LayerNorm(residual + dropout(x)), forward in one pass over a block of rows. Backward reads the
// gradient of y and writes that of x beside it, so that the parameters' gradients, which are sums over rows, run beside
// the rows' own without a hand-over between threads.
#include "model/pass_state.h"

#define NORM_COLUMNS 64 // of a task

struct norm_place norm_at(const struct pass *pass, unsigned l, unsigned weight, const struct norm_activations *act,
                          const struct rows *rows) {
    return (struct norm_place){pass_param(pass, l, weight), pass_param(pass, l, weight + 1), act, *rows, {0}};
}

// Rows from `begin` on.
static struct layernorm norm_rows(const struct pass *pass, const float *weights, const struct norm_place *place,
                                  size_t begin, size_t end) {
    size_t c = pass->config->hidden;
    const struct norm_activations *act = place->act;
    bool dropped = place->site.threshold != 0;
    return (struct layernorm){
        .rows = end - begin,
        .c = c,
        .eps = (float)pass->config->layer_norm_eps,
        .factor = dropout_factor(&place->site),
        .gamma = weights + place->weight->offset,
        .beta = weights + place->bias->offset,
        .x = act->x + begin * c,
        .mean = act->mean + begin,
        .rstd = act->rstd + begin,
        .kept = dropped ? act->kept + begin * dropout_stride(c) : NULL,
    };
}

void norm_forward(const struct pass *pass, const float *weights, const struct norm_place *place, float *y,
                  const float *residual, size_t begin, size_t end) {
    size_t c = pass->config->hidden;
    struct layernorm norm = norm_rows(pass, weights, place, begin, end);
    if (norm.kept)
        rows_bits(pass, place->act->kept, &place->rows, begin, end, c, &place->site);
    pass->ops->layernorm_forward(y + begin * c, &norm, residual ? residual + begin * c : NULL);
}

struct norm_job {
    const struct pass *pass;
    const struct norm_place *place;
    struct layernorm norm; // all rows
    const float *weights, *dy;
    float *dx, *masked, *dgamma, *dbeta;
    size_t row_tasks;
};

static void norm_task(void *context, size_t task, unsigned thread) {
    const struct norm_job *j = context;
    const struct ops *ops = j->pass->ops;
    const struct rows *rows = &j->place->rows;
    size_t c = j->norm.c;
    (void)thread;
    if (task < j->row_tasks) {
        size_t begin = task * ROWS_BLOCK, end = rows->n - begin < ROWS_BLOCK ? rows->n : begin + ROWS_BLOCK;
        struct layernorm norm = norm_rows(j->pass, j->weights, j->place, begin, end);
        ops->layernorm_backward(j->dx + begin * c, j->masked + begin * c, j->dy + begin * c, &norm);
    } else {
        size_t begin = (task - j->row_tasks) * NORM_COLUMNS, end = c - begin < NORM_COLUMNS ? c : begin + NORM_COLUMNS;
        ops->layernorm_parameters(j->dgamma, j->dbeta, j->dy, &j->norm, rows->parts, j->pass->batch->parts, begin, end);
    }
}

const float *norm_backward(struct pass *pass, const float *weights, float *gradients, const struct norm_place *place) {
    struct activations *act = &pass->act;
    struct layernorm norm = norm_rows(pass, weights, place, 0, place->rows.n);
    struct norm_job job = {pass,
                           place,
                           norm,
                           weights,
                           act->dhidden,
                           act->dspare,
                           act->drows,
                           gradients + place->weight->offset,
                           gradients + place->bias->offset,
                           (place->rows.n + ROWS_BLOCK - 1) / ROWS_BLOCK};
    pool_run(pass->pool, norm_task, &job, job.row_tasks + (norm.c + NORM_COLUMNS - 1) / NORM_COLUMNS);
    act->dspare = act->dhidden;
    act->dhidden = job.dx;
    return norm.kept ? act->drows : act->dhidden;
}
