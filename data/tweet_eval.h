// SPDX-License-Identifier: Apache-2.0
// TweetEval's layout on disk: <dir>/<task>/{train,val,test}_{text,labels}.txt and mapping.txt; stance has a folder for
// each of its five targets. Found here; read by source.c.
#ifndef FINETUNED_DATA_TWEET_EVAL_H
#define FINETUNED_DATA_TWEET_EVAL_H

#include "base/status.h"
#include "data/source.h"

#include <stdbool.h>
#include <stddef.h>

// The folders that hold the task's files: one, or stance's five in alphabetical order. Checks the task's name and that
// all are there.
struct tweet_eval_folders {
    char *at[5];
    size_t n;
};
enum status tweet_eval_folders_find(struct tweet_eval_folders *out, const char *dir, const char *task);
void tweet_eval_folders_release(struct tweet_eval_folders *folders);

// A relative path of plain names: it becomes part of paths and of file names in the cache.
bool tweet_eval_task_plain(const char *task);

// malloc'ed "<folder>/<split>_<what>.txt", `what` being "text" or "labels"; NULL if there is no memory.
char *tweet_eval_path(const char *folder, enum source_split split, const char *what);
// Both files are there.
bool tweet_eval_has(const char *folder, enum source_split split);
// STATUS_DATA saying which file of the split is not there and what is.
enum status tweet_eval_missing(const char *folder, enum source_split split);

enum status tweet_eval_labels(struct labels *out, const char *dir, const char *task);

#endif
