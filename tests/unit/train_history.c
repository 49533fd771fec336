// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "base/file.h"
#include "train/events.h"
#include "train/history.h"
#include "train/lost.h"

#include <math.h>

static void parse(struct history *h, size_t *whole, const char *lines) {
    assert_ok(history_parse(h, whole, lines, strlen(lines)));
}

#define START                                                                                                          \
    "{\"event\": \"start\", \"time\": 100.0, \"steps_total\": 30, \"data\": {\"hash\": \"da7a\"}, \"base_hash\": "     \
    "\"ba5e\"}\n"
#define STEP(n, time)                                                                                                  \
    "{\"event\": \"step\", \"time\": " #time ", \"step\": " #n ", \"epoch\": 2, \"loss\": 0.5, \"tweets_per_s\": "     \
    "90}\n"
#define SAVED(n) "{\"event\": \"checkpoint\", \"time\": 102, \"step\": " #n "}\n"
#define EVAL(split, n)                                                                                                 \
    "{\"event\": \"eval\", \"time\": 103, \"split\": \"" split "\", \"epoch\": 1, \"step\": " #n                       \
    ", \"loss\": 0.7, \"official\": {\"name\": \"macro_f1\", \"value\": 0.25}}\n"

static void test_course(void **state) {
    (void)state;
    struct history h;
    size_t whole;
    parse(&h, &whole, START STEP(5, 101) EVAL("val", 10) STEP(11, 104) EVAL("test", 7) "{\"event\": \"en");
    assert_int_equal(whole, strlen(START STEP(5, 101) EVAL("val", 10) STEP(11, 104) EVAL("test", 7)));
    assert_true(h.any);
    assert_int_equal(h.starts, 1);
    assert_string_equal(h.data_hash, "da7a");
    assert_string_equal(h.base_hash, "ba5e");
    assert_int_equal(h.step, 11); // not 7: that is the best model's
    assert_int_equal(h.epoch, 2);
    assert_int_equal(h.steps_total, 30);
    assert_string_equal(h.ended, "no stop event");
    assert_int_equal(h.end_step, 0);
    assert_int_equal(h.n, 2);
    assert_string_equal(h.evaluations[0].split, "val");
    assert_string_equal(h.evaluations[0].official, "macro_f1");
    assert_true(h.evaluations[0].value == 0.25 && h.evaluations[0].loss == 0.7 && h.loss == 0.5);
    assert_true(h.began == 100 && h.at == 103 && h.active == 3);
    history_release(&h);
    // a checkpoint is told after its commit, when training has gone on
    parse(&h, &whole, START STEP(5, 101) "{\"event\": \"checkpoint\", \"time\": 102, \"step\": 4}\n");
    assert_int_equal(h.step, 5);
    history_release(&h);
    parse(&h, &whole, START "{\"event\": \"checkpoint\", \"time\": 102, \"step\": 4}\n");
    assert_int_equal(h.step, 4);
    history_release(&h);
}

// What a resume supersedes is gone, and idle time between two starts is not counted.
static void test_resume(void **state) {
    (void)state;
    struct history h;
    size_t whole;
    parse(&h, &whole,
          START EVAL("val", 10) EVAL("val", 20) "{\"event\": \"end\", \"time\": 110, \"step\": 20}\n"
                                                "{\"event\": \"resume\", \"time\": 500, \"step\": 12}\n"
                                                "{\"event\": \"start\", \"time\": 501, \"steps_total\": 40}\n" STEP(
                                                    13, 503) "{\"event\": \"stop\", \"time\": 504, \"step\": 13, "
                                                             "\"reason\": \"signal\"}\n");
    assert_int_equal(h.starts, 2);
    assert_string_equal(h.base_hash, ""); // of the last start, which has none
    assert_int_equal(h.n, 1);
    assert_int_equal(h.evaluations[0].step, 10);
    assert_int_equal(h.step, 13);
    assert_int_equal(h.steps_total, 40);
    assert_int_equal(h.end_step, 0);
    assert_string_equal(h.ended, "stop: signal");
    assert_true(h.active == 10 + 3);
    history_release(&h);
}

// Ended behind an evaluation, and made again: once.
static void test_evaluated_again(void **state) {
    (void)state;
    struct history h;
    size_t whole;
    parse(&h, &whole, START EVAL("val", 10) EVAL("test", 10) EVAL("val", 20) EVAL("val", 10) EVAL("val", 20));
    assert_int_equal(h.n, 3);
    assert_string_equal(h.evaluations[0].split, "test");
    assert_int_equal(h.evaluations[1].step, 10);
    assert_int_equal(h.evaluations[2].step, 20);
    history_release(&h);
}

// A start without a resume begins at step 0: nothing of what was there before is this run's.
static void test_afresh(void **state) {
    (void)state;
    struct history h;
    size_t whole;
    parse(&h, &whole,
          START STEP(5, 101) EVAL("val", 10) SAVED(10) "{\"event\": \"end\", \"time\": 110, \"step\": 20, \"report\": "
                                                       "{\"report.json\": \"aa\"}}\n" START);
    assert_int_equal(h.saved_step, 0);
    assert_string_equal(h.report.json, "");
    assert_int_equal(h.starts, 2);
    assert_int_equal(h.n, 0);
    assert_int_equal(h.step, 0);
    assert_int_equal(h.end_step, 0);
    assert_true(isnan(h.loss));
    history_release(&h);
}

