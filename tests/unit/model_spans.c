// SPDX-License-Identifier: Apache-2.0
// Span decoding against golden/qa/cases.json, and against a search without a heap: random logits with many ties, tokens
// that share bytes, windows that overlap.
#include "support.h"

#include "base/rng.h"
#include "model/spans.h"

#include <jansson.h>
#include <math.h>

#define LENGTH 80
#define WINDOWS 4
#define ALL (WINDOWS * LENGTH * LENGTH)

struct room { // what a span_window points to
    float logits[2 * LENGTH];
    uint32_t begin[LENGTH], end[LENGTH];
};

static json_t *cases_read(void) {
    const char *path = support_path("FINETUNED_GOLDEN", "qa/cases.json");
    json_error_t error;
    SUPPORT_NEED(path, "FINETUNED_GOLDEN/qa/cases.json");
    json_t *cases = json_load_file(path, 0, &error);
    if (!cases)
        fail_msg("%s: %s", path, error.text);
    return cases;
}

static int64_t integer(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static double number_at(const json_t *object, const char *key, size_t i) {
    const json_t *value = json_array_get(json_object_get(object, key), i);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static struct span_window case_window(struct room *room, const json_t *at) {
    size_t length = json_array_size(json_object_get(at, "ids"));
    struct span_window window = {room->logits, (uint32_t)length, 0, room->begin, room->end};
    assert_true(length <= LENGTH);
    for (size_t t = 0; t < length; t++) {
        const json_t *offsets = json_array_get(json_object_get(at, "offsets"), t);
        room->logits[2 * t] = (float)number_at(at, "start_logits", t);
        room->logits[2 * t + 1] = (float)number_at(at, "end_logits", t);
        room->begin[t] = (uint32_t)json_integer_value(json_array_get(offsets, 0));
        room->end[t] = (uint32_t)json_integer_value(json_array_get(offsets, 1));
        if (number_at(at, "seq", t) != 1)
            continue;
        window.context = t < window.context ? (uint32_t)t : window.context;
        window.end = (uint32_t)t + 1;
    }
    return window;
}

static void span_check(const struct span *got, const json_t *want, const char *context) {
    const char *text = json_string_value(json_object_get(want, "text"));
    assert_int_equal(got->start, integer(want, "start"));
    assert_int_equal(got->end, integer(want, "end"));
    assert_int_equal(got->byte_start, integer(want, "byte_start"));
    assert_int_equal(got->byte_end, integer(want, "byte_end"));
    assert_near(got->score, number(want, "score"), 1e-5, 0);
    assert_near(got->probability, number(want, "prob"), 1e-5, 0);
    assert_int_equal(strlen(text), got->byte_end - got->byte_start);
    assert_memory_equal(context + got->byte_start, text, strlen(text));
}

static void case_check(const json_t *at) {
    struct room room;
    struct span *spans;
    uint32_t n;
    struct span_window window = case_window(&room, at);
    struct span_options options = {.n_best = (uint32_t)integer(at, "n_best"),
                                   .max_answer = (uint32_t)integer(at, "max_answer_len")};
    const json_t *expected = json_object_get(at, "expected");
    assert_near(spans_none(&window), number(at, "null_score"), 1e-5, 0);
    assert_ok(spans_decode(&spans, &n, &window, 1, &options));
    assert_int_equal(n, json_array_size(expected));
    for (uint32_t i = 0; i < n; i++)
        span_check(&spans[i], json_array_get(expected, i), json_string_value(json_object_get(at, "context")));
    assert_true(spans_answer(spans, n, &options) == spans);
    free(spans);
}

static void test_cases(void **state) {
    (void)state;
    json_t *cases = cases_read(), *at;
    size_t i;
    json_array_foreach(cases, i, at) {
        fprintf(stderr, "%zu: %s, %s\n", i, json_string_value(json_object_get(at, "tokenizer")),
                json_string_value(json_object_get(at, "kind")));
        case_check(at);
    }
    assert_true(i > 0);
    json_decref(cases);
}

// --- The definition: every span of every window, sorted by insertion.

static bool before(const struct span *a, const struct span *b) {
    if (a->score != b->score)
        return a->score > b->score;
    if (a->window != b->window)
        return a->window < b->window;
    return a->start != b->start ? a->start < b->start : a->end < b->end;
}

static uint32_t define_window(struct span *out, const struct span_window *from, uint32_t window, uint32_t max_answer) {
    uint32_t n = 0;
    for (uint32_t s = from->context; s < from->end; s++)
        for (uint32_t e = s; e < from->end && e - s < max_answer; e++) {
            struct span span = {(double)from->logits[2 * s] + (double)from->logits[2 * e + 1],
                                0,
                                window,
                                s,
                                e,
                                from->byte_starts[s],
                                from->byte_ends[e],
                                0,
                                0};
            if (span.byte_start >= span.byte_end)
                continue;
            uint32_t at = n++;
            for (; at > 0 && before(&span, &out[at - 1]); at--)
                out[at] = out[at - 1];
            out[at] = span;
        }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < i; j++)
            out[i].repeat += out[j].byte_start == out[i].byte_start && out[j].byte_end == out[i].byte_end;
    return n;
}

// The next best of all windows' spans (each sorted, `next` the first not yet taken); false if none is left.
static bool define_next(struct span *out, struct span *const *all, const uint32_t *n, uint32_t *next,
                        uint32_t windows) {
    uint32_t best = windows;
    for (uint32_t w = 0; w < windows; w++)
        if (next[w] < n[w] && (best == windows || before(&all[w][next[w]], &all[best][next[best]])))
            best = w;
    if (best < windows)
        *out = all[best][next[best]++];
    return best < windows;
}

static uint32_t define(struct span *out, const struct span_window *windows, uint32_t n, const struct span_options *o) {
    static struct span storage[WINDOWS][LENGTH * LENGTH];
    struct span *all[WINDOWS], span;
    uint32_t count[WINDOWS], next[WINDOWS] = {0}, kept = 0;
    for (uint32_t w = 0; w < n; w++) {
        all[w] = storage[w];
        count[w] = define_window(all[w], &windows[w], w, o->max_answer);
    }
    while (kept < o->n_best && define_next(&span, all, count, next, n)) {
        bool seen = false;
        for (uint32_t j = 0; j < kept; j++)
            seen = seen || (out[j].byte_start == span.byte_start && out[j].byte_end == span.byte_end &&
                            out[j].repeat == span.repeat);
        if (!seen)
            out[kept++] = span;
    }
    return kept;
}

// Logits from a small set, so that scores tie; some tokens share their bytes; neighbouring windows share half a
// context.
static uint32_t windows_random(struct span_window *windows, struct room *rooms, struct rng *rng) {
    uint32_t n = 1 + (uint32_t)rng_below(rng, WINDOWS), levels = 2 + (uint32_t)rng_below(rng, 40);
    uint32_t bytes[2 * LENGTH][2], at = 0, step = 10 + (uint32_t)rng_below(rng, 10);
    for (uint32_t t = 0; t < 2 * LENGTH; t++) {
        bool shared = t > 0 && rng_below(rng, 6) == 0;  // a piece of the character before
        bool blank = !shared && rng_below(rng, 6) == 0; // at the end of which a blank's token stands, without a byte
        bytes[t][0] = shared ? bytes[t - 1][0] : (at += blank);
        bytes[t][1] = shared ? bytes[t - 1][1] : blank ? at : (at += 1 + (uint32_t)rng_below(rng, 5));
    }
    for (uint32_t w = 0; w < n; w++) {
        uint32_t context = 1 + (uint32_t)rng_below(rng, 5), end = context + (uint32_t)rng_below(rng, LENGTH - 8);
        windows[w] = (struct span_window){rooms[w].logits, context, end, rooms[w].begin, rooms[w].end};
        for (uint32_t t = 0; t < LENGTH; t++) {
            bool inside = t >= context && t < end;
            rooms[w].logits[2 * t] = (float)rng_below(rng, levels) * 0.25f - (inside ? 0 : 3);
            rooms[w].logits[2 * t + 1] = (float)rng_below(rng, levels) * 0.25f - (inside ? 0 : 3);
            rooms[w].begin[t] = inside ? bytes[w * step + t - context][0] : 0;
            rooms[w].end[t] = inside ? bytes[w * step + t - context][1] : 0;
        }
    }
    return n;
}

static void same_check(const struct span *got, const struct span *want) {
    if (got->score != want->score || got->window != want->window || got->start != want->start || got->end != want->end)
        fail_msg("window %u, tokens %u to %u, %g; wanted window %u, %u to %u, %g", got->window, got->start, got->end,
                 got->score, want->window, want->start, want->end, want->score);
    assert_int_equal(got->byte_start, want->byte_start);
    assert_int_equal(got->byte_end, want->byte_end);
    assert_int_equal(got->none, 0);
}

static void test_every_span(void **state) {
    (void)state;
    static struct span want[ALL];
    struct rng rng = rng_stream(3, 1);
    uint32_t repeats = 0;
    for (int round = 0; round < 400; round++) {
        struct room rooms[WINDOWS];
        struct span_window windows[WINDOWS];
        struct span_options options = {.n_best = 1 + (uint32_t)rng_below(&rng, round % 10 == 0 ? SPANS_BEST_MAX : 20),
                                       .max_answer = 1 + (uint32_t)rng_below(&rng, 30)};
        struct span *got;
        uint32_t n, windows_n = windows_random(windows, rooms, &rng);
        uint32_t wanted = define(want, windows, windows_n, &options);
        assert_ok(spans_decode(&got, &n, windows, windows_n, &options));
        assert_int_equal(n, wanted);
        for (uint32_t i = 0; i < n; i++) {
            same_check(&got[i], &want[i]);
            repeats += got[i].repeat > 0;
        }
        free(got);
    }
    assert_true(repeats > 0);
}

// --- Windows of one question by hand

static const uint32_t starts[6] = {0, 0, 0, 4, 8, 0}, ends[6] = {0, 0, 3, 7, 11, 0}; // [CLS] q "aaa" "bbb" "ccc" [SEP]
static const uint32_t later[6] = {0, 0, 4, 8, 12, 0}, later_ends[6] = {0, 0, 7, 11, 15, 0}; // "bbb" "ccc" "ddd"

static void test_windows(void **state) {
    (void)state;
    const float one[12] = {1, 1, 0, 0, 2, -9, 5, 4, -9, 3, 0, 0}, two[12] = {0.5f, 1, 0, 0, 6, 4, -9, 3, 0, 1, 0, 0};
    const struct span_window windows[2] = {{one, 2, 5, starts, ends}, {two, 2, 5, later, later_ends}};
    struct span_options options = {.n_best = 4, .max_answer = 30, .no_answer = true};
    struct span *spans;
    uint32_t n;
    assert_ok(spans_decode(&spans, &n, windows, 2, &options));
    assert_int_equal(n, 5);
    // "bbb" is 9 in the first window, 10 in the second: taken once. "bbb ccc": 8 and 9.
    const uint32_t want[4][4] = {{1, 4, 7, 10}, {1, 4, 11, 9}, {1, 4, 15, 7}, {0, 0, 7, 6}};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(spans[i].window, want[i][0]);
        assert_int_equal(spans[i].byte_start, want[i][1]);
        assert_int_equal(spans[i].byte_end, want[i][2]);
        assert_true(spans[i].score == want[i][3]);
    }
    assert_true(spans[4].none && spans[4].score == 1.5 && spans[4].byte_end == 0); // the least of the windows'
    double sum = exp(10) + exp(9) + exp(7) + exp(6) + exp(1.5);
    assert_near(spans[0].probability, exp(10) / sum, 0, 1e-14);
    assert_near(spans[4].probability, exp(1.5) / sum, 0, 1e-14);
    assert_true(spans_answer(spans, n, &options) == &spans[0]);
    options.threshold = 1.5 - 10;
    assert_true(spans_answer(spans, n, &options) == &spans[0]); // not above the threshold
    options.threshold = 1.5 - 10 - 1e-9;
    assert_true(spans_answer(spans, n, &options) == &spans[4]);
    free(spans);
    options = (struct span_options){.n_best = 2, .max_answer = 1}; // one token, and no "no answer"
    assert_ok(spans_decode(&spans, &n, windows, 2, &options));
    assert_int_equal(n, 2);
    assert_true(spans[0].score == 10 && spans[1].score == 1 && spans[1].byte_start == 12);
    free(spans);
}

