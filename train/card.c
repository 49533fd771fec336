// SPDX-License-Identifier: Apache-2.0
#include "train/card.h"

#include "train/report.h"
#include "train/report_text.h"

static void card_split(struct text *out, const struct trainer *t, enum source_split split) {
    struct text json = {0};
    report_split(&json, t, split, &t->best[split]);
    json_t *scores = json_loadb(json.at ? json.at : "", json.size, JSON_DECODE_ANY, NULL);
    report_split_markdown(out, "###", split_names[split], scores);
    json_decref(scores);
    text_release(&json);
}

// The configuration that a checkpoint records: data and base are in it by their content.
static void card_settings(struct text *out, const struct trainer_state *state) {
    json_t *keys = json_loads(state->config ? state->config : "{}", 0, NULL);
    text_puts(out, "\n## Settings\n\nWhat defines the run; data and base by the hash of their content.\n\n");
    report_keys_markdown(out, keys);
    text_printf(out, "\nConfiguration %s, data %s, base %s.\n\nMade by finetuned %s.\n", state->config_hash,
                state->data_hash, state->base_hash, FINETUNED_VERSION);
    json_decref(keys);
}

void card_of_run(struct text *out, const struct trainer *t) {
    const struct shard *shards = t->inputs.shards;
    const struct evaluation *val = &t->best[SPLIT_VAL];
    char *metric = job_value(t->job, "train.best_metric");
    double official;
    const char *name = evaluation_official(t, val, &official);
    text_puts(out, "\n## Evaluation\n\n");
    text_printf(out, "The model of step %llu (epoch %llu) of %llu steps, the best on val by `%s`%s%s%s.\n",
                (unsigned long long)val->step, (unsigned long long)val->epoch, (unsigned long long)t->state.step,
                metric ? metric : "official", t->job->train.best_metric == JOB_OFFICIAL ? " (" : "",
                t->job->train.best_metric == JOB_OFFICIAL ? name : "",
                t->job->train.best_metric == JOB_OFFICIAL ? ")" : "");
    text_printf(out, "Trained for %llu epoch%s.\n", (unsigned long long)t->state.epoch, t->state.epoch == 1 ? "" : "s");
    card_split(out, t, SPLIT_TEST);
    card_split(out, t, SPLIT_VAL);
    text_puts(out, "\n## Data\n\n");
    markdown_cell_add(out, t->job->data.task);
    bool spans = shards[SPLIT_TRAIN].spans;
    text_printf(out, ": %u %s to train on, %u of val, %u of test; hash %s.\n", shards[SPLIT_TRAIN].n,
                spans ? "windows" : "examples", shards[SPLIT_VAL].n, shards[SPLIT_TEST].n, t->state.data_hash);
    if (spans)
        text_printf(out, "They are windows of %u, %u and %u questions.\n", shards[SPLIT_TRAIN].questions,
                    shards[SPLIT_VAL].questions, shards[SPLIT_TEST].questions);
    if (t->inputs.shared_texts)
        text_printf(out, "%u %s of test stand in train too.\n", t->inputs.shared_texts, spans ? "questions" : "texts");
    card_settings(out, &t->state);
    free(metric);
}

void card_of_checkpoint(struct text *out, const struct trainer_state *state) {
    text_printf(out,
                "\n## Evaluation\n\nThe model of step %llu (epoch %llu) of a run of %llu steps, exported from its "
                "checkpoint. It was not scored for this card: `finetuned eval` does.\n",
                (unsigned long long)state->step, (unsigned long long)state->epoch,
                (unsigned long long)state->steps_total);
    card_settings(out, state);
}

char *card_base(const struct job *job) {
    const char *base = job->model.base;
    if (!base || base_random(base))
        return NULL;
    size_t size = strlen(base), first;
    while (size && base[size - 1] == '/')
        size--;
    for (first = size; first && base[first - 1] != '/';)
        first--;
    return strndup(base + first, size - first);
}
