// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over files instead of a fuzzer's inputs: every regular file of the folders (or files) given,
// each also cut in half, so that a corpus is a plain test. Exit 77 if there was no file at all.
#include <dirent.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define INPUT_MAX ((size_t)1 << 24)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned inputs;

// The target gets memory of exactly the input's size, so that the address sanitizer sees a byte read too far.
static void input_run(const uint8_t *bytes, size_t size) {
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact)
        exit(70);
    memcpy(exact, bytes, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static void file_run(const char *path) {
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(INPUT_MAX);
    if (!file || !bytes) {
        fprintf(stderr, "%s: can't be read\n", path);
        exit(74);
    }
    size_t size = fread(bytes, 1, INPUT_MAX, file);
    fclose(file);
    input_run(bytes, size);
    input_run(bytes, size / 2);
    free(bytes);
    inputs++;
}

static void path_run(const char *path) {
    struct stat about;
    if (stat(path, &about) != 0) {
        fprintf(stderr, "%s: not there\n", path);
        return;
    }
    if (!S_ISDIR(about.st_mode)) {
        file_run(path);
        return;
    }
    DIR *folder = opendir(path);
    if (!folder)
        exit(74);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char name[PATH_MAX];
        if (entry->d_name[0] != '.' && snprintf(name, sizeof name, "%s/%s", path, entry->d_name) < (int)sizeof name)
            path_run(name);
    }
    closedir(folder);
}

int main(int count, char **arguments) {
    for (int i = 1; i < count; i++)
        path_run(arguments[i]);
    if (!inputs) {
        fprintf(stderr, "SKIPPED: no input files\n");
        return 77;
    }
    printf("%u files\n", inputs);
    return 0;
}
