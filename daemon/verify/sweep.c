// SPDX-License-Identifier: Apache-2.0
// A sweep's folder: each of its runs in full, in one line, those of another table too.
#include "daemon/verify/parts.h"

#include "base/file.h"
#include "base/text.h"
#include "train/folder.h"

#include <stdlib.h>
#include <string.h>

#define TABLE_MAX ((size_t)64 << 20) // bytes of a sweep.json

static enum status run_notes(struct verify *v, const char *name, const struct verify *run) {
    enum status status = STATUS_OK;
    for (size_t i = 0; i < run->n_notes && status == STATUS_OK; i++) {
        char *below = path_join(name, run->notes[i].path);
        status = below ? verify_note(v, below, run->notes[i].text) : verify_no_memory(v);
        free(below);
    }
    return status;
}

static enum status run_line(struct verify *v, const char *name, const char *path) {
    struct verify run;
    enum status status = verify_folder(&run, INSPECT_RUN, path);
    bool looked = status == STATUS_OK;
    if (looked)
        status = verify_status(&run);
    status = verify_found(v, name, inspect_kind_name(INSPECT_RUN), status, VERIFY_HASHES);
    if (looked && status == STATUS_OK)
        status = run_notes(v, name, &run);
    if (looked)
        verify_release(&run);
    return status;
}

// <task>/lr-<rate>-seed-<seed>, whether the table has it or an earlier one had.
static enum status cell_line(struct verify *v, const char *task, const char *cell) {
    enum inspect_kind kind = INSPECT_NONE;
    char *name = path_join(task, cell), *path = name ? path_join(v->path, name) : NULL;
    enum status status = path ? STATUS_OK : verify_no_memory(v);
    bool folder = path && file_is_folder(path), is = folder && inspect_kind_of(&kind, path) == STATUS_OK;
    if (is && kind == INSPECT_RUN)
        status = run_line(v, name, path);
    else if (folder)
        status = verify_note(v, name, "no run's folder (yet): not looked at");
    free(path);
    free(name);
    return status;
}

static enum status task_lines(struct verify *v, const char *task) {
    char **names, *path = path_join(v->path, task);
    size_t n;
    if (!path || !file_is_folder(path) || *task == '.' || strcmp(task, "shards") == 0) {
        free(path);
        return STATUS_OK;
    }
    enum status status = file_list(&names, &n, path);
    free(path);
    if (status != STATUS_OK)
        return verify_found(v, task, "folder", status, VERIFY_STRUCTURE);
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        status = cell_line(v, task, names[i]);
    file_list_free(names, n);
    return status;
}

static enum status runs_lines(struct verify *v) {
    char **names;
    size_t n;
    enum status status = STATUS_OK;
    TRY(file_list(&names, &n, v->path));
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        status = task_lines(v, names[i]);
    file_list_free(names, n);
    return status;
}

// Runs that the table calls done and that are not there.
static enum status done_lacking(struct verify *v, const char *path) {
    char *bytes = NULL;
    size_t size = 0, i;
    json_t *table = file_read(&bytes, &size, path, TABLE_MAX) == STATUS_OK ? json_loadb(bytes, size, 0, NULL) : NULL;
    json_t *cell;
    enum status status = STATUS_OK;
    json_array_foreach(json_object_get(table, "cells"), i, cell) {
        const char *state = json_string_value(json_object_get(cell, "state"));
        const char *folder = json_string_value(json_object_get(cell, "folder"));
        if (status == STATUS_OK && state && folder && strcmp(state, "done") == 0)
            status = verify_lacks(v, folder, inspect_kind_name(INSPECT_RUN), FOLDER_SWEEP " says that it is done");
    }
    json_decref(table);
    free(bytes);
    return status;
}

enum status verify_sweep(struct verify *v) {
    char *table = path_join(v->path, FOLDER_SWEEP);
    enum status status =
        table ? verify_found(v, FOLDER_SWEEP, "table", verify_json(table), VERIFY_STRUCTURE) : verify_no_memory(v);
    if (status == STATUS_OK)
        status = runs_lines(v);
    if (status == STATUS_OK)
        status = done_lacking(v, table);
    free(table);
    return status == STATUS_OK ? verify_shards(v) : status;
}
