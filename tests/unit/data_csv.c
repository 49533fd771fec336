// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "data/csv.h"

// All records as text: fields between [ ], records between line numbers. "1[a][b] 2[c][d]"
static enum status records_print(char *out, size_t room, char separator, const char *bytes, size_t size) {
    struct csv csv;
    bool end = false;
    size_t n = 0;
    enum status status = STATUS_OK;
    out[0] = '\0';
    csv_init(&csv, "x.csv", separator, bytes, size);
    while ((status = csv_next(&csv, &end)) == STATUS_OK && !end) {
        n += (size_t)snprintf(out + n, room - n, "%s%zu", n ? " " : "", csv.line);
        for (size_t i = 0; i < csv.n; i++)
            n += (size_t)snprintf(out + n, room - n, "[%.*s]", (int)csv.fields[i].size, csv.fields[i].at);
    }
    csv_release(&csv);
    return status;
}

static void reads(char separator, const char *bytes, const char *wanted) {
    char out[4096];
    assert_ok(records_print(out, sizeof out, separator, bytes, strlen(bytes)));
    assert_string_equal(out, wanted);
}

static void refuses(char separator, const char *bytes, const char *place, const char *what) {
    char out[4096];
    assert_status(records_print(out, sizeof out, separator, bytes, strlen(bytes)), STATUS_DATA);
    if (strncmp(status_message(), place, strlen(place)) != 0 || !strstr(status_message(), what))
        fail_msg("the message \"%s\" lacks \"%s\" or \"%s\"", status_message(), place, what);
}

static void test_records(void **state) {
    (void)state;
    reads(',', "", "");
    reads(',', "a", "1[a]");
    reads(',', "a,b\nc,d\n", "1[a][b] 2[c][d]");
    reads(',', "a,b\r\nc,d", "1[a][b] 2[c][d]");
    reads(',', ",\n,,\n", "1[][] 2[][][]");
    reads(',', "a,", "1[a][]");
    reads(',', " a , b ", "1[ a ][ b ]"); // blanks belong to the field
    reads(',', "a;b\tc,'d'\\", "1[a;b\tc]['d'\\]");
    reads('\t', "a,b\tc\n\td", "1[a,b][c] 2[][d]");
    reads(',',
          "\xef\xbb\xbf"
          "a,b",
          "1[a][b]");
    reads(',', "\xef\xbb\xbf\"a\"", "1[a]");
    reads(',',
          "a,\xef\xbb\xbf"
          "b",
          "1[a][\xef\xbb\xbf"
          "b]"); // only at the beginning
}

static void test_quotes(void **state) {
    (void)state;
    reads(',', "\"a\",\"b\"\n\"c\",d", "1[a][b] 2[c][d]");
    reads(',', "\"a,b\",\"\"\n", "1[a,b][]");
    reads(',', "\"say \"\"hi\"\"\",x", "1[say \"hi\"][x]");
    reads(',', "\"\"\"\",\"\"\"\"\"\"", "1[\"][\"\"]");
    reads(',', "\"one\ntwo\r\nthree\n\",x\ny,z", "1[one\ntwo\r\nthree\n][x] 5[y][z]");
    reads(',', "\"\r\",x", "1[\r][x]");
    reads('\t', "\"a\tb\"\t\"c\"\"d\"", "1[a\tb][c\"d]");
    // With tabs a quote that does not begin the field is an ordinary byte.
    reads('\t', "he said \"hi\"\t5\" tall\n \"x\"\t1", "1[he said \"hi\"][5\" tall] 2[ \"x\"][1]");
}

// A line without anything is no record; "" is one empty field.
static void test_blank_lines(void **state) {
    (void)state;
    reads(',', "\n\na\n\r\nb\n\n", "3[a] 5[b]");
    reads(',', "text\n\"\"\nb\n", "1[text] 2[] 3[b]");
    reads(',', "a\n \n", "1[a] 2[ ]"); // a blank is something
}

static void test_refused(void **state) {
    (void)state;
    refuses(',', "a,b\nc,d\"e\n", "x.csv:2: field 2, \"d\"e\"", "double quote in a field that does not begin with one");
    refuses(',', "a, \"b\"\n", "x.csv:1: field 2", "does not begin with one");
    refuses(',', "a\n\"x\ny\" z\n", "x.csv:2: field 1", "behind the closing double quote");
    refuses(',', "a\n\"x\n\n\"\" y\n", "x.csv:2: field 1", "never closed");
    refuses(',', "\"", "x.csv:1: field 1", "never closed");
    refuses('\t', "a\t\"b\"c\n", "x.csv:1: field 2", "behind the closing double quote");
    refuses(',', "a\rb\n", "x.csv:1: field 1", "carriage return");
    refuses(',', "a\r", "x.csv:1: field 1", "carriage return");
    refuses('\t', "a\t\rb", "x.csv:1: field 2", "carriage return");
}

static void test_bytes(void **state) {
    (void)state;
    const char bytes[] = "a\0b,\"c\0\"\"d\"\n";
    struct csv csv;
    bool end;
    csv_init(&csv, "x.csv", ',', bytes, sizeof bytes - 1);
    assert_ok(csv_next(&csv, &end));
    assert_false(end);
    assert_int_equal(csv.n, 2);
    assert_int_equal(csv.fields[0].size, 3);
    assert_ptr_equal(csv.fields[0].at, bytes); // where nothing is doubled nothing is copied
    assert_int_equal(csv.fields[1].size, 4);
    assert_memory_equal(csv.fields[1].at, "c\0\"d", 4);
    assert_ok(csv_next(&csv, &end));
    assert_true(end);
    assert_ok(csv_next(&csv, &end)); // and stays there
    assert_true(end);
    csv_release(&csv);
}

// Fields of any bytes, written with quotes, come back; those of an earlier record stay as they were.
static void test_many(void **state) {
    (void)state;
    const char alphabet[] = "a,\"\n\r\t ";
    unsigned long long seed = 12345;
    char bytes[8192], fields[400][8], kept[400][8];
    const char *at[400];
    size_t size = 0, sizes[400], n = 0, records = 0;
    for (size_t i = 0; i < 400; i++) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        sizes[i] = (size_t)(seed >> 40) % 8;
        bytes[size++] = '"';
        for (size_t j = 0; j < sizes[i]; j++) {
            fields[i][j] = alphabet[(seed >> (8 + 4 * j)) % (sizeof alphabet - 1)];
            bytes[size++] = fields[i][j];
            if (fields[i][j] == '"')
                bytes[size++] = '"';
        }
        bytes[size++] = '"';
        bytes[size++] = i % 4 == 3 ? '\n' : ',';
    }
    struct csv csv;
    bool end;
    csv_init(&csv, "x.csv", ',', bytes, size);
    for (; csv_next(&csv, &end) == STATUS_OK && !end; records++)
        for (size_t i = 0; i < csv.n; i++, n++) {
            assert_int_equal(csv.fields[i].size, sizes[n]);
            at[n] = csv.fields[i].at;
        }
    assert_int_equal(records, 100);
    assert_int_equal(n, 400);
    for (size_t i = 0; i < n; i++) {
        memcpy(kept[i], at[i], sizes[i]);
        assert_memory_equal(kept[i], fields[i], sizes[i]);
    }
    csv_release(&csv);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_records),     cmocka_unit_test(test_quotes),
                                       cmocka_unit_test(test_blank_lines), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_bytes),       cmocka_unit_test(test_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
