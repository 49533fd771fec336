// SPDX-License-Identifier: Apache-2.0
// From windows to answers to scores: a question's windows one by one against all at once, and totals by hand.
#include "support.h"

#include "base/rng.h"
#include "train/evaluate_spans.h"

#include <math.h>

enum { LENGTH = 40, WINDOWS = 9 };

struct room {
    float logits[2 * LENGTH];
    uint32_t begin[LENGTH], end[LENGTH];
};

static struct span_window window_random(struct room *room, struct rng *rng) {
    uint32_t context = 1 + (uint32_t)rng_below(rng, 4), end = context + (uint32_t)rng_below(rng, LENGTH - 8);
    uint32_t at = (uint32_t)rng_below(rng, 50);
    for (uint32_t t = 0; t < LENGTH; t++) {
        room->logits[2 * t] = (float)rng_below(rng, 60) * 0.25f;
        room->logits[2 * t + 1] = (float)rng_below(rng, 60) * 0.25f;
        room->begin[t] = at;
        room->end[t] = at += (uint32_t)rng_below(rng, 4);
    }
    return (struct span_window){room->logits, context, end, room->begin, room->end};
}

static void same(const struct span *a, const struct span *b) {
    assert_int_equal(a->none, b->none);
    assert_int_equal(a->window, b->window);
    assert_int_equal(a->start, b->start);
    assert_int_equal(a->end, b->end);
    assert_int_equal(a->byte_start, b->byte_start);
    assert_int_equal(a->byte_end, b->byte_end);
    assert_true(a->score == b->score && a->probability == b->probability);
}

// One struct question for all of them, as its users have: what one leaves must not show in the next.
static void test_windows_one_by_one(void **state) {
    (void)state;
    struct rng rng = rng_stream(11, 1);
    struct question question = {0};
    for (int round = 0; round < 300; round++) {
        struct room rooms[WINDOWS];
        struct span_window windows[WINDOWS];
        struct span_options options = {.n_best = 1 + (uint32_t)rng_below(&rng, round % 9 ? 20 : SPANS_BEST_MAX),
                                       .max_answer = 1 + (uint32_t)rng_below(&rng, 30),
                                       .no_answer = rng_below(&rng, 2)};
        struct span *want;
        uint32_t n = 1 + (uint32_t)rng_below(&rng, WINDOWS), n_want;
        question_clear(&question);
        for (uint32_t w = 0; w < n; w++) {
            windows[w] = window_random(&rooms[w], &rng);
            assert_ok(question_add(&question, &windows[w], &options));
        }
        struct span answer = question_answer(&question, &options);
        assert_ok(spans_decode(&want, &n_want, windows, n, &options));
        assert_int_equal(question.windows, n);
        assert_int_equal(question.n, n_want);
        for (uint32_t i = 0; i < n_want; i++)
            same(&question.spans[i], &want[i]);
        const struct span *best = spans_answer(want, n_want, &options);
        same(&answer, best ? best : &(struct span){.none = 1});
        free(want);
    }
    question_release(&question);
}

static void test_nothing_to_say(void **state) {
    (void)state;
    const float logits[6] = {0, 0, 1, 1, 0, 0};
    const uint32_t zeros[3] = {0};
    struct span_window empty = {logits, 2, 2, zeros, zeros};
    struct question question = {0};
    for (int no_answer = 0; no_answer < 2; no_answer++) {
        struct span_options options = span_options(no_answer);
        question_clear(&question);
        assert_ok(question_add(&question, &empty, &options));
        struct span answer = question_answer(&question, &options);
        assert_int_equal(answer.none, 1);
        assert_int_equal(question.n, no_answer);
        assert_true(answer.probability == no_answer);
    }
    question_release(&question);
}

static struct example row(const char *context, const char *answer, struct source_answer *room, bool labelled) {
    struct example out = {.pair = context, .pair_size = strlen(context), .label = labelled ? 0 : -1};
    if (answer) {
        *room = (struct source_answer){.text = answer, .size = strlen(answer)};
        out.answers = room;
        out.n_answers = 1;
    }
    return out;
}

static struct span_answer answer(uint32_t begin, uint32_t end, uint32_t windows, double loss) {
    return (struct span_answer){
        .span = {.byte_start = begin, .byte_end = end, .none = begin == end}, .windows = windows, .loss = loss};
}

// Five questions: right, half right, rightly none, wrongly none, unlabelled (which counts nowhere).
static void test_totals(void **state) {
    (void)state;
    struct source_answer golds[5];
    struct example rows[] = {row("red cat", "red", &golds[0], true), row("red cat", "red", &golds[1], true),
                             row("red cat", NULL, &golds[2], true), row("red cat", "cat", &golds[3], true),
                             row("red cat", NULL, &golds[4], false)};
    const struct span_answer answers[] = {answer(0, 3, 1, 1), answer(0, 7, 3, 2.5), answer(0, 0, 1, 0.5),
                                          answer(0, 0, 1, 2), answer(0, 3, 7, 100)};
    struct source source = {.rows = rows, .n = 5};
    struct squad_totals totals;
    struct text text = {0};
    double loss;
    assert_ok(evaluate_squad(&totals, &loss, answers, &source, SQUAD_V2));
    assert_true(loss == 6.0 / 6); // of six windows
    assert_int_equal(totals.all.n, 4);
    assert_true(totals.all.exact == 2 && fabs(totals.all.f1 - (1 + 2.0 / 3 + 1)) < 1e-15);
    assert_int_equal(totals.answered.n, 3);
    assert_true(totals.answered.exact == 1 && totals.unanswered.exact == 1);
    evaluate_squad_print(&text, &totals, SQUAD_V2);
    assert_string_equal(text_string(&text), "\"official\": {\"name\": \"f1\", \"value\": 0.666666667}, \"em\": 0.5, "
                                            "\"f1\": 0.666666667, \"questions\": 4, \"has_answer\": {\"em\": "
                                            "0.333333333, \"f1\": 0.555555556, \"questions\": 3}, \"no_answer\": "
                                            "{\"em\": 1, \"f1\": 1, \"questions\": 1}");
    text_release(&text);
    source.n = 0;
    assert_ok(evaluate_squad(&totals, &loss, answers, &source, SQUAD_V1));
    assert_true(loss == 0 && totals.all.n == 0);
    evaluate_squad_print(&text, &totals, SQUAD_V1);
    assert_string_equal(text_string(&text), "\"official\": {\"name\": \"f1\", \"value\": 0}, \"em\": 0, \"f1\": 0, "
                                            "\"questions\": 0");
    text_release(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows_one_by_one),
        cmocka_unit_test(test_nothing_to_say),
        cmocka_unit_test(test_totals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
