// SPDX-License-Identifier: Apache-2.0
#include "data/tweet_eval.h"

#include "base/file.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

const char *const tweet_eval_tasks[] = {"emoji", "emotion", "hate", "irony", "offensive", "sentiment", "stance", NULL};
const char *const tweet_eval_targets[] = {"abortion", "atheism", "climate", "feminist", "hillary", NULL};

static bool name_in(const char *const *names, const char *name) {
    for (; *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

bool tweet_eval_task_known(const char *task) {
    const char *prefix = "stance/";
    if (strncmp(task, prefix, strlen(prefix)) == 0)
        return name_in(tweet_eval_targets, task + strlen(prefix));
    return name_in(tweet_eval_tasks, task);
}

bool tweet_eval_task_plain(const char *task) {
    for (const char *part = task;; part++) {
        size_t size = strcspn(part, "/");
        if (size == 0 || size > 100 || part[0] == '.')
            return false;
        part += size;
        if (*part == '\0')
            return true;
    }
}

static bool folder_has(const char *folder, const char *name) {
    char *path = path_join(folder, name);
    bool has = path && file_exists(path);
    free(path);
    return has;
}

static bool folder_is_task(const char *folder) {
    return folder_has(folder, "mapping.txt") || folder_has(folder, "train_text.txt") ||
           folder_has(folder, "val_text.txt") || folder_has(folder, "test_text.txt");
}

// "; DIR holds a b c; did you mean …?": what a message about a task that isn't there ends in.
static void hint_add(struct text *out, const char *dir, const char *task) {
    char **names = NULL;
    size_t n = 0, tasks = 0;
    if (folder_is_task(dir)) {
        text_printf(out, "; %s is itself a task's folder: give the folder above it as data.dir", dir);
        return;
    }
    if (file_list(&names, &n, dir) != STATUS_OK)
        return;
    for (size_t i = 0; i < n; i++) {
        char *path = path_join(dir, names[i]);
        if (path && folder_is_task(path)) {
            char *keep = names[tasks];
            names[tasks++] = names[i];
            names[i] = keep;
        }
        free(path);
    }
    text_printf(out, tasks ? "; %s holds" : "; %s holds no task", dir);
    for (size_t i = 0; i < tasks; i++)
        text_printf(out, " %s", names[i]);
    for (size_t i = tasks; i < n; i++)
        if (!strcmp(names[i], "train.csv") || !strcmp(names[i], "train.tsv") || !strcmp(names[i], "train.jsonl"))
            text_printf(out, "; for its %s set data.format %s", names[i], names[i] + strlen("train."));
    const char *near = text_nearest(task, (const char *const *)names, tasks);
    if (!near && !tweet_eval_task_known(task))
        near = text_nearest(task, tweet_eval_tasks, sizeof tweet_eval_tasks / sizeof *tweet_eval_tasks - 1);
    if (near)
        text_printf(out, "; did you mean %s?", near);
    file_list_free(names, n);
}

static enum status task_missing(const char *dir, const char *task) {
    struct text hint = {0};
    if (!file_is_folder(dir))
        return status_set(STATUS_DATA, "data.dir: %s: no such folder", dir);
    hint_add(&hint, dir, task);
    bool known = tweet_eval_task_known(task);
    enum status status =
        status_set(known ? STATUS_DATA : STATUS_USAGE, "data.task %s: no folder %s/%s%s%s", task, dir, task,
                   known ? ""
                         : ", and none of TweetEval's tasks, which are emoji emotion hate irony "
                           "offensive sentiment stance",
                   text_string(&hint));
    text_release(&hint);
    return status;
}

static enum status folder_add(struct tweet_eval_folders *out, const char *dir, const char *task) {
    char *path = path_join(dir, task);
    if (!path)
        return status_set(STATUS_SYSTEM, "data.dir: no memory");
    if (!file_is_folder(path)) {
        free(path);
        return task_missing(dir, task);
    }
    out->at[out->n++] = path;
    return STATUS_OK;
}

// stance: the five targets, unless its folder holds the splits themselves.
static bool task_is_joined(const char *dir, const char *task) {
    char *path = path_join(dir, task);
    bool joined = strcmp(task, "stance") == 0 && path && file_is_folder(path) && !folder_has(path, "train_text.txt") &&
                  !folder_has(path, "val_text.txt") && !folder_has(path, "test_text.txt");
    free(path);
    return joined;
}

enum status tweet_eval_folders_find(struct tweet_eval_folders *out, const char *dir, const char *task) {
    *out = (struct tweet_eval_folders){0};
    if (!tweet_eval_task_plain(task))
        return status_set(STATUS_USAGE, "data.task \"%s\": not the name of a folder below data.dir", task);
    enum status status = STATUS_OK;
    if (!task_is_joined(dir, task))
        status = folder_add(out, dir, task);
    else
        for (const char *const *target = tweet_eval_targets; *target && status == STATUS_OK; target++) {
            char name[32];
            snprintf(name, sizeof name, "stance/%s", *target);
            status = folder_add(out, dir, name);
        }
    if (status != STATUS_OK)
        tweet_eval_folders_release(out);
    return status;
}

void tweet_eval_folders_release(struct tweet_eval_folders *folders) {
    for (size_t i = 0; i < folders->n; i++)
        free(folders->at[i]);
    *folders = (struct tweet_eval_folders){0};
}

char *tweet_eval_path(const char *folder, enum source_split split, const char *what) {
    return text_format("%s/%s_%s.txt", folder, split_names[split], what);
}

static bool half_there(const char *folder, enum source_split split, const char *what) {
    char *path = tweet_eval_path(folder, split, what);
    bool there = path && file_named(path);
    free(path);
    return there;
}

bool tweet_eval_has(const char *folder, enum source_split split) {
    return half_there(folder, split, "text") && half_there(folder, split, "labels");
}

enum status tweet_eval_missing(const char *folder, enum source_split split) {
    const char *what = half_there(folder, split, "text") ? "labels" : "text";
    struct text others = {0};
    for (enum source_split other = SPLIT_TRAIN; other < SPLITS; other++)
        if (tweet_eval_has(folder, other))
            text_printf(&others, " %s", split_names[other]);
    enum status status = status_set(STATUS_DATA,
                                    "%s: the %s split is missing: there is no %s_%s.txt (looked for %s_text.txt and "
                                    "%s_labels.txt; the folder has%s)",
                                    folder, split_names[split], split_names[split], what, split_names[split],
                                    split_names[split], others.size ? text_string(&others) : " no split");
    text_release(&others);
    return status;
}

// Reads a folder's mapping, if it has one, into `out`; where `out` is already filled they must agree.
static enum status mapping_join(struct labels *out, char **first, const char *folder) {
    struct labels found = {0};
    char *path = path_join(folder, "mapping.txt");
    enum status status = STATUS_OK;
    if (!path)
        return status_set(STATUS_SYSTEM, "data.dir: no memory");
    if (!file_exists(path))
        goto done;
    TRY_GOTO(labels_read(&found, path), done);
    if (*first && !labels_equal(&found, out)) {
        status = status_set(STATUS_DATA, "%s: not the same labels as in %s", path, *first);
    } else if (!*first) {
        struct labels empty = *out;
        *out = found;
        found = empty;
        *first = path;
        path = NULL;
    }
done:
    labels_release(&found);
    free(path);
    return status;
}

// All mappings from the task's folder (stance: folders) up to, not including, <dir>.
static enum status mappings_join(struct labels *out, char **first, const struct tweet_eval_folders *folders,
                                 const char *dir, const char *task) {
    for (size_t i = 0; i < folders->n; i++)
        TRY(mapping_join(out, first, folders->at[i]));
    char *above = path_join(dir, task);
    if (!above)
        return status_set(STATUS_SYSTEM, "data.dir: no memory");
    enum status status = folders->n > 1 ? mapping_join(out, first, above) : STATUS_OK;
    for (size_t levels = strlen(task), i = levels; i > 0 && status == STATUS_OK; i--) {
        if (task[i] != '/')
            continue;
        above[strlen(above) - (levels - i)] = '\0';
        levels = i;
        status = mapping_join(out, first, above);
    }
    free(above);
    return status;
}

enum status tweet_eval_labels(struct labels *out, const char *dir, const char *task) {
    struct tweet_eval_folders folders;
    char *first = NULL;
    *out = (struct labels){0};
    TRY(tweet_eval_folders_find(&folders, dir, task));
    enum status status = mappings_join(out, &first, &folders, dir, task);
    if (status == STATUS_OK && !first)
        status = status_set(STATUS_DATA, "%s: mapping.txt is missing (lines \"id<TAB>name\"; looked in %s/%s%s)",
                            folders.at[0], dir, task, strchr(task, '/') ? " and above it" : "");
    if (status != STATUS_OK)
        labels_release(out);
    tweet_eval_folders_release(&folders);
    free(first);
    return status;
}
