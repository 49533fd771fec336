// SPDX-License-Identifier: Apache-2.0
// Schedules against golden/optim/schedule.json (from transformers.get_scheduler), and the warm-up rule.
#include "support.h"

#include "optim/schedule.h"

#include <jansson.h>
#include <math.h>

static enum schedule_kind kind_of(const char *name) {
    if (strcmp(name, "linear") == 0)
        return SCHEDULE_LINEAR;
    if (strcmp(name, "cosine") == 0)
        return SCHEDULE_COSINE;
    if (strcmp(name, "polynomial") == 0)
        return SCHEDULE_POLYNOMIAL;
    assert_string_equal(name, "constant_with_warmup");
    return SCHEDULE_CONSTANT;
}

static double number(const json_t *object, const char *key, double otherwise) {
    const json_t *value = json_object_get(object, key);
    return value ? json_number_value(value) : otherwise;
}

static size_t golden_case(const json_t *item) {
    struct schedule s = {
        .kind = kind_of(json_string_value(json_object_get(item, "name"))),
        .base_lr = number(item, "base_lr", 0),
        .warmup = (uint64_t)number(item, "warmup", 0),
        .total = (uint64_t)number(item, "total", 0),
        .power = number(item, "power", 1),
        .lr_end = number(item, "lr_end", 1e-7),
        .cycles = number(item, "num_cycles", 0.5),
    };
    const json_t *multipliers = json_object_get(item, "multiplier"), *wanted;
    size_t step, compared = 0;
    json_array_foreach(multipliers, step, wanted) {
        double got = schedule_multiplier(&s, step);
        assert_true(isfinite(got));
        if (step > s.total || !json_is_number(wanted))
            continue;
        assert_near(got, json_number_value(wanted), 1e-12, 0);
        assert_near(schedule_lr(&s, step), s.base_lr * json_number_value(wanted), 1e-15, 0);
        compared++;
    }
    return compared;
}

static void test_golden(void **state) {
    (void)state;
    const char *path = support_path("FINETUNED_GOLDEN", "optim/schedule.json");
    SUPPORT_NEED(path, "golden/optim/schedule.json");
    json_t *list = json_load_file(path, 0, NULL), *item;
    assert_true(json_is_array(list) && json_array_size(list) > 0);
    size_t i, compared = 0;
    json_array_foreach(list, i, item) compared += golden_case(item);
    assert_true(compared > 10 * json_array_size(list));
    json_decref(list);
}

// Behind the end: nothing climbs again, nothing is undefined.
static void test_after_the_end(void **state) {
    (void)state;
    struct schedule s = {.base_lr = 1, .warmup = 2, .total = 10, .power = 1, .lr_end = 0.25, .cycles = 0.5};
    static const double wanted[] = {
        [SCHEDULE_LINEAR] = 0, [SCHEDULE_COSINE] = 0, [SCHEDULE_CONSTANT] = 1, [SCHEDULE_POLYNOMIAL] = 0.25};
    for (s.kind = SCHEDULE_LINEAR; s.kind <= SCHEDULE_POLYNOMIAL; s.kind++)
        for (uint64_t step = 10; step < 30; step++)
            assert_near(schedule_multiplier(&s, step), wanted[s.kind], 1e-15, 0);
    s = (struct schedule){.kind = SCHEDULE_POLYNOMIAL, .total = 0, .power = 1, .base_lr = 0};
    assert_true(schedule_lr(&s, 3) == 0);
}

static void test_warmup_steps(void **state) {
    (void)state;
    assert_int_equal(schedule_warmup_steps(0, 100), 0);
    assert_int_equal(schedule_warmup_steps(0.1, 101), 11); // rounded up
    assert_int_equal(schedule_warmup_steps(0.06, 1000), 60);
    assert_int_equal(schedule_warmup_steps(0.999, 3), 3);
    assert_int_equal(schedule_warmup_steps(1, 100), 1); // from 1: steps
    assert_int_equal(schedule_warmup_steps(500, 100), 500);
    assert_int_equal(schedule_warmup_steps(0.5, 0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_after_the_end),
        cmocka_unit_test(test_warmup_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
