// SPDX-License-Identifier: Apache-2.0
// Exact match and F1 against tests/golden/squad_metrics.json; the text functions at every code point against what
// Python says there (tests/golden/unicode_python.json). Both are ours: tests/oracle/squad_metrics.py writes them.
#include "support.h"

#include "base/text.h"
#include "model/squad_metrics.h"
#include "model/squad_text.h"

#include <jansson.h>

#define CODES 0x110000u
enum { WORD = 1, SPACE = 2, CASED = 4, IGNORABLE = 8 };

static json_t *facts_read(const char *name) {
    const char *path = support_path("FINETUNED_SOURCE", name);
    json_error_t error;
    json_t *facts = json_load_file(path ? path : name, JSON_ALLOW_NUL, &error);
    if (!facts)
        fail_msg("%s: %s", name, error.text);
    return facts;
}

static void normalize_check(const char *text, size_t size, const char *want, size_t want_size) {
    struct text got = {0};
    assert_ok(squad_normalize(&got, text, size));
    if (got.size != want_size || (want_size && memcmp(got.at, want, want_size) != 0))
        fail_msg("\"%.*s\" gives \"%.*s\", wanted \"%.*s\"", (int)size, text, (int)got.size, got.at ? got.at : "",
                 (int)want_size, want);
    text_release(&got);
}

static void string_check(const json_t *text, const json_t *want) {
    assert_true(json_is_string(text) && json_is_string(want));
    normalize_check(json_string_value(text), json_string_length(text), json_string_value(want),
                    json_string_length(want));
}

static void case_check(const json_t *at, struct squad_totals totals[3]) {
    struct source_answer golds[16];
    struct squad_score score;
    const json_t *texts = json_object_get(at, "golds"), *answer = json_object_get(at, "prediction");
    uint32_t n = (uint32_t)json_array_size(texts);
    json_int_t version = json_integer_value(json_object_get(at, "version"));
    assert_true(n < 16 && (version == 1 || version == 2));
    string_check(answer, json_object_get(at, "normalized"));
    for (uint32_t i = 0; i < n; i++) {
        const json_t *text = json_array_get(texts, i);
        string_check(text, json_array_get(json_object_get(at, "normalized_golds"), i));
        golds[i] = (struct source_answer){json_string_value(text), json_string_length(text), 0, 0};
    }
    assert_ok(squad_score(&score, (enum squad_version)version, json_string_value(answer), json_string_length(answer),
                          golds, n));
    double exact = json_number_value(json_object_get(at, "exact")), f1 = json_number_value(json_object_get(at, "f1"));
    if (score.exact != exact || score.f1 != f1)
        fail_msg("version %d, \"%s\": exact %g, f1 %.17g, wanted %g, %.17g", (int)version, json_string_value(answer),
                 score.exact, score.f1, exact, f1);
    squad_totals_add(&totals[version], &score, n > 0);
}

static void sum_check(const struct squad_sum *sum, const json_t *want) {
    assert_int_equal(sum->n, json_integer_value(json_object_get(want, "n")));
    assert_true(squad_mean(sum->exact, sum->n) == json_number_value(json_object_get(want, "exact")));
    assert_true(squad_mean(sum->f1, sum->n) == json_number_value(json_object_get(want, "f1")));
}

static void test_cases(void **state) {
    (void)state;
    json_t *facts = facts_read("tests/golden/squad_metrics.json"), *at;
    struct squad_totals totals[3] = {0};
    size_t i;
    json_array_foreach(json_object_get(facts, "cases"), i, at) {
        case_check(at, totals);
    }
    assert_true(i >= 200);
    const json_t *want = json_object_get(facts, "totals");
    sum_check(&totals[1].all, json_object_get(json_object_get(want, "1"), "all"));
    sum_check(&totals[1].answered, json_object_get(json_object_get(want, "1"), "answered"));
    sum_check(&totals[1].unanswered, NULL);
    sum_check(&totals[2].all, json_object_get(json_object_get(want, "2"), "all"));
    sum_check(&totals[2].answered, json_object_get(json_object_get(want, "2"), "answered"));
    sum_check(&totals[2].unanswered, json_object_get(json_object_get(want, "2"), "unanswered"));
    json_decref(facts);
}

// --- Every code point

