// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "data/squad.h"

static enum status parse(struct source *out, const char *json, bool answered) {
    *out = (struct source){0};
    return squad_parse(out, "d/train.json", json, strlen(json), answered);
}

// One paragraph with this context and these qas.
static enum status paragraph(struct source *out, const char *context, const char *questions, bool answered) {
    char *json = text_format("{\"version\": \"v2.0\", \"data\": [{\"title\": \"T\", \"paragraphs\": "
                             "[{\"context\": \"%s\", \"qas\": [%s]}]}]}",
                             context, questions);
    enum status status = parse(out, json, answered);
    free(json);
    return status;
}

#define assert_text(at, size, wanted)                                                                                  \
    do {                                                                                                               \
        assert_int_equal(size, strlen(wanted));                                                                        \
        assert_memory_equal(at, wanted, size);                                                                         \
    } while (0)

static void test_published(void **state) {
    (void)state;
    struct source source;
    assert_ok(parse(
        &source,
        "{\"version\": \"v2.0\", \"data\": [{\"title\": \"Rivers\", \"paragraphs\": [{\"qas\": [\n"
        "{\"question\": \"Where is it?\", \"id\": \"a1\", \"answers\": [{\"text\": \"Kirn\", \"answer_start\": 9}, "
        "{\"text\": \"in Kirn\", \"answer_start\": 6}], \"is_impossible\": false},\n"
        "{\"plausible_answers\": [{\"text\": \"Kirn\", \"answer_start\": 9}], \"question\": \"How deep?\", "
        "\"id\": \"a2\", \"answers\": [], \"is_impossible\": true}],\n"
        "\"context\": \"It is in Kirn.\"}, {\"context\": \"nothing asked\", \"qas\": []}]},\n"
        "{\"title\": \"none\", \"paragraphs\": []},\n"
        "{\"paragraphs\": [{\"context\": \"x\", \"qas\": [{\"id\": \"b\", \"question\": \"\", \"answers\": "
        "[{\"answer_start\": 0, \"text\": \"x\"}]}]}]}]}",
        true));
    assert_int_equal(source.n, 3);
    const struct example *row = source.rows;
    assert_text(row->text, row->text_size, "Where is it?");
    assert_text(row->pair, row->pair_size, "It is in Kirn.");
    assert_string_equal(row->id, "a1");
    assert_string_equal(row->file, "d/train.json");
    assert_int_equal(row->line, 0);
    assert_int_equal(row->label, 0);
    assert_int_equal(row->n_answers, 2);
    assert_text(row->answers[0].text, row->answers[0].size, "Kirn");
    assert_int_equal(row->answers[0].begin, 9);
    assert_int_equal(row->answers[0].end, 13);
    assert_text(row->answers[1].text, row->answers[1].size, "in Kirn");
    assert_int_equal(row->answers[1].begin, 6);
    assert_string_equal(row[1].id, "a2");
    assert_int_equal(row[1].n_answers, 0);
    assert_int_equal(row[1].label, 0);
    assert_ptr_equal(row[1].pair, row[0].pair); // a context stands once
    assert_string_equal(row[2].id, "b");
    assert_int_equal(row[2].text_size, 0);
    assert_int_equal(row[2].answers[0].end, 1);
    source_close(&source);
}

// answer_start counts code points; bytes come out.
static void test_code_points(void **state) {
    (void)state;
    struct source source;
    const char *context = "Zo\u00eb \u4f4f\u5728 \U0001f1f3\U0001f1f1 caf\u00e9\\u0000\\ud83d\\ude00e\u0301n\\td.";
    assert_ok(paragraph(&source, context,
                        "{\"id\": \"1\", \"question\": \"?\", \"answers\": ["
                        "{\"text\": \"Zo\\u00eb\", \"answer_start\": 0}, {\"text\": \"\u5728\", \"answer_start\": 5},"
                        "{\"text\": \"\U0001f1f1\", \"answer_start\": 8}, {\"text\": \"\u00e9\\u0000\U0001f600\", "
                        "\"answer_start\": 13},"
                        "{\"text\": \"\u0301\", \"answer_start\": 17}, {\"text\": \"d.\", \"answer_start\": 20}]}",
                        true));
    const struct source_answer *answers = source.rows[0].answers;
    const uint32_t begins[] = {0, 8, 16, 24, 32, 36}, ends[] = {4, 11, 20, 31, 34, 38};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(answers[i].begin, begins[i]);
        assert_int_equal(answers[i].end, ends[i]);
        assert_int_equal(answers[i].size, ends[i] - begins[i]);
        assert_memory_equal(answers[i].text, source.rows[0].pair + begins[i], answers[i].size);
    }
    assert_int_equal(source.rows[0].pair_size, 38);
    source_close(&source);
}

