// SPDX-License-Identifier: Apache-2.0
// Sums by stage and op over threads, spans that nest, room that runs out, the file of a trace.
#include "support.h"

#include "base/file.h"
#include "base/trace.h"

#include <jansson.h>
#include <pthread.h>

static const char *const stages[TRACE_STAGES] = {"none", "first", "second"};
static const char *const ops[TRACE_OPS] = {"copy", "sum"};

static void pause_ns(uint64_t ns) {
    const uint64_t end = trace_now() + ns;
    while (trace_now() < end)
        continue;
}

static void op_run(struct trace *trace, unsigned op, uint64_t ns, double flops) {
    const uint64_t begin = trace_now();
    pause_ns(ns);
    trace_op(trace, op, begin, flops);
}

static void *thread_main(void *trace) {
    op_run(trace, 1, 2000000, 5);
    return NULL;
}

static void thread_run(struct trace *trace) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, thread_main, trace), 0);
    pthread_join(thread, NULL);
}

// Two stages: one op each of the leading thread, and one of another thread in the second.
static void steps_run(struct trace *trace) {
    op_run(trace, 0, 1000, 100); // outside of any stage: not counted
    trace_stage(trace, 1);
    op_run(trace, 0, 1000000, 1);
    pause_ns(500000);
    trace_stage(trace, 2);
    op_run(trace, 1, 1000000, 2);
    thread_run(trace);
    trace_stage(trace, 0);
    pause_ns(500000);
}

static void sums_test(void **state) {
    (void)state;
    struct trace *trace;
    assert_ok(trace_open(&trace, 2, 0));
    const uint64_t begin = trace_now();
    steps_run(trace);
    const double all = 1e-9 * (double)(trace_now() - begin);
    const double first = trace_stage_seconds(trace, 1), second = trace_stage_seconds(trace, 2);
    assert_true(first >= 1.5e-3 && second >= 3e-3 && first + second <= all - 0.5e-3);
    assert_true(trace_op_seconds(trace, 1, 0) >= 1e-3 && trace_op_seconds(trace, 1, 0) <= first - 0.5e-3);
    assert_true(trace_op_seconds(trace, 1, 1) == 0 && trace_op_seconds(trace, 2, 0) == 0);
    assert_true(trace_op_seconds(trace, 2, 1) >= 3e-3 && trace_op_seconds(trace, 2, 1) <= second);
    assert_true(trace_flops(trace) == 8);
    assert_int_equal(trace_lost(trace), 0);
    trace_close(trace);
}

// A second trace finds the threads anew; one thread more than was said is left out.
static void threads_test(void **state) {
    (void)state;
    for (unsigned threads = 2; threads >= 1; threads--) {
        struct trace *trace;
        assert_ok(trace_open(&trace, threads, 4));
        steps_run(trace);
        assert_true(trace_flops(trace) == (threads == 2 ? 8 : 3));
        trace_close(trace);
    }
    trace_close(NULL);
}

static json_t *trace_read(const struct trace *trace, const char *folder) {
    char *path = path_join(folder, "trace.json");
    assert_ok(trace_write(trace, path, stages, ops));
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    if (!root)
        fail_msg("%s: %s", path, error.text);
    free(path);
    return root;
}

static void file_test(void **state) {
    (void)state;
    static const char *const wanted[] = {"copy", "first", "sum", "second", "sum"}; // as they end, thread by thread
    char *folder = support_folder();
    struct trace *trace;
    assert_ok(trace_open(&trace, 2, 100));
    json_t *root = trace_read(trace, folder);
    assert_int_equal(json_array_size(root), 0);
    json_decref(root);
    steps_run(trace);
    root = trace_read(trace, folder);
    assert_int_equal(json_array_size(root), 5);
    for (size_t i = 0; i < 5; i++) {
        json_t *event = json_array_get(root, i);
        assert_string_equal(json_string_value(json_object_get(event, "name")), wanted[i]);
        assert_string_equal(json_string_value(json_object_get(event, "ph")), "X");
        assert_string_equal(json_string_value(json_object_get(event, "cat")), i == 1 || i == 3 ? "stage" : "op");
        assert_int_equal(json_integer_value(json_object_get(event, "tid")), i == 4);
        assert_true(json_number_value(json_object_get(event, "ts")) >= 0);
        assert_true(json_number_value(json_object_get(event, "dur")) >= 1000); // microseconds
    }
    json_decref(root);
    trace_close(trace);
    assert_ok(trace_open(&trace, 2, 1)); // room for one span a thread
    steps_run(trace);
    assert_int_equal(trace_lost(trace), 3);
    assert_true(trace_flops(trace) == 8);
    root = trace_read(trace, folder);
    assert_int_equal(json_array_size(root), 2);
    json_decref(root);
    assert_status(trace_write(trace, "/nonexistent/trace.json", stages, ops), STATUS_IO);
    trace_close(trace);
    assert_ok(file_remove(folder));
    free(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_test),
        cmocka_unit_test(threads_test),
        cmocka_unit_test(file_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
