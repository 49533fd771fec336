// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "base/text.h"
#include "data/records.h"

static const struct source_columns all = {"text", "pair", "label", false};

// "line:text|pair|label line:…", a value that is not there as -.
static enum status records_print(struct text *out, enum source_format format, const struct source_columns *columns,
                                 const char *bytes, size_t size) {
    struct records records;
    struct record record;
    bool end;
    enum status status = records_open(&records, format, columns, "x", bytes, size);
    text_clear(out);
    text_puts(out, "");
    while (status == STATUS_OK && (status = records_next(&records, &record, &end)) == STATUS_OK && !end) {
        const struct cell *cells[] = {&record.text, &record.pair, &record.label};
        text_printf(out, "%s%zu:", out->size ? " " : "", record.line);
        for (int i = 0; i < 3; i++) {
            text_puts(out, i ? "|" : "");
            text_add(out, cells[i]->at ? cells[i]->at : "-", cells[i]->at ? cells[i]->size : 1);
        }
    }
    records_close(&records);
    return status;
}

static void reads(enum source_format format, const struct source_columns *columns, const char *bytes,
                  const char *wanted) {
    struct text out = {0};
    assert_ok(records_print(&out, format, columns, bytes, strlen(bytes)));
    assert_string_equal(text_string(&out), wanted);
    text_release(&out);
}

static void refuses(enum source_format format, const struct source_columns *columns, const char *bytes,
                    const char *what) {
    struct text out = {0};
    assert_status(records_print(&out, format, columns, bytes, strlen(bytes)), STATUS_DATA);
    if (!strstr(status_message(), what))
        fail_msg("the message \"%s\" lacks \"%s\"", status_message(), what);
    text_release(&out);
}

static void test_columns(void **state) {
    (void)state;
    const struct source_columns text = {.text = NULL}, other = {"tweet", NULL, "class", true};
    reads(SOURCE_CSV, &all, "id,label,pair,text\n7,joy,b,a\n8,,\"\",\"c\nd\"\nx,y,z,w\n", "2:a|b|joy 3:c\nd|| 5:w|z|y");
    reads(SOURCE_CSV, &text, "label,text\njoy,a\n", "2:a|-|-");
    reads(SOURCE_CSV, &other, "class,tweet\n1,a\n", "2:a|-|1");
    reads(SOURCE_TSV, &text, "text\tlabel\na, \"b\"\tjoy\n", "2:a, \"b\"|-|-");
    reads(SOURCE_CSV, &text, "text\n", "");
    reads(SOURCE_CSV, &text, "text\n\n\"\"\n", "3:|-|-");
    // a label's column may lack where it need not be there
    reads(SOURCE_CSV, &all, "text,pair\na,b\n", "2:a|b|-");
    // two columns of a name that nobody asks for
    reads(SOURCE_CSV, &text, "x,text,x\n1,a,2\n", "2:a|-|-");
}

static void test_header_refused(void **state) {
    (void)state;
    const struct source_columns other = {"tweet", NULL, "label", true};
    refuses(SOURCE_CSV, &all, "", "x: the file is empty");
    refuses(SOURCE_CSV, &all, "\n\n", "x: the file is empty");
    refuses(
        SOURCE_CSV, &other, "text,tweets,label\n",
        "x: there is no column \"tweet\" (data.columns.text); there are \"text\" \"tweets\" \"label\"; did you mean "
        "tweets?");
    refuses(SOURCE_CSV, &other, "tweet,labels\n", "\"label\" (data.columns.label)");
    refuses(SOURCE_CSV, &all, "text,label\n", "\"pair\" (data.columns.pair)");
    refuses(SOURCE_CSV, &all, "text,pair,text\n", "two columns are named \"text\"");
    refuses(SOURCE_CSV, &other, "tweet;label\n", "csv is separated by commas");
    refuses(SOURCE_CSV, &all, "Text,pair\n", "did you mean Text?");
    refuses(SOURCE_CSV, &all, "text,pair\n\xff,b\n", "x:2: invalid UTF-8: byte 0xff in column 1");
    struct text out = {0};
    assert_status(records_print(&out, SOURCE_CSV, &all, "\xff\xfet\0e\0", 6), STATUS_DATA);
    assert_non_null(strstr(status_message(), "UTF-16"));
    text_release(&out);
}

