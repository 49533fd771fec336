// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "data/labels.h"
#include "train/evaluate.h"
#include "train/events.h"
#include "train/stop.h"

int32_t evaluate_argmax(const float *logits, uint32_t n) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best] || logits[best] != logits[best])
            best = i;
    return (int32_t)best;
}

uint32_t evaluate_chunk(const struct evaluator *e, const struct shard *shard, uint32_t first, uint32_t end) {
    uint32_t n = 1;
    while (first + n < end && n < e->max_examples &&
           shard->offsets[first + n + 1] - shard->offsets[first] <= e->max_tokens)
        n++;
    return n;
}

// Without the labels: losses are made from the logits.
static void chunk_fill(struct batch *batch, const struct shard *shard, uint32_t first, uint32_t n) {
    batch_clear(batch);
    for (uint32_t i = first; i < first + n; i++)
        batch_add(batch, shard->ids + shard->offsets[i], shard->types + shard->offsets[i],
                  (uint32_t)(shard->offsets[i + 1] - shard->offsets[i]), -1, i);
}

// Loss of one row of logits, by the op that training uses; without label smoothing and class weights.
static double chunk_loss(const struct evaluator *e, const float *logits, int32_t label) {
    double loss = 0;
    if (label >= 0)
        pass_ops(e->pass)->cross_entropy(&loss, NULL, logits, &label, 1, e->config->labels, 1.0f, NULL);
    return loss;
}

enum status evaluate_forward(const float **logits, const struct evaluator *e, const struct shard *shard, uint32_t first,
                             uint32_t n) {
    chunk_fill(e->batch, shard, first, n);
    TRY(pass_begin(e->pass, e->batch, 0));
    for (unsigned l = 0; l <= e->config->layers + 1; l++)
        layer_forward(e->pass, e->weights, l);
    *logits = pass_logits(e->pass);
    return STATUS_OK;
}

static enum status chunk_run(struct answer *out, const struct evaluator *e, const struct shard *shard, uint32_t first,
                             uint32_t n) {
    const float *logits;
    TRY(evaluate_forward(&logits, e, shard, first, n));
    size_t labels = e->config->labels;
    if (e->logits && !e->comm)
        memcpy(e->logits + first * labels, logits, n * labels * sizeof *logits);
    for (uint32_t i = 0; i < n; i++, logits += labels)
        out[i] = (struct answer){chunk_loss(e, logits, shard->labels[first + i]),
                                 evaluate_argmax(logits, e->config->labels), shard->labels[first + i]};
    return STATUS_OK;
}

static enum status slice_run(struct answer *out, const struct evaluator *e, const struct shard *shard, uint32_t first,
                             uint32_t end) {
    for (uint32_t i = first; i < end;) {
        uint32_t n = evaluate_chunk(e, shard, i, end);
        TRY(chunk_run(out + (i - first), e, shard, i, n));
        i += n;
    }
    return STATUS_OK;
}

struct evaluate_share evaluate_share(const struct evaluator *e, uint32_t n) {
    uint32_t world = e->comm ? (uint32_t)e->comm->world : 1, rank = e->comm ? (uint32_t)e->comm->rank : 0;
    uint64_t slice = ((uint64_t)n + world - 1) / world, first = rank * slice < n ? rank * slice : n;
    return (struct evaluate_share){(uint32_t)slice, (uint32_t)first, (uint32_t)(first + slice < n ? first + slice : n)};
}

#define ROUND_FAILED (1u << 24) // beside those of stops

bool evaluate_goes_on(const struct evaluator *e, enum status *status) {
    uint32_t flags = *status == STATUS_OK ? 0 : ROUND_FAILED;
    if (!e->comm || !e->stop)
        return !flags;
    flags |= stop_flags(false);
    enum status told = comm_flags(e->comm, &flags);
    *e->stop = stop_flags_signal(flags);
    if (told != STATUS_OK)
        *status = told;
    else if (*status == STATUS_OK && *e->stop)
        *status = status_set(STATUS_AGAIN, "evaluation given up after %s", stop_name(*e->stop));
    return *status == STATUS_OK && !(flags & ROUND_FAILED);
}

