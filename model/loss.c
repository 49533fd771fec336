// SPDX-License-Identifier: Apache-2.0
// Mean cross entropy over the global batch, as sums of its parts.
#include "model/pass_state.h"

#include <math.h>
#include <string.h>

// A batch with an unlabelled text has no loss: NaN, and gradients of 0.
static void loss_none(struct pass *pass, double *part_losses) {
    for (uint32_t p = 0; p < pass->batch->parts; p++)
        part_losses[p] = NAN;
    if (pass->options.training)
        memset(pass->act.dlogits, 0, (size_t)pass->batch->size * pass->config->labels * sizeof(float));
}

void pass_targets(struct pass *pass, const struct targets *targets) {
    pass->targets = targets;
}

void pass_loss(struct pass *pass, double *part_losses, float scale) {
    const struct batch *batch = pass->batch;
    if (pass->config->head == HEAD_QUESTION_ANSWERING) {
        loss_spans(pass, part_losses, scale);
        return;
    }
    if (!pass->labelled) {
        loss_none(pass, part_losses);
        return;
    }
    pass->ops->cross_entropy(pass->act.losses, pass->options.training ? pass->act.dlogits : NULL, pass->act.logits,
                             batch->labels, batch->size, pass->config->labels, scale, pass->targets);
    for (uint32_t p = 0; p < batch->parts; p++) {
        part_losses[p] = 0;
        for (uint32_t b = batch->part_examples[p]; b < batch->part_examples[p + 1]; b++)
            part_losses[p] += pass->act.losses[b];
    }
}
