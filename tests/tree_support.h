// SPDX-License-Identifier: Apache-2.0
// A made tree of files, as /proc and /sys are to the program under test.
#ifndef FINETUNED_TESTS_TREE_SUPPORT_H
#define FINETUNED_TESTS_TREE_SUPPORT_H

#include "support.h"

#include "base/file.h"

static char *tree_root; // of the running test

static inline int tree_setup(void **context) {
    (void)context;
    tree_root = support_folder();
    return 0;
}

static inline int tree_teardown(void **context) {
    (void)context;
    assert_ok(file_remove(tree_root));
    free(tree_root);
    return 0;
}

// A file below the root, its folders made.
static inline void tree_put(const char *name, const char *text) {
    char *path = path_join(tree_root, name), *folder = strdup(path);
    *strrchr(folder, '/') = '\0';
    assert_ok(file_make_folders(folder));
    assert_ok(file_replace(path, text, strlen(text)));
    free(folder);
    free(path);
}

#endif
