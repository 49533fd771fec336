// SPDX-License-Identifier: Apache-2.0
// Where paths lead: links, "..", names that are not there, circles.
#include "support.h"

#include "base/file.h"
#include "base/text.h"

static char *root;

static void leads(const char *from, const char *to) {
    char *path = from[0] == '/' ? strdup(from) : text_format("%s/%s", root, from), *real;
    char *wanted = to[0] == '/' ? strdup(to) : text_format("%s%s%s", root, *to ? "/" : "", to);
    assert_ok(file_real(&real, path));
    assert_string_equal(real, wanted);
    free(real);
    free(wanted);
    free(path);
}

static void linked(const char *name, const char *target) {
    char *path = path_join(root, name);
    assert_int_equal(symlink(target, path), 0);
    free(path);
}

static void paths(void **context) {
    (void)context;
    char *folder = support_folder(), *inner;
    root = realpath(folder, NULL);
    inner = path_join(root, "a/b");
    assert_ok(file_make_folders(inner));
    linked("to-b", "a/b");
    linked("a/up", "..");
    linked("a/b/away", "/");
    linked("new", "a/none/x");
    linked("twice", "a/up/to-b");
    linked("circle", "circle");
    leads("", "");
    leads("a//b/", "a/b");
    leads("./a/./b/..", "a");
    leads("a/none/../b", "a/b");
    leads("a/none/../../to-b/x", "a/b/x"); // behind what is not there a link is still one
    leads("to-b/..", "a");                 // as the system has it, not as it is written
    leads("a/up/a/up", "");
    leads("to-b/away/x", "/x");
    leads("new/y", "a/none/x/y"); // where it would be
    leads("twice", "a/b");
    leads("circle/x", "circle/x");
    leads("/../..", "/");
    leads("/", "/");
    assert_ok(file_remove(root));
    free(inner);
    free(folder);
    free(root);
}

static void relative(void **context) {
    (void)context;
    char *here = getcwd(NULL, 0), *real, *wanted = path_join(here, "none/x");
    assert_ok(file_real(&real, "none/./x"));
    assert_string_equal(real, wanted);
    free(real);
    assert_ok(file_real(&real, ""));
    assert_string_equal(real, here);
    free(real);
    free(wanted);
    free(here);
}

static void within(void **context) {
    (void)context;
    assert_true(file_is_in("/a/b", "/a/b"));
    assert_true(file_is_in("/a/b/c", "/a/b"));
    assert_true(file_is_in("/a", "/"));
    assert_true(file_is_in("/", "/"));
    assert_false(file_is_in("/a/bc", "/a/b"));
    assert_false(file_is_in("/a", "/a/b"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(paths), cmocka_unit_test(relative), cmocka_unit_test(within)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
