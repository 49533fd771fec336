// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate_spans.h"

#include "base/markup.h"

#include <stdlib.h>
#include <string.h>

// One rank's questions [first, end) and where their answers go.
struct spans_slice {
    struct span_answer *out;
    const struct evaluator *evaluator;
    const struct shard *shard;
    const struct span_options *options;
    struct question question;
    uint32_t first; // question
};

static uint32_t window_length(const struct shard *shard, uint32_t w) {
    return (uint32_t)(shard->offsets[w + 1] - shard->offsets[w]);
}

// Adds a window to the question it belongs to. `logits` (length, 2).
static enum status window_take(struct spans_slice *s, uint32_t w, const float *logits) {
    const struct shard *shard = s->shard;
    uint32_t length = window_length(shard, w);
    struct span_answer *answer = &s->out[shard->rows[w] - s->first];
    struct span_window window = {.logits = logits,
                                 .context = shard->context[w],
                                 .end = length - 1,
                                 .byte_starts = shard->begin + shard->offsets[w],
                                 .byte_ends = shard->end + shard->offsets[w]};
    if (answer->windows++ == 0)
        question_clear(&s->question);
    answer->labelled = shard->labels[w] >= 0;
    if (answer->labelled)
        answer->loss +=
            pass_ops(s->evaluator->pass)->span_loss(NULL, logits, shard->labels[w], shard->ends[w], length, 1.0f);
    TRY(question_add(&s->question, &window, s->options));
    if (w + 1 == shard->n || shard->rows[w + 1] != shard->rows[w])
        answer->span = question_answer(&s->question, s->options);
    return STATUS_OK;
}

static enum status chunk_take(struct spans_slice *s, uint32_t first, uint32_t n) {
    const float *logits;
    TRY(evaluate_forward(&logits, s->evaluator, s->shard, first, n));
    for (uint32_t w = first; w < first + n; w++) {
        TRY(window_take(s, w, logits));
        logits += 2 * (size_t)window_length(s->shard, w);
    }
    return STATUS_OK;
}

// The first window of a question: rows ascend.
static uint32_t window_of(const struct shard *shard, uint32_t question) {
    uint32_t low = 0, high = shard->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (shard->rows[middle] < question)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static enum status round_answer(struct spans_slice *s, const struct evaluate_share *round) {
    uint32_t end = window_of(s->shard, round->end);
    enum status status = STATUS_OK;
    for (uint32_t w = window_of(s->shard, round->first); w < end && status == STATUS_OK;) {
        uint32_t n = evaluate_chunk(s->evaluator, s->shard, w, end);
        status = chunk_take(s, w, n);
        w += n;
    }
    return status;
}

// A rank's share, round by round.
static enum status slice_answer(struct spans_slice *s, const struct evaluate_share *share) {
    enum status status =
        s->out ? STATUS_OK : status_set(STATUS_SYSTEM, "evaluate: no memory for %u answers", s->shard->questions);
    for (uint64_t at = 0; at < share->slice && evaluate_goes_on(s->evaluator, &status); at += EVALUATE_ROUND) {
        struct evaluate_share round = evaluate_round(share, (uint32_t)at);
        status = round_answer(s, &round);
    }
    question_release(&s->question);
    return status;
}

enum status evaluate_spans(struct span_answer **out, const struct evaluator *e, const struct shard *shard,
                           const struct span_options *options) {
    struct evaluate_share share = evaluate_share(e, shard->questions);
    struct span_answer *mine = calloc((size_t)share.slice + 1, sizeof *mine);
    struct spans_slice slice = {.out = mine, .evaluator = e, .shard = shard, .options = options, .first = share.first};
    enum status status = slice_answer(&slice, &share);
    status = evaluate_gather((void **)out, mine, sizeof *mine, e, &share, status);
    free(mine);
    return status;
}

enum status evaluate_squad(struct squad_totals *totals, double *loss, const struct span_answer *answers,
                           const struct source *source, enum squad_version version) {
    uint64_t windows = 0;
    *totals = (struct squad_totals){0};
    *loss = 0;
    for (size_t i = 0; i < source->n; i++) {
        const struct example *row = &source->rows[i];
        const struct span *span = &answers[i].span;
        struct squad_score score;
        if (row->label < 0)
            continue;
        TRY(squad_score(&score, version, row->pair + span->byte_start, span->byte_end - span->byte_start, row->answers,
                        row->n_answers));
        squad_totals_add(totals, &score, row->n_answers > 0);
        *loss += answers[i].loss;
        windows += answers[i].windows;
    }
    *loss = squad_mean(*loss, windows);
    return STATUS_OK;
}

static void print_sum(struct text *text, const struct squad_sum *sum) {
    text_puts(text, "\"em\": ");
    json_number_add(text, squad_mean(sum->exact, sum->n));
    text_puts(text, ", \"f1\": ");
    json_number_add(text, squad_mean(sum->f1, sum->n));
    text_printf(text, ", \"questions\": %llu", (unsigned long long)sum->n);
}

void evaluate_squad_print(struct text *text, const struct squad_totals *totals, enum squad_version version) {
    text_puts(text, "\"official\": {\"name\": \"f1\", \"value\": ");
    json_number_add(text, squad_mean(totals->all.f1, totals->all.n));
    text_puts(text, "}, ");
    print_sum(text, &totals->all);
    if (version != SQUAD_V2)
        return;
    text_puts(text, ", \"has_answer\": {");
    print_sum(text, &totals->answered);
    text_puts(text, "}, \"no_answer\": {");
    print_sum(text, &totals->unanswered);
    text_puts(text, "}");
}
