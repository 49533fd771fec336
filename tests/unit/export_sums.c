// SPDX-License-Identifier: Apache-2.0
// finetuned.sha256: what it lists, what of it is refused, and that a changed file is named.
#include "support.h"

#include "base/file.h"
#include "base/text.h"
#include "export/sums.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" // FIPS 180-4, of no bytes
#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"   // of "abc"

static char *folder_make(void) {
    char *folder = support_folder();
    char *inner = path_join(folder, "code"), *one = path_join(folder, "a.json"), *two = path_join(folder, "code/b.py");
    assert_ok(file_make_folders(inner));
    assert_ok(file_replace(one, "abc", 3));
    assert_ok(file_replace(two, "", 0));
    free(two);
    free(one);
    free(inner);
    return folder;
}

static void written(void **context) {
    (void)context;
    char *folder = folder_make(), *path = path_join(folder, SUMS_NAME), *bytes;
    struct sums sums;
    size_t others;
    assert_ok(sums_read(&sums, folder));
    assert_int_equal(sums.n, 0);
    for (int again = 0; again < 2; again++) { // the list itself is never in it
        assert_ok(sums_write(folder));
        assert_ok(file_read(&bytes, NULL, path, SUMS_MAX));
        assert_string_equal(bytes, ABC "  a.json\n" EMPTY "  code/b.py\n");
        free(bytes);
    }
    assert_ok(sums_read(&sums, folder));
    assert_int_equal(sums.n, 2);
    assert_ok(sums_check(&others, &sums, folder));
    assert_int_equal(others, 0);
    assert_string_equal(sums_find(&sums, "code/b.py")->sha256, EMPTY);
    assert_null(sums_find(&sums, "b.py"));
    sums_release(&sums);
    assert_ok(file_remove(folder));
    free(path);
    free(folder);
}

static void wrong(void **context) {
    (void)context;
    char *folder = folder_make(), *one = path_join(folder, "a.json"), *two = path_join(folder, "code/b.py");
    char *more = path_join(folder, "notes.txt");
    struct sums sums;
    size_t others;
    assert_ok(sums_write(folder));
    assert_ok(sums_read(&sums, folder));
    assert_ok(file_replace(more, "x", 1));
    assert_ok(sums_check(&others, &sums, folder));
    assert_int_equal(others, 1);
    assert_ok(file_replace(one, "abd", 3));
    assert_status(sums_check(NULL, &sums, folder), STATUS_DATA);
    assert_non_null(strstr(status_message(), "a.json: its SHA-256"));
    assert_null(strstr(status_message(), "b.py"));
    assert_ok(file_remove(two));
    assert_status(sums_check(NULL, &sums, folder), STATUS_DATA);
    assert_non_null(strstr(status_message(), "a.json: its SHA-256"));
    assert_non_null(strstr(status_message(), "b.py: No such file"));
    assert_int_equal(mkfifo(two, 0600), 0); // must not be waited for
    assert_status(sums_check_file(sums_find(&sums, "code/b.py"), folder), STATUS_DATA);
    assert_non_null(strstr(status_message(), "not a regular file"));
    sums_release(&sums);
    assert_ok(file_remove(folder));
    free(more);
    free(two);
    free(one);
    free(folder);
}

