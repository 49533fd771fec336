// SPDX-License-Identifier: Apache-2.0
// A window's spans pass through a heap of the n best ones, its root the worst of them: len * max_answer spans, nearly
// all of which fail one comparison.
#include "model/spans.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

static int number_order(uint32_t a, uint32_t b) {
    return (a > b) - (a < b);
}

// Below 0 if a comes before b: better, or of equals the earlier one.
static int span_order(const void *left, const void *right) {
    const struct span *a = left, *b = right;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    if (a->window != b->window)
        return number_order(a->window, b->window);
    return a->start != b->start ? number_order(a->start, b->start) : number_order(a->end, b->end);
}

static void span_swap(struct span *a, struct span *b) {
    struct span kept = *a;
    *a = *b;
    *b = kept;
}

static void heap_rise(struct span *heap, uint32_t at) {
    while (at > 0 && span_order(&heap[at], &heap[(at - 1) / 2]) > 0) {
        span_swap(&heap[at], &heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
}

static void heap_sink(struct span *heap, uint32_t n) {
    for (uint32_t at = 0, child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && span_order(&heap[child + 1], &heap[child]) > 0)
            child++;
        if (span_order(&heap[child], &heap[at]) <= 0)
            return;
        span_swap(&heap[child], &heap[at]);
    }
}

// Adds a span; a full heap loses its worst one.
static uint32_t heap_put(struct span *heap, uint32_t n, const struct span *span, uint32_t room) {
    if (n < room) {
        heap[n] = *span;
        heap_rise(heap, n);
        return n + 1;
    }
    heap[0] = *span;
    heap_sink(heap, n);
    return n;
}

static bool same_bytes(const struct span *a, const struct span *b) {
    return a->byte_start == b->byte_start && a->byte_end == b->byte_end;
}

static void repeats_count(struct span *spans, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        spans[i].repeat = 0;
        for (uint32_t j = 0; j < i; j++)
            spans[i].repeat += same_bytes(&spans[i], &spans[j]);
    }
}

uint32_t spans_search(struct span *out, const struct span_window *from, uint32_t window,
                      const struct span_options *options) {
    uint32_t n = 0, room = options->n_best;
    assert(room > 0 && room <= SPANS_BEST_MAX && options->max_answer > 0);
    for (uint32_t start = from->context; start < from->end; start++) {
        uint32_t left = from->end - start, width = left < options->max_answer ? left : options->max_answer;
        for (uint32_t end = start; end < start + width; end++) {
            double score = (double)from->logits[2 * (size_t)start] + (double)from->logits[2 * (size_t)end + 1];
            // Spans come in the order of start, then end: one that only equals the worst is behind it.
            if (!isfinite(score) || (n == room && !(score > out[0].score)))
                continue;
            if (from->byte_starts[start] >= from->byte_ends[end])
                continue;
            struct span span = {.score = score,
                                .window = window,
                                .start = start,
                                .end = end,
                                .byte_start = from->byte_starts[start],
                                .byte_end = from->byte_ends[end]};
            n = heap_put(out, n, &span, room);
        }
    }
    qsort(out, n, sizeof *out, span_order);
    repeats_count(out, n);
    return n;
}

double spans_none(const struct span_window *from) {
    return (double)from->logits[0] + (double)from->logits[1];
}

// Of sorted spans the first n_best that no other window has shown before.
static uint32_t spans_distinct(struct span *spans, uint32_t n, uint32_t n_best) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n && kept < n_best; i++) {
        uint32_t j = 0;
        while (j < kept && !(same_bytes(&spans[j], &spans[i]) && spans[j].repeat == spans[i].repeat))
            j++;
        if (j == kept)
            spans[kept++] = spans[i];
    }
    return kept;
}

static uint32_t none_insert(struct span *spans, uint32_t n, double score) {
    uint32_t at = n;
    for (; at > 0 && spans[at - 1].score < score; at--)
        spans[at] = spans[at - 1];
    spans[at] = (struct span){.score = score, .none = 1};
    return n + 1;
}

static void probabilities(struct span *spans, uint32_t n) {
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += spans[i].probability = exp(spans[i].score - spans[0].score);
    for (uint32_t i = 0; i < n; i++)
        spans[i].probability /= sum;
}

uint32_t spans_merge(struct span *spans, uint32_t n, double none, const struct span_options *options) {
    qsort(spans, n, sizeof *spans, span_order);
    n = spans_distinct(spans, n, options->n_best);
    if (options->no_answer && isfinite(none))
        n = none_insert(spans, n, none);
    probabilities(spans, n);
    return n;
}

const struct span *spans_answer(const struct span *spans, uint32_t n, const struct span_options *options) {
    const struct span *best = NULL, *none = NULL;
    for (uint32_t i = n; i-- > 0;)
        *(spans[i].none ? &none : &best) = &spans[i];
    if (!best || (none && none->score - best->score > options->threshold))
        return none;
    return best;
}

enum status spans_decode(struct span **out, uint32_t *n_out, const struct span_window *windows, uint32_t n,
                         const struct span_options *options) {
    size_t room = (size_t)n * options->n_best + 1;
    double none = INFINITY;
    uint32_t found = 0;
    *out = NULL;
    *n_out = 0;
    if (room > UINT32_MAX)
        return status_set(STATUS_ARGUMENT, "spans: %u windows are too many", n);
    struct span *spans = calloc(room, sizeof *spans);
    if (!spans)
        return status_set(STATUS_SYSTEM, "spans: no memory for %zu spans", room);
    for (uint32_t w = 0; w < n; w++) {
        found += spans_search(spans + found, &windows[w], w, options);
        none = fmin(none, spans_none(&windows[w]));
    }
    *n_out = spans_merge(spans, found, none, options);
    *out = spans;
    return STATUS_OK;
}