static void test_end(void **state) {
    (void)state;
    struct history h;
    size_t whole;
    parse(&h, &whole, START STEP(1, 102) "{\"event\": \"end\", \"time\": 105, \"step\": 1}\n");
    assert_string_equal(h.ended, "end");
    assert_int_equal(h.end_step, 1);
    assert_string_equal(h.report.json, "");
    history_release(&h);
    parse(&h, &whole,
          START "{\"event\": \"end\", \"time\": 105, \"step\": 1, \"epoch\": 3, \"report\": {\"report.json\": \"aa\", "
                "\"report.md\": \"bb\"}}\n");
    assert_int_equal(h.epoch, 3);
    assert_string_equal(h.report.json, "aa");
    assert_string_equal(h.report.markdown, "bb");
    history_release(&h);
}

// The newest checkpoint that is there, by what the events tell.
static void test_saved(void **state) {
    (void)state;
    struct history h;
    size_t whole;
    parse(&h, &whole, START SAVED(4) SAVED(8));
    assert_int_equal(h.saved_step, 8);
    history_release(&h);
    parse(&h, &whole,
          START SAVED(4) SAVED(8) "{\"event\": \"resume\", \"time\": 500, \"step\": 4, \"epoch\": 2}\n" START);
    assert_int_equal(h.saved_step, 4);
    assert_int_equal(h.epoch, 2);
    history_release(&h);
}

// Lines that are no events, and values of the wrong type.
// A stop that names a rank; whatever comes after it has not.
static void test_lost(void **state) {
    (void)state;
    const char *lost = START STEP(5, 101) "{\"event\": \"stop\", \"time\": 102, \"step\": 5, \"reason\": \"timeout\", "
                                          "\"exit\": 75, \"rank\": 2, \"host\": \"b\", \"operation\": \"backward\"}\n";
    const char *odd = START "{\"event\": \"stop\", \"reason\": \"timeout\", \"rank\": \"2\", \"host\": 3}\n";
    struct history h;
    size_t whole;
    parse(&h, &whole, lost);
    assert_string_equal(h.ended, "stop: timeout");
    assert_int_equal(h.lost.rank, 2);
    assert_string_equal(h.lost.host, "b");
    assert_string_equal(h.lost.operation, "backward");
    history_release(&h);
    parse(&h, &whole, odd);
    assert_int_equal(h.lost.rank, -1);
    assert_string_equal(h.lost.host, "");
    history_release(&h);
    parse(&h, &whole, START STEP(5, 101));
    assert_int_equal(h.lost.rank, -1);
    history_release(&h);
}

static void write_file(const char *folder, const char *name, const char *lines) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(lines, file);
    fclose(file);
}

// Where rank 0 was lost another rank's file tells of it; one that is older than what rank 0 wrote since does not.
static void test_other_rank(void **state) {
    (void)state;
    const char *stop = "{\"event\": \"stop\", \"time\": 103, \"step\": 6, \"reason\": \"peer_lost\", \"exit\": 75, "
                       "\"rank\": 0, \"host\": \"a\", \"operation\": \"export\"}\n";
    struct events_previous previous;
    char folder[] = "/tmp/finetuned-history-XXXXXX";
    assert_non_null(mkdtemp(folder));
    write_file(folder, "events.jsonl", START STEP(5, 101));
    write_file(folder, "events.rank-1.jsonl", stop);
    write_file(folder, "events.rank-x.jsonl", stop);
    assert_ok(events_look(&previous, folder));
    assert_string_equal(previous.ended, "stop: peer_lost");
    assert_int_equal(previous.lost.rank, 0);
    assert_string_equal(previous.lost.operation, "export");
    assert_int_equal(previous.step, 5);
    write_file(folder, "events.jsonl", START STEP(7, 104));
    assert_ok(events_look(&previous, folder));
    assert_string_equal(previous.ended, "no stop event");
    assert_int_equal(previous.lost.rank, -1);
    assert_ok(file_remove(folder));
    assert_true(lost_is("events.rank-12.jsonl"));
    assert_false(lost_is("events.rank-.jsonl") || lost_is("events.rank-1.json") || lost_is("events.jsonl") ||
                 lost_is("events.rank-1x.jsonl"));
}

static void test_odd(void **state) {
    (void)state;
    struct history h;
    size_t whole;
    parse(&h, &whole,
          "\n[]\n{}\n{\"event\": 3}\n{\"event\": \"eval\"}\n{\"event\": \"step\", \"step\": -4, \"loss\": "
          "\"x\"}\n\xff\n");
    assert_true(h.any);
    assert_int_equal(h.n, 1);
    assert_int_equal(h.step, 0);
    assert_true(isnan(h.evaluations[0].loss) && isnan(h.loss));
    history_release(&h);
    parse(&h, &whole, "");
    assert_false(h.any);
    assert_int_equal(whole, 0);
    history_release(&h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_course), cmocka_unit_test(test_resume),     cmocka_unit_test(test_end),
        cmocka_unit_test(test_saved),  cmocka_unit_test(test_afresh),     cmocka_unit_test(test_evaluated_again),
        cmocka_unit_test(test_lost),   cmocka_unit_test(test_other_rank), cmocka_unit_test(test_odd)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
