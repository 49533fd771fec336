// SPDX-License-Identifier: Apache-2.0
// What counts as not ours where a model directory is to be written, and that it steps aside whole.
#include "support.h"

#include "base/file.h"
#include "base/text.h"
#include "export/foreign.h"
#include "export/sums.h"

#include <sys/stat.h>

static char *folder;

static void put(const char *name) {
    char *path = path_join(folder, name);
    assert_ok(file_replace(path, "x", 1));
    free(path);
}

static void drop(const char *name) {
    char *path = path_join(folder, name);
    assert_ok(file_remove(path));
    free(path);
}

// NULL: nothing of others.
static void finds(const char *names) {
    char *why,
        *wanted = names ? text_format("%s holds %s, not of a model that this program wrote", folder, names) : NULL;
    assert_ok(foreign_find(&why, folder));
    if (!wanted)
        assert_null(why);
    else
        assert_non_null(why);
    if (wanted && why)
        assert_string_equal(why, wanted);
    free(wanted);
    free(why);
}

static void found(void **context) {
    (void)context;
    char *inner, *link;
    folder = support_folder();
    inner = path_join(folder, "code");
    finds(NULL);
    assert_ok(file_make_folders(inner));
    finds(NULL); // an empty folder in it
    put("config.json");
    put("vocab.json");
    finds("config.json and vocab.json"); // like one of ours, but nothing of ours in it
    put("finetuned.json");
    put("README.md");
    finds(NULL); // an older one of ours
    put("code/b.py");
    finds("code/b.py");
    put("model.safetensors"), put("special_tokens_map.json"), put("tokenizer_config.json"), put("merges.txt");
    assert_ok(sums_write(folder));
    finds(NULL);
    put("config.json"); // damaged or not
    drop("vocab.json");
    finds(NULL);
    put("a");
    finds("a");
    drop("a");
    put("tokenizer.json"); // a name of ours, but not of this one
    finds("tokenizer.json");
    drop("tokenizer.json");
    link = path_join(folder, "w");
    assert_int_equal(symlink("/", link), 0); // one file, not what it leads to
    finds("w");
    put("1"), put("2"), put("3");
    finds("1, 2, 3 and more");
    drop("w"), drop("1"), drop("2"), drop("3");
    put(SUMS_NAME); // damaged: as if there was none
    finds("code/b.py");
    assert_ok(file_remove(folder));
    finds(NULL);
    free(link);
    free(inner);
    free(folder);
}

static void aside(void **context) {
    (void)context;
    char *top = support_folder(), *moved, *wanted = path_join(top, "m.aside-2"), *taken = path_join(top, "m.aside-1");
    folder = path_join(top, "m");
    assert_ok(foreign_aside(&moved, folder, folder)); // not there
    assert_null(moved);
    assert_ok(file_make_folders(folder));
    assert_ok(foreign_aside(&moved, folder, folder));
    assert_null(moved);
    assert_true(file_is_folder(folder));
    put("a");
    assert_ok(file_make_folders(taken));
    assert_ok(foreign_aside(&moved, folder, folder));
    assert_string_equal(moved, wanted);
    assert_false(file_named(folder));
    free(folder);
    folder = moved;
    finds("a");
    free(folder);
    folder = path_join(top, "m");
    assert_int_equal(symlink("m.aside-2", folder), 0); // only the link would go
    finds(NULL);
    assert_ok(file_remove(folder));
    assert_ok(file_replace(folder, "x", 1));
    char *why;
    assert_ok(foreign_find(&why, folder));
    assert_non_null(strstr(why, "m is no folder"));
    free(why);
    assert_ok(file_remove(top));
    free(folder);
    free(taken);
    free(wanted);
    free(top);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(found), cmocka_unit_test(aside)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
