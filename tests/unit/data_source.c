// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "base/file.h"
#include "base/text.h"
#include "data/source.h"

static const uint32_t three = 3; // labels

static enum status parse(struct source *out, const char *text, size_t text_size, const char *ids) {
    *out = (struct source){0};
    return source_parse(out, "t.txt", text, text_size, "l.txt", ids, strlen(ids), three);
}

static void says(const char *what) {
    if (!strstr(status_message(), what))
        fail_msg("the message \"%s\" lacks \"%s\"", status_message(), what);
}

static void refused(const char *text, const char *ids, const char *what) {
    struct source source;
    assert_status(parse(&source, text, strlen(text), ids), STATUS_DATA);
    says(what);
    source_close(&source);
}

#define ROW(source, i, wanted)                                                                                         \
    do {                                                                                                               \
        assert_int_equal((source).rows[i].text_size, sizeof(wanted) - 1);                                              \
        assert_memory_equal((source).rows[i].text, wanted, sizeof(wanted) - 1);                                        \
        assert_int_equal((source).rows[i].line, (i) + 1);                                                              \
    } while (0)

static void test_rows(void **state) {
    (void)state;
    const char text[] = "a \"quote\t'tab\r\n\n \xe2\x80\xa8 LS\xc2\x85 NEL\n\r\ntrailing  \nn\0ul\x1c\x0b\x0c\nlast";
    struct source source;
    assert_ok(parse(&source, text, sizeof text - 1, "0\n1\n2\n0\n1\n2\n0"));
    assert_int_equal(source.n, 7);
    ROW(source, 0, "a \"quote\t'tab\r");
    ROW(source, 1, "");
    ROW(source, 2, " \xe2\x80\xa8 LS\xc2\x85 NEL");
    ROW(source, 3, "\r");
    ROW(source, 4, "trailing  ");
    ROW(source, 5, "n\0ul\x1c\x0b\x0c");
    ROW(source, 6, "last");
    for (int i = 0; i < 7; i++)
        assert_int_equal(source.rows[i].label, i % 3);
    source_close(&source);
    // with and without a last newline: the same two rows; a blank last row counts
    assert_ok(parse(&source, "a\nb\n", 4, "0\n1\n"));
    assert_int_equal(source.n, 2);
    source_close(&source);
    assert_ok(parse(&source, "a\nb", 3, "0\n1"));
    assert_int_equal(source.n, 2);
    source_close(&source);
    assert_ok(parse(&source, "a\n\n", 3, "0\n1"));
    assert_int_equal(source.n, 2);
    source_close(&source);
    assert_ok(parse(&source, "", 0, ""));
    assert_int_equal(source.n, 0);
    source_close(&source);
}

static void test_refused(void **state) {
    (void)state;
    const char *bad[] = {"3",  "-1", "1.0", "",  "+1",           " 1",         "1 ",
                         "01", "00", "1\t", "x", "\xef\xbc\x91", "4294967297", "18446744073709551616",
                         "1\v"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char ids[64];
        snprintf(ids, sizeof ids, "0\n%s\n2\n", bad[i]);
        refused("a\nb\nc\n", ids, "l.txt:2: label \"");
        if (bad[i][0] && !strchr(bad[i], '\t') && !strchr(bad[i], '\v') && bad[i][0] > 0)
            says(bad[i]);
    }
    refused("a\nb\n", "0\r\n1\r\n", "l.txt:1: label \"0\\x0d\": the line ends in CRLF");
    refused("a\nb\nc\n", "0\n1\n", "t.txt has 3 rows, l.txt has 2");
    refused("a\nb\n", "0\n1\n\n", "the last row of labels is blank");
    refused("fine\nsecond \xc3\xa9\xff\n", "0\n1\n", "t.txt:2: invalid UTF-8: byte 0xff in column 10");
    refused("\xed\xa0\x80\n", "0\n", "t.txt:1: invalid UTF-8: byte 0xed in column 1");
    refused("ok\nok\ncut \xf0\x9f\x98", "0\n1\n2", "t.txt:3: invalid UTF-8: byte 0xf0 in column 5");
}

static void write_file(const char *folder, const char *name, const char *bytes) {
    char *path = path_join(folder, name), *parent = strdup(path);
    *strrchr(parent, '/') = '\0';
    assert_ok(file_make_folders(parent));
    assert_ok(file_replace(path, bytes, strlen(bytes)));
    free(path);
    free(parent);
}

static enum status read_split(const char *dir, const char *task, enum source_split split, size_t *n) {
    struct source_spec spec = {.format = SOURCE_TWEET_EVAL, .dir = dir, .task = task};
    struct labels labels;
    struct source source;
    TRY(source_labels(&labels, &spec));
    enum status status = source_read(&source, &spec, split, &labels);
    if (status == STATUS_OK) {
        *n = source.n;
        source_close(&source);
    }
    labels_release(&labels);
    return status;
}