struct evaluate_share evaluate_round(const struct evaluate_share *share, uint32_t at) {
    uint64_t first = (uint64_t)share->first + at, end = first + EVALUATE_ROUND;
    first = first < share->end ? first : share->end;
    end = end < share->end ? end : share->end;
    return (struct evaluate_share){EVALUATE_ROUND, (uint32_t)first, (uint32_t)end};
}

// A rank's share, round by round.
static enum status share_run(struct answer *out, const struct evaluator *e, const struct shard *shard,
                             const struct evaluate_share *share) {
    enum status status = out ? STATUS_OK : status_set(STATUS_SYSTEM, "evaluate: no memory for %u answers", shard->n);
    for (uint64_t at = 0; at < share->slice && evaluate_goes_on(e, &status); at += EVALUATE_ROUND) {
        struct evaluate_share round = evaluate_round(share, (uint32_t)at);
        status = slice_run(out + (round.first - share->first), e, shard, round.first, round.end);
    }
    return status;
}

enum status evaluate_gather(void **out, const void *mine, size_t size, const struct evaluator *e,
                            const struct evaluate_share *share, enum status status) {
    size_t world = e->comm ? (size_t)e->comm->world : 1;
    *out = calloc(share->slice * world + 1, size);
    if (status == STATUS_OK && !*out)
        status = status_set(STATUS_SYSTEM, "evaluate: no memory for %zu answers", share->slice * world);
    if (e->comm) {
        status = comm_agree(e->comm, status);
        if (status == STATUS_OK)
            status = comm_all_gather(e->comm, mine, *out, share->slice * size);
    } else if (status == STATUS_OK) {
        memcpy(*out, mine, share->slice * size);
    }
    if (status != STATUS_OK) {
        free(*out);
        *out = NULL;
    }
    return status;
}

enum status evaluate_shard(struct answer **out, const struct evaluator *e, const struct shard *shard) {
    struct evaluate_share share = evaluate_share(e, shard->n);
    struct answer *mine = calloc((size_t)share.slice + 1, sizeof *mine);
    enum status status = share_run(mine, e, shard, &share);
    status = evaluate_gather((void **)out, mine, sizeof *mine, e, &share, status);
    free(mine);
    return status;
}

enum status evaluate_metrics(struct metrics *metrics, double *loss, const struct answer *answers, uint32_t n,
                             uint32_t classes) {
    TRY(metrics_open(metrics, classes));
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += answers[i].loss;
        if (answers[i].gold >= 0)
            metrics_count(metrics, answers[i].gold, answers[i].predicted);
    }
    metrics_finish(metrics);
    *loss = metrics->examples ? sum / (double)metrics->examples : 0;
    return STATUS_OK;
}

static void print_key(struct text *text, const char *key, double value) {
    text_printf(text, ", \"%s\": ", key);
    json_number_add(text, value);
}

static void print_class(struct text *text, const struct metrics *m, const struct labels *labels, uint32_t c) {
    const struct class_scores *s = &m->per_class[c];
    text_puts(text, c ? ", {\"label\": " : "{\"label\": ");
    json_string_add(text, labels->names[c]);
    print_key(text, "precision", s->precision);
    print_key(text, "recall", s->recall);
    print_key(text, "f1", s->f1);
    text_printf(text, ", \"support\": %llu}", (unsigned long long)s->support);
}

void evaluate_print(struct text *text, const struct metrics *m, enum metric official, const struct labels *labels) {
    text_printf(text, "\"official\": {\"name\": \"%s\", \"value\": ", metric_name(official));
    json_number_add(text, metric_value(m, official));
    text_puts(text, "}");
    print_key(text, "accuracy", m->accuracy);
    print_key(text, "macro_f1", m->macro_f1);
    print_key(text, "macro_recall", m->macro_recall);
    text_puts(text, ", \"per_class\": [");
    for (uint32_t c = 0; c < m->classes; c++)
        print_class(text, m, labels, c);
    text_puts(text, "], \"confusion\": [");
    for (uint32_t gold = 0; gold < m->classes; gold++)
        for (uint32_t c = 0; c < m->classes; c++)
            text_printf(text, "%s%llu%s",
                        c      ? ", "
                        : gold ? ", ["
                               : "[",
                        (unsigned long long)m->confusion[gold * m->classes + c], c + 1 == m->classes ? "]" : "");
    text_puts(text, "]");
}
