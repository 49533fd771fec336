// SPDX-License-Identifier: Apache-2.0
// Windows against those of Hugging Face (golden/windows, made by tests/oracle/windows.py), and what they must be for
// any text.
#include "support.h"
#include "tokenizers.h"

#include "data/window.h"

// The vocabulary's own folder, or NULL.
static struct tokenizer *vocabulary_open(const char *name) {
    struct tokenizer *tokenizer = NULL;
    const char *folder = support_path("FINETUNED_VOCAB", name);
    if (folder)
        assert_ok(tokenizer_open(&tokenizer, folder));
    return tokenizer;
}

static void numbers_check(const json_t *wanted, size_t i, uint32_t got, const char *what, const char *line) {
    if (json_integer_value(json_array_get(wanted, i)) != got)
        fail_msg("%s: %s %zu is %u, wanted %lld", line, what, i, got,
                 (long long)json_integer_value(json_array_get(wanted, i)));
}

static void window_check(const struct windows *windows, uint32_t i, const json_t *wanted, const json_t *fact,
                         const char *line) {
    static int32_t ids[512];
    static uint8_t types[512];
    static uint32_t begin[512], end[512];
    const json_t *answer = json_object_get(fact, "answer"), *tokens = json_object_get(wanted, "ids");
    uint32_t length = windows_length(windows, i), ones = 0;
    if (length > 512 || length != json_array_size(tokens))
        fail_msg("%s: window %u has %u tokens, wanted %zu", line, i, length, json_array_size(tokens));
    assert_int_equal(windows->context, json_integer_value(json_object_get(wanted, "context")));
    windows_copy(windows, i, ids, types, begin, end);
    for (uint32_t j = 0; j < length; j++) {
        numbers_check(tokens, j, (uint32_t)ids[j], "id", line);
        numbers_check(json_object_get(wanted, "offsets"), 2 * j, begin[j], "offset", line);
        numbers_check(json_object_get(wanted, "offsets"), 2 * j + 1, end[j], "offset", line);
        ones += types[j];
    }
    assert_int_equal(ones, json_integer_value(json_object_get(wanted, "ones")));
    assert_true(!ones || types[length - ones]);
    if (!json_is_string(answer))
        return;
    // where the answer stands in bytes
    const char *context = json_string_value(json_object_get(fact, "context"));
    long long at = json_integer_value(json_object_get(fact, "answer_start"));
    uint32_t first = 0;
    for (; at > 0; at--)
        do
            first++;
        while (((unsigned char)context[first] & 0xc0) == 0x80);
    int32_t start, last;
    windows_label(windows, i, first, first + (uint32_t)json_string_length(answer), &start, &last);
    numbers_check(json_object_get(wanted, "answer"), 0, (uint32_t)start, "answer", line);
    numbers_check(json_object_get(wanted, "answer"), 1, (uint32_t)last, "answer", line);
}

static void fact_check(struct windows *windows, const struct tokenizer *tokenizer, const json_t *fact,
                       const char *line) {
    const json_t *question = json_object_get(fact, "question"), *context = json_object_get(fact, "context");
    const json_t *wanted = json_object_get(fact, "windows");
    bool parse = strcmp(json_string_value(json_object_get(fact, "special")), "parse") == 0;
    struct window_options options = {
        .special = parse ? TOKENIZER_PARSE : TOKENIZER_LITERAL,
        .max_length = (uint32_t)json_integer_value(json_object_get(fact, "max_length")),
        .doc_stride = (uint32_t)json_integer_value(json_object_get(fact, "doc_stride")),
    };
    enum status status = windows_encode(windows, tokenizer, json_string_value(question), json_string_length(question),
                                        json_string_value(context), json_string_length(context), &options);
    if (json_object_get(fact, "error")) {
        if (status != STATUS_DATA || !strstr(status_message(), "data.doc_stride"))
            fail_msg("%s: not refused: %s", line, status_message());
        return;
    }
    assert_ok(status);
    if (windows->n != json_array_size(wanted))
        fail_msg("%s: %u windows, wanted %zu", line, windows->n, json_array_size(wanted));
    for (uint32_t i = 0; i < windows->n; i++)
        window_check(windows, i, json_array_get(wanted, i), fact, line);
}

static void facts_check(const char *path, const struct tokenizer *tokenizer) {
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0, facts = 0;
    struct windows windows = {0};
    assert_non_null(file);
    while (getline(&line, &room, file) > 0) {
        json_t *fact = test_json(line);
        line[120] = 0; // enough for messages; a line is longer
        fact_check(&windows, tokenizer, fact, line);
        json_decref(fact);
        facts++;
    }
    assert_true(facts > 50);
    windows_release(&windows);
    free(line);
    fclose(file);
}

