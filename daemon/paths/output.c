// SPDX-License-Identifier: Apache-2.0
#include "daemon/paths/output.h"

#include "base/file.h"
#include "daemon/paths/taken.h"
#include "data/source.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// One file by two names counts too.
static bool is_same(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static enum status other_check(const struct output_ask *ask, const char *real, const struct output_other *other) {
    char *at;
    if (!other->path)
        return STATUS_OK;
    TRY(file_real(&at, other->path));
    bool same = strcmp(at, real) == 0 || is_same(ask->path, other->path);
    free(at);
    return same ? status_set(STATUS_USAGE, "%s %s is the file of %s: choose another file", ask->flag, ask->path,
                             other->flag)
                : STATUS_OK;
}

// test_text.txt, val_labels.txt, mapping.txt; test.csv
static bool is_data_name(const char *name) {
    static const char *const ends[] = {"_text.txt", "_labels.txt", ".csv", ".tsv", ".jsonl", ".json"};
    for (int split = 0; split < SPLITS; split++) {
        size_t size = strlen(split_names[split]);
        for (size_t i = 0; strncmp(name, split_names[split], size) == 0 && i < sizeof ends / sizeof *ends; i++)
            if (strcmp(name + size, ends[i]) == 0)
                return true;
    }
    return strcmp(name, "mapping.txt") == 0;
}

static enum status data_check(const struct output_ask *ask, const char *real) {
    char *data;
    if (!ask->data || !is_data_name(strrchr(real, '/') + 1))
        return STATUS_OK;
    TRY(file_real(&data, ask->data));
    bool within = file_is_in(real, data);
    free(data);
    return within ? status_set(STATUS_USAGE, "%s %s is a file of the data in %s: choose another file", ask->flag,
                               ask->path, ask->data)
                  : STATUS_OK;
}

enum status output_check(const struct output_ask *ask) {
    char *real;
    TRY(file_real(&real, ask->path));
    enum status status = data_check(ask, real);
    for (size_t i = 0; i < ask->n && status == STATUS_OK; i++)
        status = other_check(ask, real, &ask->other[i]);
    free(real);
    return status == STATUS_OK ? taken_check(&(struct taken_ask){ask->flag, ask->path, .as = TAKEN_FILE}) : status;
}
