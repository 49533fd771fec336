// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "data/jsonl.h"

// Line numbers and objects: "1{"a":1} 3{}"
static enum status lines_print(char *out, size_t room, const char *bytes, size_t size) {
    struct jsonl jsonl;
    bool end = false;
    size_t n = 0;
    enum status status = STATUS_OK;
    out[0] = '\0';
    jsonl_init(&jsonl, "x.jsonl", bytes, size);
    while ((status = jsonl_next(&jsonl, &end)) == STATUS_OK && !end) {
        char *text = json_dumps(jsonl.object, JSON_COMPACT);
        n += (size_t)snprintf(out + n, room - n, "%s%zu%s", n ? " " : "", jsonl.line, text);
        free(text);
    }
    jsonl_release(&jsonl);
    return status;
}

static void reads(const char *bytes, const char *wanted) {
    char out[1024];
    assert_ok(lines_print(out, sizeof out, bytes, strlen(bytes)));
    assert_string_equal(out, wanted);
}

static void refuses(const char *bytes, const char *place, const char *what) {
    char out[1024];
    assert_status(lines_print(out, sizeof out, bytes, strlen(bytes)), STATUS_DATA);
    if (strncmp(status_message(), place, strlen(place)) != 0 || !strstr(status_message(), what))
        fail_msg("the message \"%s\" lacks \"%s\" or \"%s\"", status_message(), place, what);
}

static void test_lines(void **state) {
    (void)state;
    reads("", "");
    reads("{}", "1{}");
    reads("{\"a\": 1}\n{\"a\": \"x\\ny\"}\n", "1{\"a\":1} 2{\"a\":\"x\\ny\"}");
    reads("{\"a\":1}\r\n{\"a\":2}\r\n", "1{\"a\":1} 2{\"a\":2}");
    reads("\n \t\r\n{}\n\n", "3{}");
    reads("\xef\xbb\xbf{}\n", "1{}");
    reads("{\"a\":\"\xe2\x80\xa8\"}", "1{\"a\":\"\xe2\x80\xa8\"}"); // U+2028 ends no line
}

static void test_refused(void **state) {
    (void)state;
    refuses("{}\n{\"a\":1,\"a\":2}\n", "x.jsonl:2: not valid JSON", "duplicate");
    refuses("{}\n\n{\"a\":\n1}\n", "x.jsonl:3: not valid JSON", "");
    refuses("{} {}\n", "x.jsonl:1: not valid JSON", "");
    refuses("[{\"a\":1}]\n", "x.jsonl:1: \"[{\"a\":1}]\" is no JSON object", "array");
    refuses("{}\n\"text\"\n", "x.jsonl:2: ", "no JSON object");
    refuses("{\"a\":NaN}\n", "x.jsonl:1: not valid JSON", "");
    refuses("{'a':1}\n", "x.jsonl:1: not valid JSON", "");
    refuses("{\"a\":\"\xff\"}\n", "x.jsonl:1: not valid JSON", "");
    refuses("{\"a\":\"\\ud800\"}\n", "x.jsonl:1: not valid JSON", "");
}

static void test_nul(void **state) {
    (void)state;
    const char bytes[] = "{\"a\": \"x\\u0000y\"}";
    struct jsonl jsonl;
    bool end;
    jsonl_init(&jsonl, "x.jsonl", bytes, sizeof bytes - 1);
    assert_ok(jsonl_next(&jsonl, &end));
    json_t *a = json_object_get(jsonl.object, "a");
    assert_int_equal(json_string_length(a), 3);
    assert_memory_equal(json_string_value(a), "x\0y", 3);
    jsonl_release(&jsonl);
}

static void test_depth(void **state) {
    (void)state;
    static char deep[100001];
    memset(deep, '[', 100000);
    refuses(deep, "x.jsonl:1: not valid JSON", "depth");
}

static void test_long(void **state) {
    (void)state;
    size_t size = JSONL_LINE_MAX + 1;
    char *bytes = malloc(size + 3), out[64];
    assert_non_null(bytes);
    memset(bytes, ' ', size);
    bytes[0] = '{';
    bytes[size - 2] = '}';
    bytes[size - 1] = '\n';
    assert_ok(lines_print(out, sizeof out, bytes, size)); // exactly the ceiling
    bytes[size - 1] = ' ';
    assert_status(lines_print(out, sizeof out, bytes, size), STATUS_DATA);
    assert_non_null(strstr(status_message(), "x.jsonl:1: a line of 67108865 bytes"));
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_nul), cmocka_unit_test(test_depth),
                                       cmocka_unit_test(test_long)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