static void test_folders(void **state) {
    (void)state;
    char *dir = support_folder();
    size_t n = 0;
    write_file(dir, "emotion/mapping.txt", "0\ta\n1\tb");
    write_file(dir, "emotion/val_text.txt", "x\ny\n");
    write_file(dir, "emotion/val_labels.txt", "0\n1\n");
    write_file(dir, "emotion/train_text.txt", "x\ny\n");
    write_file(dir, "mine/mapping.txt", "0\ta\n1\tb");
    write_file(dir, "mine/train_text.txt", "x");
    write_file(dir, "mine/train_labels.txt", "1");
    assert_ok(read_split(dir, "emotion", SPLIT_VAL, &n));
    assert_int_equal(n, 2);
    assert_ok(read_split(dir, "mine", SPLIT_TRAIN, &n));
    assert_status(read_split(dir, "emotion", SPLIT_TEST, &n), STATUS_DATA);
    says("the test split is missing");
    says("there is no test_text.txt");
    says("the folder has val");
    assert_status(read_split(dir, "emotion", SPLIT_TRAIN, &n), STATUS_DATA);
    says("there is no train_labels.txt");
    assert_status(read_split(dir, "emotoin", SPLIT_VAL, &n), STATUS_USAGE);
    says("did you mean emotion?");
    says("emoji emotion hate irony offensive sentiment stance");
    says("holds emotion mine");
    assert_status(read_split(dir, "hate", SPLIT_VAL, &n), STATUS_DATA);
    says("no folder");
    assert_status(read_split(dir, "../emotion", SPLIT_VAL, &n), STATUS_USAGE);
    assert_status(read_split(dir, "", SPLIT_VAL, &n), STATUS_USAGE);
    assert_status(read_split(dir, "emotion/", SPLIT_VAL, &n), STATUS_USAGE);
    assert_status(read_split("/nowhere/at/all", "emotion", SPLIT_VAL, &n), STATUS_DATA);
    says("/nowhere/at/all");
    char *inner = path_join(dir, "emotion");
    assert_status(read_split(inner, "emotion", SPLIT_VAL, &n), STATUS_DATA);
    says("give the folder above it");
    free(inner);
    write_file(dir, "emotion/val_text.txt", "");
    write_file(dir, "emotion/val_labels.txt", "");
    assert_status(read_split(dir, "emotion", SPLIT_VAL, &n), STATUS_DATA);
    says("no rows");
    struct source_spec spec = {.format = (enum source_format)99, .dir = dir, .task = "emotion"};
    struct labels labels;
    assert_status(source_labels(&labels, &spec), STATUS_ARGUMENT);
    says("data.format");
    // a folder of columns instead: its format is told
    write_file(dir, "train.jsonl", "{}\n");
    assert_status(read_split(dir, "hate", SPLIT_VAL, &n), STATUS_DATA);
    says("for its train.jsonl set data.format jsonl");
    assert_ok(file_remove(dir));
    free(dir);
}

static void test_stance(void **state) {
    (void)state;
    char *dir = support_folder();
    size_t n = 0;
    for (size_t i = 0; tweet_eval_targets[i]; i++) {
        char name[64], text[16];
        snprintf(text, sizeof text, "%s", tweet_eval_targets[i]);
        snprintf(name, sizeof name, "stance/%s/val_text.txt", tweet_eval_targets[i]);
        write_file(dir, name, text);
        snprintf(name, sizeof name, "stance/%s/val_labels.txt", tweet_eval_targets[i]);
        write_file(dir, name, "1\n");
    }
    assert_status(read_split(dir, "stance", SPLIT_VAL, &n), STATUS_DATA);
    says("mapping.txt is missing");
    write_file(dir, "stance/mapping.txt", "0\tnone\n1\tagainst\n2\tfavor");
    assert_ok(read_split(dir, "stance/climate", SPLIT_VAL, &n));
    assert_int_equal(n, 1);
    write_file(dir, "stance/climate/mapping.txt", "0\tnone\n1\tagainst\n2\tfavor\n");
    struct source_spec spec = {.format = SOURCE_TWEET_EVAL, .dir = dir, .task = "stance"};
    struct labels labels;
    struct source source;
    assert_ok(source_labels(&labels, &spec));
    assert_ok(source_read(&source, &spec, SPLIT_VAL, &labels));
    assert_int_equal(source.n, 5);
    for (size_t i = 0; i < 5; i++) { // joined in alphabetical order
        assert_memory_equal(source.rows[i].text, tweet_eval_targets[i], source.rows[i].text_size);
        assert_non_null(strstr(source.rows[i].file, tweet_eval_targets[i]));
    }
    source_close(&source);
    labels_release(&labels);
    assert_true(source_has(&spec, SPLIT_VAL));
    assert_false(source_has(&spec, SPLIT_TEST));
    write_file(dir, "stance/climate/mapping.txt", "0\tnone\n1\tfavor\n2\tagainst\n");
    assert_status(read_split(dir, "stance", SPLIT_VAL, &n), STATUS_DATA);
    says("not the same labels");
    char *hillary = path_join(dir, "stance/hillary");
    assert_ok(file_remove(hillary));
    assert_status(read_split(dir, "stance", SPLIT_VAL, &n), STATUS_DATA);
    says("stance/hillary");
    free(hillary);
    assert_true(tweet_eval_task_known("stance") && tweet_eval_task_known("stance/abortion"));
    assert_false(tweet_eval_task_known("stance/x") || tweet_eval_task_known("mine"));
    assert_ok(file_remove(dir));
    free(dir);
}