static void test_fields_refused(void **state) {
    (void)state;
    refuses(SOURCE_CSV, &all, "text,pair\na,b\nc\n", "x:3: 1 field, but the header has 2 (the last is \"c\")");
    refuses(SOURCE_CSV, &all, "text,pair\n\"a\n\",b\nc,d,e\n", "x:4: 3 fields, but the header has 2");
    refuses(SOURCE_TSV, &all, "text\tpair\na,b\n", "holds a tab");
}

static void test_jsonl(void **state) {
    (void)state;
    const struct source_columns text = {.text = NULL}, label = {.text = NULL, .label = "label", .label_must = true};
    reads(SOURCE_JSONL, &all,
          "{\"text\": \"a\\u00e9\\n\", \"pair\": \"\", \"label\": \"joy\"}\n\n"
          "{\"label\": -3, \"pair\": \"p\", \"text\": \"\", \"more\": [1, {}]}\n",
          "1:a\xc3\xa9\n||joy 3:|p|-3");
    reads(SOURCE_JSONL, &label, "{\"text\":\"a\",\"label\":null}\n{\"text\":\"b\",\"label\":\"\"}", "1:a|-|- 2:b|-|");
    reads(SOURCE_JSONL, &text, "{\"text\":\"a\",\"label\":1.5}", "1:a|-|-"); // nobody asks for it
    reads(SOURCE_JSONL, &all, "{\"text\":\"a\",\"pair\":\"b\"}", "1:a|b|-");
    refuses(SOURCE_JSONL, &label, "{\"text\":\"a\",\"label\":1}\n{\"text\":\"b\",\"lable\":1}",
            "x:2: there is no key \"label\" (data.columns.label); there are \"text\" \"lable\"; did you mean lable?");
    refuses(SOURCE_JSONL, &all, "{\"text\":\"a\"}", "x:1: there is no key \"pair\"");
    refuses(SOURCE_JSONL, &all, "{\"text\":\"a\",\"pair\":null}", "x:1: \"pair\" is \"null\", must be a string");
    refuses(SOURCE_JSONL, &text, "{\"text\":7}", "x:1: \"text\" is \"7\", must be a string");
    refuses(SOURCE_JSONL, &label, "{\"text\":\"a\",\"label\":1.0}",
            "x:1: \"label\" is \"1.0\", must be a string, an integer or null");
    refuses(SOURCE_JSONL, &label, "{\"text\":\"a\",\"label\":true}", "must be a string, an integer or null");
    refuses(SOURCE_JSONL, &label, "{\"text\":\"a\",\"label\":[\"x\"]}", "must be a string, an integer or null");
    struct text out = {0};
    assert_ok(records_print(&out, SOURCE_JSONL, &text, "{\"text\":\"a\\u0000b\"}", 19));
    assert_int_equal(out.size, 9);
    assert_memory_equal(out.at, "1:a\0b|-|-", 9);
    text_release(&out);
}

// Values live on in the memory that was taken.
static void test_take(void **state) {
    (void)state;
    const char *csv = "text\n\"a\"\"b\"\nplain\n", *jsonl = "{\"text\":\"a\\\"b\"}\n{\"text\":\"plain\"}\n";
    for (int i = 0; i < 2; i++) {
        const struct source_columns text = {.text = NULL};
        struct records records;
        struct record one, two;
        bool end;
        assert_ok(records_open(&records, i ? SOURCE_JSONL : SOURCE_CSV, &text, "x", i ? jsonl : csv,
                               strlen(i ? jsonl : csv)));
        assert_ok(records_next(&records, &one, &end));
        assert_ok(records_next(&records, &two, &end));
        char *storage = records_take(&records);
        assert_non_null(storage);
        assert_null(records_take(&records));
        records_close(&records);
        assert_int_equal(one.text.size, 3);
        assert_memory_equal(one.text.at, "a\"b", 3);
        assert_memory_equal(two.text.at, "plain", 5);
        free(storage);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_columns), cmocka_unit_test(test_header_refused),
                                       cmocka_unit_test(test_fields_refused), cmocka_unit_test(test_jsonl),
                                       cmocka_unit_test(test_take)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