static void flags_set(uint8_t *flags, const json_t *facts, const char *name, uint8_t flag) {
    size_t i;
    json_t *range;
    json_array_foreach(json_object_get(facts, name), i, range) {
        for (json_int_t c = json_integer_value(json_array_get(range, 0));
             c <= json_integer_value(json_array_get(range, 1)); c++)
            flags[c] |= flag;
    }
    assert_true(i > 0);
}

// U+0130 is checked by itself, NUL and the sigma among the cases.
static void lower_set(uint32_t *lower, const json_t *facts) {
    size_t i;
    json_t *pair;
    for (uint32_t c = 0; c < CODES; c++)
        lower[c] = c;
    json_array_foreach(json_object_get(facts, "lower"), i, pair) {
        lower[json_integer_value(json_array_get(pair, 0))] =
            (uint32_t)json_integer_value(json_array_get(json_array_get(pair, 1), 0));
    }
    assert_true(i > 1000);
}

static bool is_punctuation(uint32_t c) {
    return c < 128 && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", (int)c) && c;
}

// "<before><c><behind>" gives "<wanted before><low><wanted behind>".
static void beside_check(const char *c, const char *low, const char *before, const char *behind,
                         const char *wanted_before, const char *wanted_behind) {
    char text[32], want[32];
    int size = snprintf(text, sizeof text, "%s%s%s", before, c, behind);
    int want_size = snprintf(want, sizeof want, "%s%s%s", wanted_before, low, wanted_behind);
    normalize_check(text, (size_t)size, want, (size_t)want_size);
}

static void code_check(uint32_t c, uint8_t flags, uint32_t lower) {
    static const char sigma[] = "\xce\xa3", small[] = "\xcf\x83", final[] = "\xcf\x82";
    char one[5] = "", low[5] = "", behind[4];
    utf8_encode(c, one);
    if (!is_punctuation(c) && !(flags & SPACE))
        utf8_encode(lower, low);
    if (lower != 'a') // an article
        normalize_check(one, strlen(one), low, strlen(low));
    beside_check(one, low, "the", "", flags & WORD && low[0] ? "the" : "", ""); // an article, or a word's begin
    beside_check(one, low, "", sigma, "", flags & CASED ? final : small);
    snprintf(behind, sizeof behind, "%s%s", flags & SPACE ? " " : "", flags & (CASED | IGNORABLE) ? final : small);
    beside_check(one, low, "B", sigma, "b", behind);
}

static void test_every_code_point(void **state) {
    (void)state;
    json_t *facts = facts_read("tests/golden/unicode_python.json");
    uint8_t *flags = calloc(CODES, 1);
    uint32_t *lower = calloc(CODES, sizeof *lower);
    assert_true(flags && lower);
    flags_set(flags, facts, "word", WORD);
    flags_set(flags, facts, "space", SPACE);
    flags_set(flags, facts, "cased", CASED);
    flags_set(flags, facts, "ignorable", IGNORABLE);
    lower_set(lower, facts);
    for (uint32_t c = 1; c < CODES; c++)
        if ((c < 0xd800 || c > 0xdfff) && c != 0x130 && c != 0x3a3)
            code_check(c, flags[c], lower[c]);
    normalize_check("\xc4\xb0", 2, "i\xcc\x87", 3);
    free(flags);
    free(lower);
    json_decref(facts);
}

static void test_refused(void **state) {
    (void)state;
    struct squad_score score;
    struct text text = {0};
    const struct source_answer good = {"x", 1, 0, 1}, bad = {"x\xff", 2, 0, 2};
    assert_status(squad_normalize(&text, "ab\xc3", 3), STATUS_DATA);
    assert_non_null(strstr(status_message(), "byte 2"));
    assert_status(squad_score(&score, SQUAD_V1, "\xed\xa0\x80", 3, &good, 1), STATUS_DATA);
    assert_status(squad_score(&score, SQUAD_V2, "x", 1, &bad, 1), STATUS_DATA);
    text_release(&text);
}

static void test_version(void **state) {
    (void)state;
    struct example rows[3] = {{.label = 0, .n_answers = 2}, {.label = -1}, {.label = 0, .n_answers = 1}};
    struct source source = {.rows = rows, .n = 3};
    assert_int_equal(squad_version_of(&source), SQUAD_V1);
    rows[2].n_answers = 0;
    assert_int_equal(squad_version_of(&source), SQUAD_V2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_every_code_point),
                                       cmocka_unit_test(test_refused), cmocka_unit_test(test_version)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
