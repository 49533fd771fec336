// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "base/file.h"
#include "base/text.h"
#include "data/source.h"

static char *dir;

static int folder_make(void **state) {
    (void)state;
    dir = support_folder();
    return 0;
}

static int folder_remove(void **state) {
    (void)state;
    assert_ok(file_remove(dir));
    free(dir);
    return 0;
}

static void put(const char *name, const char *bytes) {
    char *path = path_join(dir, name);
    assert_ok(file_replace(path, bytes, strlen(bytes)));
    free(path);
}

static void gone(const char *name) {
    char *path = path_join(dir, name);
    assert_ok(file_remove(path));
    free(path);
}

static void says(const char *what) {
    if (!strstr(status_message(), what))
        fail_msg("the message \"%s\" lacks \"%s\"", status_message(), what);
}

static struct source_spec spec_make(enum source_format format) {
    return (struct source_spec){.format = format, .dir = dir, .task = "mine", .columns = {"text", NULL, "label", true}};
}

// "text=label …", text as it stands, label -1 for none.
static enum status split_print(struct text *out, const struct source_spec *spec, enum source_split split) {
    struct labels labels = {0};
    struct source source = {0};
    enum status status = source_labels(&labels, spec);
    if (status == STATUS_OK)
        status = source_read(&source, spec, split, &labels);
    text_clear(out);
    text_puts(out, "");
    for (size_t i = 0; i < source.n; i++)
        text_printf(out, "%s%.*s=%d", i ? " " : "", (int)source.rows[i].text_size, source.rows[i].text,
                    source.rows[i].label);
    source_close(&source);
    labels_release(&labels);
    return status;
}

static void reads(const struct source_spec *spec, enum source_split split, const char *wanted) {
    struct text out = {0};
    assert_ok(split_print(&out, spec, split));
    assert_string_equal(text_string(&out), wanted);
    text_release(&out);
}

static void refuses(const struct source_spec *spec, enum source_split split, const char *what) {
    struct text out = {0};
    assert_status(split_print(&out, spec, split), STATUS_DATA);
    says(what);
    text_release(&out);
}

static void test_labels_of_train(void **state) {
    (void)state;
    struct source_spec spec = spec_make(SOURCE_CSV);
    put("train.csv", "text,label\na,sad\nb,joy\nc,sad\n");
    put("val.csv", "text,label\nd,joy\ne,\n");
    reads(&spec, SPLIT_TRAIN, "a=1 b=0 c=1");
    reads(&spec, SPLIT_VAL, "d=0 e=-1");
    put("val.csv", "text,label\nd,1\n"); // ids are a mapping's
    refuses(&spec, SPLIT_VAL, "/val.csv:2: label \"1\" is not one of the 2 labels");
    put("val.csv", "text,label\nd,joy\n\n\"e\nf\",\"joyy\"\n");
    refuses(&spec, SPLIT_VAL, "/val.csv:4: label \"joyy\" is not one of the 2 labels: joy sad; did you mean joy?");
    put("train.csv", "text,label\na,10\nb,9\nc,-1\n"); // numbers by number, and then only as names
    put("val.csv", "text,label\nd,9\ne,10\n");
    reads(&spec, SPLIT_TRAIN, "a=2 b=1 c=0");
    reads(&spec, SPLIT_VAL, "d=1 e=2");
    put("val.csv", "text,label\nd,0\n");
    refuses(&spec, SPLIT_VAL, "/val.csv:2: label \"0\" is not one of the 3 labels: -1 9 10");
}

static void test_mapping(void **state) {
    (void)state;
    struct source_spec spec = spec_make(SOURCE_TSV);
    put("mapping.txt", "0\tjoy\n1\tanger\n2\tsad");
    put("train.tsv", "text\tlabel\na\t1\nb\tanger\nc\tjoy\n");
    reads(&spec, SPLIT_TRAIN, "a=1 b=1 c=0"); // ids, names, and not all of them
    put("train.tsv", "text\tlabel\na\t3\n");
    refuses(&spec, SPLIT_TRAIN, "/train.tsv:2: label \"3\" is not one of the 3 labels: joy anger sad");
    put("mapping.txt", "0\t1\n1\t0\n"); // a name comes first
    put("train.tsv", "text\tlabel\na\t0\nb\t1\n");
    reads(&spec, SPLIT_TRAIN, "a=1 b=0");
    put("mapping.txt", "0 joy\n");
    refuses(&spec, SPLIT_TRAIN, "mapping.txt:1");
    gone("mapping.txt");
}