static void golden(const char *name, const char *vocabulary) {
    char facts[64];
    snprintf(facts, sizeof facts, "tests/golden/windows/%s.jsonl", name);
    struct tokenizer *tokenizer = vocabulary_open(vocabulary);
    SUPPORT_NEED(tokenizer, vocabulary);
    facts_check(support_path("FINETUNED_SOURCE", facts), tokenizer);
    tokenizer_close(tokenizer);
}

static void test_bert(void **state) {
    (void)state;
    golden("bert", "bert-base-uncased");
}

static void test_roberta(void **state) {
    (void)state;
    golden("roberta", "roberta-base");
}

// Whatever the lengths: every context token is in a window, neighbours share doc_stride of them, only the last is
// shorter, and none is longer than max_length.
static void test_cover(void **state) {
    (void)state;
    struct tokenizer *tokenizer; // a token a byte
    struct windows windows = {0};
    char context[64];
    assert_ok(tokenizer_open_bytes(&tokenizer));
    for (uint32_t size = 0; size <= 40; size++)
        for (uint32_t most = 8; most < 30; most++)
            for (uint32_t stride = 1; stride + 7 < most; stride++) {
                struct window_options options = {.max_length = most, .doc_stride = stride};
                memset(context, 'c', size);
                assert_ok(windows_encode(&windows, tokenizer, "qqq", 3, context, size, &options));
                uint32_t room = most - 7, next = 0;
                assert_int_equal(windows.context, 6);
                for (uint32_t i = 0; i < windows.n; i++) {
                    struct window window = windows_at(&windows, i);
                    assert_int_equal(window.first - windows.context, i ? next - stride : 0);
                    next = window.first - windows.context + window.n;
                    assert_int_equal(windows_length(&windows, i), 7 + window.n);
                    assert_true(i + 1 < windows.n ? window.n == room && next < size : window.n <= room && next == size);
                }
            }
    windows_release(&windows);
    tokenizer_close(tokenizer);
}

static void test_refused(void **state) {
    (void)state;
    struct tokenizer *tokenizer;
    struct windows windows = {0};
    assert_ok(tokenizer_open_bytes(&tokenizer));
    struct window_options options = {.max_length = 14, .doc_stride = 10};
    const char *context = "0123456789abcdef";
    assert_status(windows_encode(&windows, tokenizer, "", 0, context, 16, &options), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "data.max_length 14"));
    assert_non_null(strstr(status_message(), "data.doc_stride, 10"));
    assert_ok(windows_encode(&windows, tokenizer, "", 0, context, 10, &options)); // fits: nothing is cut
    options.doc_stride = 8;
    assert_ok(windows_encode(&windows, tokenizer, "q", 1, context, 16, &options)); // 9 left, 1 a step
    assert_int_equal(windows.n, 8);
    assert_status(windows_encode(&windows, tokenizer, "qq", 2, context, 16, &options), STATUS_DATA);
    if (!strstr(status_message(), "a question of 2 tokens (and 4 special ones) leaves 8 of data.max_length 14") ||
        !strstr(status_message(), "context of 16 tokens"))
        fail_msg("%s", status_message());
    assert_status(windows_encode(&windows, tokenizer, "qqqqqqqqqqqqqqqqqqqq", 20, "c", 1, &options), STATUS_DATA);
    assert_non_null(strstr(status_message(), "leaves 0 of"));
    options.max_length = 0; // no limit
    assert_ok(windows_encode(&windows, tokenizer, "qq", 2, context, 16, &options));
    assert_int_equal(windows.n, 1);
    assert_int_equal(windows_length(&windows, 0), 22);
    assert_status(windows_encode(&windows, tokenizer, "q\xff", 2, context, 16, &options), STATUS_DATA);
    windows_release(&windows);
    tokenizer_close(tokenizer);
}

// An answer in a word that data.normalize replaces is the whole of its tokens: offsets are the original's.
static void test_normalized(void **state) {
    (void)state;
    struct tokenizer *tokenizer;
    struct windows windows = {0};
    struct window_options options = {.max_length = 40, .doc_stride = 4, .normalize = NORMALIZE_TWEET};
    const char *context = "ask @mirela_k or me";
    int32_t start, last, ids[64];
    uint8_t types[64];
    uint32_t begin[64], end[64];
    assert_ok(tokenizer_open_bytes(&tokenizer));
    assert_ok(windows_encode(&windows, tokenizer, "Who?", 4, context, strlen(context), &options));
    assert_int_equal(windows_length(&windows, 0), 4 + 4 + strlen("ask @user or me"));
    windows_label(&windows, 0, 4, 13, &start, &last);
    windows_copy(&windows, 0, ids, types, begin, end);
    assert_true(start <= last);
    assert_int_equal(begin[start], 4);
    assert_int_equal(end[last], 13);
    windows_label(&windows, 0, 14, 16, &start, &last);
    assert_int_equal(begin[start], 14);
    assert_int_equal(end[last], 16);
    windows_release(&windows);
    tokenizer_close(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bert),    cmocka_unit_test(test_roberta),    cmocka_unit_test(test_cover),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_normalized),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
