// SPDX-License-Identifier: Apache-2.0
// Questions and contexts as inputs of a run; the shards that prepare and run make of them.
#include "support.h"

#include "base/file.h"
#include "base/text.h"
#include "train/inputs.h"

static char *put(const char *folder, const char *name, const char *text) {
    char *path = path_join(folder, name);
    assert_ok(file_replace(path, text, strlen(text)));
    return path;
}

// n questions about one context each; `answered`: with their answers.
static void squad_put(const char *folder, const char *name, unsigned n, bool answered) {
    struct text json = {0};
    text_puts(&json, "{\"data\": [{\"paragraphs\": [");
    for (unsigned i = 0; i < n; i++) {
        text_printf(&json,
                    "%s{\"context\": \"The code of room %u is %u.\", \"qas\": [{\"id\": \"%s-%u\", \"question\": "
                    "\"Which code?\"",
                    i ? ", " : "", i, 1000 + i, name, i);
        if (answered && i % 3)
            text_printf(&json, ", \"answers\": [{\"text\": \"%u\", \"answer_start\": %d}]", 1000 + i,
                        22 + (i > 9 ? 2 : 1) - 1);
        else if (answered)
            text_puts(&json, ", \"is_impossible\": true");
        text_puts(&json, "}]}");
    }
    text_puts(&json, "]}]}");
    free(put(folder, name, text_string(&json)));
    text_release(&json);
}

// A job whose head and format are set behind the option table's back, as that still refuses them.
static struct job *job_make(const char *folder) {
    struct job *job;
    char *out = text_format("%s/out", folder);
    const char *const flags[] = {"--model.base", "random:tiny", "--data.dir",        folder, "--data.task", "rooms",
                                 "--out",        out,           "--data.max_length", "40"};
    assert_ok(job_read(&job, NULL, flags, sizeof flags / sizeof *flags, JOB_NEED_PREPARE));
    job->data.format = JOB_SQUAD;
    job->model.head = JOB_HEAD_QUESTION_ANSWERING;
    job->data.doc_stride = 6;
    free(out);
    return job;
}

static void test_kind(void **state) {
    (void)state;
    char *folder = support_folder();
    struct job *job = job_make(folder);
    struct base base;
    struct inputs inputs;
    assert_ok(base_open(&base, job, NULL));
    squad_put(folder, "train.json", 3, true);
    assert_status(inputs_look(job), STATUS_DATA);
    assert_non_null(strstr(status_message(), "holds no val.json"));
    assert_status(inputs_open(&inputs, job, &base, NULL), STATUS_DATA);
    inputs_close(&inputs);
    squad_put(folder, "val.json", 3, true);
    assert_ok(inputs_look(job));
    for (int turn = 0; turn < 2; turn++) {
        job->data.format = turn ? JOB_CSV : JOB_SQUAD;
        job->model.head = turn ? JOB_HEAD_QUESTION_ANSWERING : JOB_HEAD_CLASSIFICATION;
        assert_status(inputs_look(job), STATUS_USAGE);
        assert_non_null(strstr(status_message(), "model.head"));
        assert_non_null(strstr(status_message(), "data.format"));
        assert_status(inputs_open(&inputs, job, &base, NULL), STATUS_USAGE);
        inputs_close(&inputs);
    }
    base_close(&base);
    job_free(job);
    assert_ok(file_remove(folder));
    free(folder);
}

static void test_spans(void **state) {
    (void)state;
    char *folder = support_folder();
    struct job *job = job_make(folder);
    struct base base;
    struct inputs inputs;
    assert_ok(base_open(&base, job, NULL));
    squad_put(folder, "train.json", 12, true);
    squad_put(folder, "val.json", 6, true);
    assert_ok(inputs_open(&inputs, job, &base, NULL));
    assert_int_equal(inputs.config.head, HEAD_QUESTION_ANSWERING);
    assert_int_equal(inputs.config.labels, 2);
    assert_int_equal(inputs.config.label_names.n, 0);
    assert_int_equal(inputs.labels.n, 0);
    const struct shard *val = &inputs.shards[SPLIT_VAL];
    assert_true(val->spans);
    assert_int_equal(val->questions, 6);
    assert_int_equal(val->doc_stride, 6);
    assert_true(val->n > 6); // tokens are bytes here
    assert_true(val->longest <= 40);
    assert_null(inputs.sources[SPLIT_TRAIN].rows);
    const struct source *source = &inputs.sources[SPLIT_VAL];
    assert_int_equal(source->n, 6);
    uint32_t answered = 0;
    for (uint32_t i = 0; i < val->n; i++) {
        const struct example *row = &source->rows[val->rows[i]];
        if (val->labels[i] <= 0)
            continue;
        const char *begin = row->pair + val->begin[val->offsets[i] + (uint32_t)val->labels[i]];
        uint32_t end = val->end[val->offsets[i] + (uint32_t)val->ends[i]];
        assert_int_equal(end - (begin - row->pair), row->answers[0].size);
        assert_memory_equal(begin, row->answers[0].text, row->answers[0].size);
        answered++;
    }
    assert_true(answered >= 4);
    assert_int_equal(inputs.shards[SPLIT_TEST].n, 0); // none there
    char hash[33];
    memcpy(hash, inputs.data_hash, sizeof hash);
    inputs_close(&inputs);

    squad_put(folder, "test.json", 2, false); // unlabelled: not scored
    assert_ok(inputs_open(&inputs, job, &base, NULL));
    assert_int_equal(inputs.shards[SPLIT_TEST].n, 0);
    assert_string_equal(inputs.data_hash, hash);
    inputs_close(&inputs);
    squad_put(folder, "test.json", 2, true);
    assert_ok(inputs_open(&inputs, job, &base, NULL));
    assert_int_equal(inputs.shards[SPLIT_TEST].questions, 2);
    assert_int_equal(inputs.sources[SPLIT_TEST].n, 2);
    assert_string_not_equal(inputs.data_hash, hash);
    inputs_close(&inputs);

    job->data.doc_stride = 30; // more than a question leaves
    assert_status(inputs_open(&inputs, job, &base, NULL), STATUS_DATA);
    if (!strstr(status_message(), "train.json: question train.json-0: ") ||
        !strstr(status_message(), "data.doc_stride"))
        fail_msg("%s", status_message());
    inputs_close(&inputs);
    job->data.doc_stride = 6;
    squad_put(folder, "val.json", 6, false);
    assert_status(inputs_open(&inputs, job, &base, NULL), STATUS_DATA);
    if (!strstr(status_message(), "val.json: question val.json-0: no answer"))
        fail_msg("%s", status_message());
    inputs_close(&inputs);
    base_close(&base);
    job_free(job);
    assert_ok(file_remove(folder));
    free(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kind), cmocka_unit_test(test_spans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