static void test_jsonl(void **state) {
    (void)state;
    struct source_spec spec = spec_make(SOURCE_JSONL);
    struct labels labels;
    struct source source;
    spec.columns.pair = "other";
    put("train.jsonl",
        "{\"text\":\"a\",\"other\":\"x\",\"label\":1}\n{\"text\":\"b\",\"other\":\"\",\"label\":\"0\"}\n");
    assert_ok(source_labels(&labels, &spec));
    assert_int_equal(labels.n, 2);
    assert_ok(source_read(&source, &spec, SPLIT_TRAIN, &labels));
    assert_int_equal(source.n, 2);
    assert_string_equal(source.name, "mine");
    assert_int_equal(source.rows[0].label, 1);
    assert_int_equal(source.rows[1].label, 0);
    assert_int_equal(source.rows[0].pair_size, 1);
    assert_memory_equal(source.rows[0].pair, "x", 1);
    assert_non_null(source.rows[1].pair); // an empty second text is one
    assert_int_equal(source.rows[1].pair_size, 0);
    assert_int_equal(source.rows[1].line, 2);
    source_close(&source);
    labels_release(&labels);
}

static void test_splits(void **state) {
    (void)state;
    struct source_spec spec = spec_make(SOURCE_CSV);
    put("train.csv", "text,label\na,x\nb,y\n");
    put("validation.csv", "text,label\na,x\n");
    gone("val.csv");
    assert_true(source_has(&spec, SPLIT_TRAIN));
    assert_false(source_has(&spec, SPLIT_VAL));
    refuses(&spec, SPLIT_VAL, "the val split is missing: there is no val.csv; the folder has train.csv");
    says("validation.csv");
    put("val.csv", "text,label\n");
    refuses(&spec, SPLIT_VAL, "/val.csv: the val split has no rows");
    struct source_spec below = spec;
    char *folder = path_join(dir, "below"), *inner = path_join(folder, "train.csv");
    assert_ok(file_make_folders(folder));
    char *from = path_join(dir, "train.csv");
    assert_ok(file_copy(inner, from));
    gone("train.csv");
    below.task = "below";
    refuses(&below, SPLIT_TRAIN, "did you mean data.dir ");
    says("/below?");
    below.dir = folder;
    below.task = "../x";
    struct text out = {0};
    assert_status(split_print(&out, &below, SPLIT_TRAIN), STATUS_USAGE);
    says("data.task");
    below.dir = "/nowhere/at/all";
    refuses(&below, SPLIT_TRAIN, "/nowhere/at/all: no such folder");
    text_release(&out);
    free(from);
    free(inner);
    free(folder);
}

// What the values of train's label column say about it.
static void test_no_classes(void **state) {
    (void)state;
    struct source_spec spec = spec_make(SOURCE_CSV);
    struct text file = {0};
    put("train.csv", "text,lable\na,x\n");
    refuses(&spec, SPLIT_TRAIN, "there is no column \"label\"");
    says("did you mean lable?");
    put("train.csv", "text,label\na,\nb,\"\"\n");
    refuses(&spec, SPLIT_TRAIN, "no row has a label in \"label\"");
    put("train.csv", "text,label\na,x\nb,x\nc,\n");
    refuses(&spec, SPLIT_TRAIN, "all rows have the same label, \"x\"");
    text_puts(&file, "text,label\n");
    for (int i = 0; i < 21; i++)
        text_printf(&file, "a%d,%d\n", i, i);
    put("train.csv", text_string(&file));
    refuses(&spec, SPLIT_TRAIN, "each of the 21 rows has a label of its own");
    text_puts(&file, "b,3\n");
    put("train.csv", text_string(&file));
    struct text out = {0};
    assert_ok(split_print(&out, &spec, SPLIT_TRAIN)); // with a warning
    text_clear(&file);
    text_printf(&file, "text,label\nok,x\nbad,%01025d\n", 7);
    put("train.csv", text_string(&file));
    refuses(&spec, SPLIT_TRAIN, "/train.csv:3: label \"0000");
    text_release(&file);
    text_release(&out);
}

// One file of any format, chosen by its ending or said.
static void file_reads(enum source_format format, const char *name, const char *const *names, const char *wanted) {
    struct source_spec spec = spec_make(format);
    struct labels labels = {0};
    struct source source;
    struct text out = {0};
    char *path = path_join(dir, name);
    for (size_t i = 0; names && names[i]; i++)
        assert_ok(labels_add(&labels, names[i]));
    spec.columns.label_must = false;
    assert_ok(source_read_file(&source, &spec, path, names ? &labels : NULL));
    text_puts(&out, "");
    for (size_t i = 0; i < source.n; i++) {
        text_printf(&out, "%s%u:%.*s=%d", i ? " " : "", source.rows[i].line, (int)source.rows[i].text_size,
                    source.rows[i].text, source.rows[i].label);
        assert_string_equal(source.rows[i].file, path);
    }
    assert_string_equal(text_string(&out), wanted);
    text_release(&out);
    source_close(&source);
    labels_release(&labels);
    free(path);
}

