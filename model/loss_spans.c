// SPDX-License-Identifier: Apache-2.0
// Question answering's loss: per example the mean of the cross entropies of its first and its last token, each over the
// example's own tokens; the mean over the global batch, as sums of its parts (in example order).
#include "model/pass_state.h"

#include <math.h>
#include <string.h>

struct spans_job {
    const struct pass *pass;
    float scale;
};

static void examples_loss(void *context, size_t begin, size_t end, unsigned thread) {
    const struct spans_job *job = context;
    const struct pass *pass = job->pass;
    const struct batch *batch = pass->batch;
    (void)thread;
    for (size_t b = begin; b < end; b++) {
        size_t first = batch->cu_seqlens[b], length = batch->cu_seqlens[b + 1] - first;
        float *dlogits = pass->options.training ? pass->act.dlogits + 2 * first : NULL;
        pass->act.losses[b] = pass->ops->span_loss(dlogits, pass->act.logits + 2 * first, batch->labels[b],
                                                   batch->ends[b], length, job->scale);
    }
}

// A batch with an unlabelled example has no loss: NaN, and gradients of 0.
static void spans_none(struct pass *pass, double *part_losses) {
    for (uint32_t p = 0; p < pass->batch->parts; p++)
        part_losses[p] = NAN;
    if (pass->options.training)
        memset(pass->act.dlogits, 0, (size_t)pass->batch->tokens * 2 * sizeof(float));
}

void loss_spans(struct pass *pass, double *part_losses, float scale) {
    const struct batch *batch = pass->batch;
    struct spans_job job = {pass, scale};
    if (!pass->labelled) {
        spans_none(pass, part_losses);
        return;
    }
    blocks_run(pass, examples_loss, &job, batch->size, 1);
    for (uint32_t p = 0; p < batch->parts; p++) {
        part_losses[p] = 0;
        for (uint32_t b = batch->part_examples[p]; b < batch->part_examples[p + 1]; b++)
            part_losses[p] += pass->act.losses[b];
    }
}