static void test_no_answer(void **state) {
    (void)state;
    const float tied[12] = {4, 5, 0, 0, 5, 4, 0, 0, 0, 0, 0, 0};
    struct span_window window = {tied, 2, 5, starts, ends};
    struct span_options options = {.n_best = 1, .max_answer = 30, .no_answer = true};
    struct span *spans;
    uint32_t n;
    assert_ok(spans_decode(&spans, &n, &window, 1, &options));
    assert_int_equal(n, 2);
    assert_true(!spans[0].none && spans[1].none && spans[0].score == spans[1].score); // of equals the span
    assert_true(spans[0].probability == 0.5 && spans_answer(spans, n, &options) == &spans[0]);
    free(spans);
    window.end = window.context; // a window without context: "no answer", or nothing
    assert_ok(spans_decode(&spans, &n, &window, 1, &options));
    assert_true(n == 1 && spans_answer(spans, n, &options) == spans && spans->none && spans->probability == 1);
    free(spans);
    options.no_answer = false;
    assert_ok(spans_decode(&spans, &n, &window, 1, &options));
    assert_true(n == 0 && spans_answer(spans, n, &options) == NULL);
    free(spans);
}

static void test_not_finite(void **state) {
    (void)state;
    const float bad[12] = {NAN, 5, 0, 0, 5, NAN, NAN, 1, INFINITY, 2, 0, 0};
    const struct span_window window = {bad, 2, 5, starts, ends};
    struct span_options options = {.n_best = 20, .max_answer = 30, .no_answer = true};
    struct span *spans;
    uint32_t n;
    assert_ok(spans_decode(&spans, &n, &window, 1, &options));
    assert_int_equal(n, 2); // 5 + 2, 5 + 1
    assert_true(spans[0].score == 7 && spans[1].score == 6);
    free(spans);
    assert_status(spans_decode(&spans, &n, &window, UINT32_MAX, &options), STATUS_ARGUMENT);
    assert_null(spans);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_every_span),
                                       cmocka_unit_test(test_windows), cmocka_unit_test(test_no_answer),
                                       cmocka_unit_test(test_not_finite)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
