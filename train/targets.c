// SPDX-License-Identifier: Apache-2.0
#include "train/targets.h"

#include "base/text.h"

// The numbers of "[1.0, 2.5]", as base/options.c prints them; `out` (n). Returns how many there are.
static uint32_t list_read(double *out, uint32_t n, const char *list) {
    uint32_t count = 0;
    for (const char *at = list + 1; *at;) {
        size_t size = strcspn(at, ",]");
        char number[64] = "";
        double value = 0;
        memcpy(number, at, size < sizeof number ? size : 0);
        text_to_double(number, &value);
        if (count < n)
            out[count] = value;
        count++;
        at += size + (at[size] == ',' ? 2 : 1);
    }
    return count;
}

static enum status weights_list(struct trainer *t) {
    const char *list = t->job->train.class_weights;
    uint32_t classes = t->inputs.labels.n, n = list_read(t->class_weights, classes, list);
    if (n != classes)
        return status_set(
            STATUS_USAGE,
            "train.class_weights: %s has %u number%s, but %s has %u classes: one for each, in the order of "
            "their ids (%s first)",
            list, n, n == 1 ? "" : "s", t->job->data.task ? t->job->data.task : t->job->data.dir, classes,
            t->inputs.labels.names[0]);
    return STATUS_OK;
}

// examples / (classes * examples of the class), as scikit-learn's compute_class_weight.
static enum status weights_balanced(struct trainer *t) {
    const struct shard *train = &t->inputs.shards[SPLIT_TRAIN];
    uint32_t classes = t->inputs.labels.n;
    for (uint32_t i = 0; i < train->n; i++)
        t->class_weights[train->labels[i]]++;
    for (uint32_t c = 0; c < classes; c++) {
        if (t->class_weights[c] == 0)
            return status_set(STATUS_DATA,
                              "train.class_weights: balanced: no text of the train split is %s, so its weight has no "
                              "value: give a list of %u numbers instead, or leave the label out of the data",
                              t->inputs.labels.names[c], classes);
        t->class_weights[c] = train->n / (classes * t->class_weights[c]);
    }
    return STATUS_OK;
}

static void weights_log(const struct trainer *t) {
    struct text line = {0};
    for (uint32_t c = 0; c < t->inputs.labels.n; c++)
        text_printf(&line, "%s%s %.4g", c ? ", " : "", t->inputs.labels.names[c], t->class_weights[c]);
    log_info("loss: class weights: %s", text_string(&line) ? text_string(&line) : "");
    text_release(&line);
}

static enum status weights_open(struct trainer *t) {
    t->class_weights = calloc(t->inputs.labels.n, sizeof *t->class_weights);
    if (!t->class_weights)
        return status_set(STATUS_SYSTEM, "trainer: no memory for %u class weights", t->inputs.labels.n);
    TRY(strcmp(t->job->train.class_weights, "balanced") == 0 ? weights_balanced(t) : weights_list(t));
    weights_log(t);
    return STATUS_OK;
}

enum status targets_open(struct trainer *t) {
    if (strcmp(t->job->train.class_weights, "none") != 0)
        TRY(weights_open(t));
    t->targets = (struct targets){t->job->train.label_smoothing, t->class_weights};
    return STATUS_OK;
}

void targets_close(struct trainer *t) {
    free(t->class_weights);
}

double targets_weight(const struct trainer *t, const struct plan_batch *global) {
    const int32_t *labels = t->inputs.shards[SPLIT_TRAIN].labels;
    double sum = 0;
    for (uint32_t i = 0; i < global->size; i++)
        sum += t->class_weights ? t->class_weights[labels[global->samples[i]]] : 1;
    return sum;
}