static void digest(const struct source *source, char out[33]) {
    struct hash_stream *hash;
    assert_ok(hash_begin(&hash));
    source_hash(source, hash);
    hash_end(hash, out);
}

static void test_hash(void **state) {
    (void)state;
    const char *texts[] = {"ab\nc\n", "a\nbc\n", "ab\nc", "ab\nC\n", "ab\nc\n"};
    const char *ids[] = {"0\n1\n", "0\n1\n", "0\n1", "0\n1\n", "0\n2\n"};
    char hashes[5][33];
    for (int i = 0; i < 5; i++) {
        struct source source;
        assert_ok(parse(&source, texts[i], strlen(texts[i]), ids[i]));
        digest(&source, hashes[i]);
        source_close(&source);
    }
    assert_string_equal(hashes[0], hashes[2]); // the same rows
    for (int i = 1; i < 5; i++)
        if (i != 2)
            assert_string_not_equal(hashes[0], hashes[i]);
}

static void test_label_file(void **state) {
    (void)state;
    char *dir = support_folder(), *path = path_join(dir, "pred.txt");
    int32_t *ids;
    size_t n;
    assert_ok(file_replace(path, "0\n2\n1", 5));
    assert_ok(source_label_file(&ids, &n, path, 3));
    assert_int_equal(n, 3);
    assert_int_equal(ids[1], 2);
    free(ids);
    assert_status(source_label_file(&ids, &n, path, 2), STATUS_DATA);
    says("pred.txt:2: label \"2\"");
    assert_ok(source_label_file(&ids, &n, path, 0));
    free(ids);
    assert_ok(file_replace(path, "", 0));
    assert_ok(source_label_file(&ids, &n, path, 3));
    assert_int_equal(n, 0);
    free(ids);
    assert_ok(file_remove(dir));
    assert_status(source_label_file(&ids, &n, path, 3), STATUS_DATA);
    free(path);
    free(dir);
}

// Rows as `awk 1 | wc -l` counts them.
static size_t rows_counted(const char *path) {
    FILE *file = fopen(path, "rb");
    size_t n = 0;
    int last = '\n';
    if (!file)
        return 0;
    for (int c; (c = getc(file)) != EOF; last = c)
        n += c == '\n';
    fclose(file);
    return n + (last != '\n');
}

static void task_walk(const char *root, const char *task) {
    for (enum source_split split = SPLIT_TRAIN; split < SPLITS; split++) {
        struct source_spec spec = {.format = SOURCE_TWEET_EVAL, .dir = root, .task = task};
        size_t n = 0, wanted = 0;
        if (!source_has(&spec, split)) {
            fprintf(stderr, "%s has no %s split here\n", task, split_names[split]);
            continue;
        }
        assert_ok(read_split(root, task, split, &n));
        bool joined = strcmp(task, "stance") == 0;
        for (size_t i = 0; i < (joined ? 5 : 1); i++) {
            char *path = text_format("%s/%s%s%s/%s_text.txt", root, task, joined ? "/" : "",
                                     joined ? tweet_eval_targets[i] : "", split_names[split]);
            wanted += rows_counted(path);
            free(path);
        }
        assert_true(wanted > 0);
        assert_int_equal(n, wanted);
    }
}

static void test_real(void **state) {
    (void)state;
    const char *root = support_path("FINETUNED_DATA", "tweet_eval");
    SUPPORT_NEED(root, "TweetEval");
    size_t n = 0, tasks = 0;
    for (size_t i = 0; tweet_eval_tasks[i]; i++) {
        char *path = path_join(root, tweet_eval_tasks[i]);
        if (file_is_folder(path)) {
            task_walk(root, tweet_eval_tasks[i]);
            tasks++;
        }
        free(path);
    }
    assert_true(tasks > 0);
    if (file_is_folder(support_path("FINETUNED_DATA", "tweet_eval/stance")))
        for (size_t i = 0; tweet_eval_targets[i]; i++) {
            char task[32];
            snprintf(task, sizeof task, "stance/%s", tweet_eval_targets[i]);
            task_walk(root, task);
        }
    if (support_path("FINETUNED_DATA", "tweet_eval/emotion/train_text.txt")) {
        assert_ok(read_split(root, "emotion", SPLIT_TRAIN, &n));
        assert_int_equal(n, 3257);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows),    cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_folders), cmocka_unit_test(test_stance),
                                       cmocka_unit_test(test_hash),    cmocka_unit_test(test_label_file),
                                       cmocka_unit_test(test_real)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