static void refused(void **context) {
    (void)context;
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "is empty"},
        {ABC "  a", "cut off"},
        {ABC " a\n", "64 hex"},
        {ABC "   \n" ABC "\n", ":2: not 64 hex"},
        {"\xef\xbb\xbf" ABC "  a\n", ":1: begins with a byte order mark"},
        {ABC "  a\r\r\n", "64 hex"},
        {ABC "  a\r", "cut off"},
        {ABC "\r\n", "64 hex"},
        {"G" ABC "  a\n", "64 hex"},
        {ABC "  a\n" EMPTY "  a\n", ":2: names a file twice"},
        {ABC "  /etc/passwd\n", "64 hex"},
        {ABC "  ../a\n", "64 hex"},
        {ABC "  a/../b\n", "64 hex"},
        {ABC "  a/..\n", "64 hex"},
        {ABC "  ./a\n", "64 hex"},
        {ABC "  a//b\n", "64 hex"},
        {ABC "  a/\n", "64 hex"},
        {ABC "  a\tb\n", "64 hex"},
        {ABC "  " SUMS_NAME "\n", "64 hex"},
    };
    struct sums sums;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        enum status status = sums_parse(&sums, rows[i].text, strlen(rows[i].text), "list");
        if (status != STATUS_DATA || !strstr(status_message(), rows[i].why))
            fail_msg("row %zu: status %d, %s", i, status, status_message());
    }
    assert_ok(sums_parse(&sums, ABC " *a..b\n" EMPTY "  ..c/d e\n", 2 * 64 + 2 * 3 + 4 + 7, "list"));
    assert_string_equal(sums.at[0].name, "a..b");
    assert_string_equal(sums.at[1].name, "..c/d e");
    sums_release(&sums);
    static const char other[] =
        "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD  a\r\n" EMPTY "  b\r\n";
    assert_ok(sums_parse(&sums, other, sizeof other - 1, "list")); // as sha256sum -c reads them
    assert_string_equal(sums.at[0].sha256, ABC);
    assert_string_equal(sums.at[0].name, "a");
    assert_string_equal(sums.at[1].name, "b");
    sums_release(&sums);
}

// What a list of a model of ours must name.
static void cut(void **context) {
    (void)context;
#define LIST(more)                                                                                                     \
    ABC "  README.md\n" ABC "  config.json\n" ABC "  finetuned.json\n" ABC "  model.safetensors\n" ABC                 \
        "  special_tokens_map.json\n" more
    static const struct {
        const char *text, *lacks;
    } rows[] = {
        {LIST(ABC "  tokenizer_config.json\n" ABC "  vocab.txt\n"), NULL},
        {LIST(ABC "  tokenizer_config.json\n" ABC "  vocab.json\n" ABC "  merges.txt\n"), NULL},
        {LIST(ABC "  tokenizer.json\n" ABC "  tokenizer_config.json\n"), NULL},
        {LIST(ABC "  tokenizer_config.json\n" ABC "  vocab.json\n"), "merges.txt"},
        {LIST(ABC "  tokenizer_config.json\n" ABC "  merges.txt\n"), "vocab.json"},
        {LIST(ABC "  tokenizer_config.json\n"), "vocab.json"},
        {LIST(""), "tokenizer_config.json"},
        {ABC "  finetuned.json\n", "README.md"},
        {ABC "  a\n", NULL}, // of others
    };
    char *folder = support_folder(), *more = path_join(folder, "vocab.json"), *added = path_join(folder, "merges.txt");
    struct sums sums;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_ok(sums_parse(&sums, rows[i].text, strlen(rows[i].text), "list"));
        const char *lacks = sums_cut(&sums, folder);
        if (!lacks != !rows[i].lacks || (lacks && strcmp(lacks, rows[i].lacks) != 0))
            fail_msg("row %zu: lacks %s", i, lacks ? lacks : "nothing");
        sums_release(&sums);
    }
    assert_ok(sums_parse(&sums, rows[2].text, strlen(rows[2].text), "list"));
    assert_ok(file_replace(added, "", 0)); // somebody put it there: a cut takes the end
    assert_null(sums_cut(&sums, folder));
    assert_ok(file_replace(more, "", 0));
    assert_string_equal(sums_cut(&sums, folder), "vocab.json");
    sums_release(&sums);
    assert_ok(file_remove(folder));
    free(added);
    free(more);
    free(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written),
        cmocka_unit_test(wrong),
        cmocka_unit_test(refused),
        cmocka_unit_test(cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