static void test_one_file(void **state) {
    (void)state;
    const char *const names[] = {"joy", "sad", NULL};
    put("some.csv", "label,text\nsad,\"a\nb\"\n,c\n");
    put("some.CSV", "label,text\nsad,a\n");
    put("some.tsv", "label\ttext\n1\ta\n");
    put("some.jsonl", "{\"text\":\"a\"}\n{\"text\":\"b\",\"label\":\"joy\"}\n");
    put("some.txt", "label,text\n\nlast");
    put("some.json", "{\"data\": [{\"title\": \"t\", \"paragraphs\": [{\"context\": \"c\", \"qas\": "
                     "[{\"id\": \"1\", \"question\": \"q\"}]}]}]}");
    put("none.csv", "text\n");
    put("none.txt", "");
    file_reads(SOURCE_TWEET_EVAL, "some.csv", names, "2:a\nb=1 4:c=-1");
    file_reads(SOURCE_TWEET_EVAL, "some.csv", NULL, "2:a\nb=-1 4:c=-1");
    file_reads(SOURCE_TWEET_EVAL, "some.CSV", names, "2:a=1");
    file_reads(SOURCE_TWEET_EVAL, "some.tsv", names, "2:a=1");
    file_reads(SOURCE_TWEET_EVAL, "some.jsonl", names, "1:a=-1 2:b=0");
    file_reads(SOURCE_TWEET_EVAL, "some.txt", names, "1:label,text=-1 2:=-1 3:last=-1");
    file_reads(SOURCE_TWEET_EVAL, "some.json", NULL, "0:q=-1");
    file_reads(SOURCE_TWEET_EVAL, "none.csv", names, "");
    file_reads(SOURCE_TWEET_EVAL, "none.txt", names, "");
}

static void test_one_file_refused(void **state) {
    (void)state;
    struct source_spec spec = spec_make(SOURCE_CSV);
    struct source source;
    char *path = path_join(dir, "some.txt"), *missing = path_join(dir, "missing.csv");
    put("some.txt", "label,text\nx\n");
    assert_status(source_read_file(&source, &spec, path, NULL), STATUS_DATA);
    says("some.txt:2: 1 field");
    assert_status(source_read_file(&source, &spec, missing, NULL), STATUS_DATA);
    says("missing.csv");
    spec.columns.text = "tweet";
    assert_status(source_read_file(&source, &spec, path, NULL), STATUS_DATA);
    says("there is no column \"tweet\"");
    free(path);
    free(missing);
}

static enum status digest(enum source_format format, char out[33]) {
    struct source_spec spec = spec_make(format);
    struct labels labels;
    struct source source;
    struct hash_stream *hash;
    TRY(source_labels(&labels, &spec));
    enum status status = source_read(&source, &spec, SPLIT_TRAIN, &labels);
    labels_release(&labels);
    TRY(status);
    assert_ok(hash_begin(&hash));
    source_hash(&source, hash);
    hash_end(hash, out);
    source_close(&source);
    return STATUS_OK;
}

// The same rows are the same data, whatever the format.
static void test_hash(void **state) {
    (void)state;
    char hashes[3][33];
    put("train.csv", "label,text\nx,\"a\"\"b\nc\"\ny,d\n");
    put("train.tsv", "text\tlabel\n\"a\"\"b\nc\"\tx\nd\ty\n");
    put("train.jsonl", "{\"text\":\"a\\\"b\\nc\",\"label\":\"x\"}\n{\"text\":\"d\",\"label\":\"y\"}\n");
    for (int i = 0; i < 3; i++)
        assert_ok(digest((enum source_format)(SOURCE_CSV + i), hashes[i]));
    assert_string_equal(hashes[0], hashes[1]);
    assert_string_equal(hashes[0], hashes[2]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_labels_of_train),  cmocka_unit_test(test_mapping),    cmocka_unit_test(test_jsonl),
        cmocka_unit_test(test_splits),           cmocka_unit_test(test_no_classes), cmocka_unit_test(test_one_file),
        cmocka_unit_test(test_one_file_refused), cmocka_unit_test(test_hash)};
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