static void assert_refused(const char *context, const char *questions, bool answered, const char *wanted) {
    struct source source;
    assert_status(paragraph(&source, context, questions, answered), STATUS_DATA);
    if (!strstr(status_message(), wanted) || !strstr(status_message(), "d/train.json"))
        fail_msg("%s: %s", questions, status_message());
    source_close(&source);
}

static void test_refused(void **state) {
    (void)state;
    const struct {
        const char *questions, *wanted;
    } cases[] = {
        {"{\"id\": \"q7\", \"question\": \"?\", \"answers\": [{\"text\": \"Kim\", \"answer_start\": 4}]}",
         "question q7: its answer is \"Kim\", but at answer_start 4 the context holds \"im \""},
        {"{\"id\": \"q7\", \"question\": \"?\", \"answers\": [{\"text\": \"kim\", \"answer_start\": 3}]}",
         "answer is \"kim\", but at answer_start 3 the context holds \"Kim\""},
        {"{\"id\": \"q7\", \"question\": \"?\", \"answers\": [{\"text\": \"here.\", \"answer_start\": 12}]}",
         "answer is \"here.\", but at answer_start 12 the context holds \"re.\""},
        {"{\"id\": \"q7\", \"question\": \"?\", \"answers\": [{\"text\": \"a\", \"answer_start\": 16}]}",
         "at answer_start 16 the context holds \"\""},
        {"{\"id\": \"q7\", \"question\": \"?\", \"answers\": [{\"text\": \"a\", \"answer_start\": "
         "9223372036854775807}]}",
         "the context holds \"\""},
        {"{\"id\": \"q7\", \"question\": \"?\", \"answers\": [{\"text\": \"a\", \"answer_start\": "
         "9223372036854775808}]}",
         ":1: column"},
        {"{\"id\": \"q7\", \"question\": \"?\", \"answers\": [{\"text\": \"a\", \"answer_start\": -1}]}",
         "data[0].paragraphs[0].qas[0]: question q7: \"answer_start\" is no whole number"},
        {"{\"id\": \"q7\", \"question\": \"?\", \"answers\": [{\"text\": \"a\", \"answer_start\": 1.0}]}",
         "\"answer_start\""},
        {"{\"id\": \"q7\", \"question\": \"?\", \"answers\": [{\"text\": \"a\"}]}", "\"answer_start\""},
        {"{\"id\": \"q7\", \"question\": \"?\", \"answers\": [{\"text\": \"\", \"answer_start\": 1}]}",
         "\"text\" is empty"},
        {"{\"id\": \"q7\", \"question\": \"?\", \"answers\": [{\"text\": 3, \"answer_start\": 1}]}",
         "\"text\" is no string"},
        {"{\"id\": \"q7\", \"question\": \"?\", \"answers\": [{\"answer_start\": 1}]}", "\"text\" is not there"},
        {"{\"id\": \"q7\", \"question\": \"?\", \"answers\": [7]}", "\"text\" is not there"},
        {"{\"id\": \"q7\", \"question\": \"?\", \"answers\": {\"text\": [\"Kim\"]}}", "\"answers\" is no list"},
        {"{\"id\": \"q7\", \"question\": \"?\"}", "question q7: the question has no answer"},
        {"{\"id\": \"q7\", \"question\": \"?\", \"answers\": []}", "has no answer"},
        {"{\"id\": \"q7\", \"question\": \"?\", \"answers\": [], \"is_impossible\": false}", "has no answer"},
        {"{\"id\": \"q7\", \"question\": \"?\", \"answers\": [], \"is_impossible\": \"true\"}",
         "neither true nor false"},
        {"{\"id\": \"q7\", \"question\": \"?\", \"answers\": [{\"text\": \"Kim\", \"answer_start\": 3}], "
         "\"is_impossible\": true}",
         "has answers and"},
        {"{\"id\": \"q7\", \"question\": null, \"is_impossible\": true}", "question q7: \"question\" is no string"},
        {"{\"id\": \"q7\", \"is_impossible\": true}", "\"question\" is not there"},
        {"{\"question\": \"?\", \"is_impossible\": true}", "qas[0]: \"id\" is not there"},
        {"{\"id\": 7, \"question\": \"?\", \"is_impossible\": true}", "\"id\" is no string"},
        {"{\"id\": \"\", \"question\": \"?\", \"is_impossible\": true}", "\"id\" \"\" has 0 bytes"},
        {"{\"id\": \"a\\u0000b\", \"question\": \"?\", \"is_impossible\": true}", "\"id\" \"a\\x00b\" has control"},
        {"{\"id\": \"a\\nb\", \"question\": \"?\", \"is_impossible\": true}", "has control"},
        {"{\"id\": \"q\", \"question\": \"?\", \"is_impossible\": true}, "
         "{\"id\": \"r\", \"question\": \"?\", \"is_impossible\": true}, {\"id\": \"q\", \"question\": \"?\", "
         "\"is_impossible\": true}",
         "two questions have the id q"},
        {"{\"id\": \"q\", \"id\": \"r\", \"question\": \"?\", \"is_impossible\": true}", "duplicate"},
        {"{\"id\": \"q\", \"question\": \"\\ud83d\", \"is_impossible\": true}", ":1: column"},
        {"[]", "qas[0]: \"id\" is not there"},
        {"", "no questions"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused("Hi Kim is here.", cases[i].questions, true, cases[i].wanted);
}

static void test_form(void **state) {
    (void)state;
    const struct {
        const char *json, *wanted;
    } cases[] = {
        {"", ":1: column 0"},
        {"{\"data\": [", "d/train.json:1: column"},
        {"\xff\xfe{", "UTF-16"},
        {"[]", "\"data\" is not there"},
        {"{\"data\": {}}", "\"data\" is no list"},
        {"{\"data\": []}", "no questions"},
        {"{\"data\": [{\"paragraphs\": []}]}", "no questions"},
        {"{\"data\": [{\"paragraphs\": []}, {}]}", "data[1]: \"paragraphs\" is not there"},
        {"{\"data\": [{\"paragraphs\": [{\"context\": \"c\", \"qas\": []}, {\"context\": \"c\"}]}]}",
         "data[0].paragraphs[1].qas[0]: \"qas\" is not there"},
        {"{\"data\": [{\"paragraphs\": [{\"qas\": []}]}]}", "\"context\" is not there"},
        {"{\"data\": [{\"paragraphs\": [{\"context\": 1, \"qas\": []}]}]}", "\"context\" is no string"},
        {"{\"id\": \"1\", \"context\": \"c\", \"question\": \"?\"}\n{\"id\": \"2\"}", "d/train.json:2: column"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct source source;
        assert_status(parse(&source, cases[i].json, true), STATUS_DATA);
        if (!strstr(status_message(), cases[i].wanted) || !strstr(status_message(), "d/train.json"))
            fail_msg("%s: %s", cases[i].json, status_message());
        source_close(&source);
    }
}

// Without the duty to have an answer, a question that says nothing is unlabelled.
static void test_unlabelled(void **state) {
    (void)state;
    struct source source;
    assert_ok(paragraph(&source, "Hi Kim.",
                        "{\"id\": \"a\", \"question\": \"?\"}, {\"id\": \"b\", \"question\": \"?\", \"answers\": []}, "
                        "{\"id\": \"c\", \"question\": \"?\", \"is_impossible\": true}, "
                        "{\"id\": \"d\", \"question\": \"?\", \"answers\": [{\"text\": \"Kim\", \"answer_start\": 3}]}",
                        false));
    assert_int_equal(source.rows[0].label, -1);
    assert_int_equal(source.rows[1].label, -1);
    assert_int_equal(source.rows[2].label, 0);
    assert_int_equal(source.rows[3].label, 0);
    source_close(&source);
    assert_refused("Hi Kim.",
                   "{\"id\": \"a\", \"question\": \"?\", \"answers\": [{\"text\": \"Kim\", \"answer_start\": 2}]}",
                   false, "but at answer_start 2");
}

static void hash_of(char out[33], const char *context, const char *questions) {
    struct source source;
    struct hash_stream *hash;
    assert_ok(paragraph(&source, context, questions, false));
    assert_ok(hash_begin(&hash));
    source_hash(&source, hash);
    hash_end(hash, out);
    source_close(&source);
}

// Ids, answers and their places are content too.
static void test_hash(void **state) {
    (void)state;
    const char *const questions[] = {
        "{\"id\": \"a\", \"question\": \"?\", \"answers\": [{\"text\": \"Kim\", \"answer_start\": 3}]}",
        "{\"id\": \"b\", \"question\": \"?\", \"answers\": [{\"text\": \"Kim\", \"answer_start\": 3}]}",
        "{\"id\": \"a\", \"question\": \"?\", \"answers\": [{\"text\": \"Kim\", \"answer_start\": 7}]}",
        "{\"id\": \"a\", \"question\": \"?\", \"answers\": [{\"text\": \"Ki\", \"answer_start\": 3}]}",
        "{\"id\": \"a\", \"question\": \"?\", \"answers\": [{\"text\": \"Kim\", \"answer_start\": 3}, "
        "{\"text\": \"Kim\", \"answer_start\": 7}]}",
        "{\"id\": \"a\", \"question\": \"?\", \"is_impossible\": true}",
        "{\"id\": \"a\", \"question\": \"?\"}",
        "{\"id\": \"a\", \"question\": \"!\"}",
    };
    char hashes[8][33], again[33];
    for (int i = 0; i < 8; i++) {
        hash_of(hashes[i], "Hi Kim Kim", questions[i]);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(hashes[i], hashes[j]);
    }
    hash_of(again, "Hi Kim Kim", questions[0]);
    assert_string_equal(again, hashes[0]);
    hash_of(again, "Hi Kim Kim.", questions[0]);
    assert_string_not_equal(again, hashes[0]);
}

// By way of source.h: files, missing ones, the name.
static void test_source(void **state) {
    (void)state;
    static const char good[] =
        "{\"data\": [{\"paragraphs\": [{\"context\": \"Kim\", \"qas\": [{\"id\": \"a\", \"question\": "
        "\"Who?\", \"answers\": [{\"text\": \"Kim\", \"answer_start\": 0}]}]}]}]}";
    static const char bare[] =
        "{\"data\": [{\"paragraphs\": [{\"context\": \"Kim\", \"qas\": [{\"id\": \"a\", \"question\": \"Who?\"}]}]}]}";
    char *folder = support_folder(), *train = path_join(folder, "train.json"), *val = path_join(folder, "val.json");
    struct source_spec spec = {.format = SOURCE_SQUAD, .dir = folder, .task = "my/own"};
    struct labels labels;
    struct source source;
    assert_ok(file_replace(train, good, strlen(good)));
    assert_ok(file_replace(val, bare, strlen(bare)));
    assert_ok(source_labels(&labels, &spec));
    assert_int_equal(labels.n, 0);
    assert_true(source_has(&spec, SPLIT_TRAIN));
    assert_false(source_has(&spec, SPLIT_TEST));
    assert_ok(source_read(&source, &spec, SPLIT_TRAIN, &labels));
    assert_string_equal(source.name, "my-own");
    assert_string_equal(source.rows[0].file, train);
    source_close(&source);
    assert_ok(source_read(&source, &spec, SPLIT_VAL, &labels));
    assert_int_equal(source.rows[0].label, -1);
    source_close(&source);
    assert_ok(file_replace(train, bare, strlen(bare)));
    assert_status(source_read(&source, &spec, SPLIT_TRAIN, &labels), STATUS_DATA);
    assert_non_null(strstr(status_message(), "question a: the question has no answer"));
    assert_status(source_read(&source, &spec, SPLIT_TEST, &labels), STATUS_DATA);
    assert_non_null(strstr(status_message(), "test.json"));
    labels_release(&labels);
    assert_ok(file_remove(folder));
    free(train);
    free(val);
    free(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published), cmocka_unit_test(test_code_points), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_form),      cmocka_unit_test(test_unlabelled),  cmocka_unit_test(test_hash),
        cmocka_unit_test(test_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
