// SPDX-License-Identifier: Apache-2.0
// Text files into examples. A source holds one split of a task; rows as in the design (section 5): `\n`-terminated
// lines, plus a last one without `\n` if it is not empty; blank rows count. Nothing else ends a row.
#ifndef FINETUNED_DATA_SOURCE_H
#define FINETUNED_DATA_SOURCE_H

#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"
#include "data/labels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum source_format { SOURCE_TWEET_EVAL, SOURCE_CSV, SOURCE_TSV, SOURCE_JSONL, SOURCE_SQUAD };
enum source_split { SPLIT_TRAIN, SPLIT_VAL, SPLIT_TEST };
#define SPLITS 3
extern const char *const split_names[SPLITS]; // "train", "val", "test"

#define SOURCE_ROWS_MAX UINT32_C(0xfffffffe)       // examples of a split
#define SOURCE_TEXT_MAX ((size_t)64 * 1024 * 1024) // bytes of one text

// TweetEval's tasks. `stance` alone means its five targets, joined in alphabetical order; `stance/abortion` … one of
// them.
extern const char *const tweet_eval_tasks[];   // NULL-terminated: emoji emotion hate irony offensive sentiment stance
extern const char *const tweet_eval_targets[]; // NULL-terminated: abortion atheism climate feminist hillary
// One of these, or stance/<target>: what has an official metric. Any other folder in TweetEval's layout can be read
// too.
bool tweet_eval_task_known(const char *task);

// An answer that squad gives for a question: bytes of the context.
struct source_answer {
    const char *text; // as the file says it; where it stands in the context it may be spelt otherwise
    size_t size;
    uint32_t begin, end; // byte offsets into the context, [begin, end)
};

struct example {
    const char *text; // UTF-8, not NUL-terminated; squad: the question
    size_t text_size;
    const char *pair; // NULL if there is none; squad: the context
    size_t pair_size;
    int32_t label;    // -1: unlabelled
    const char *file; // where it stands, for messages
    uint32_t line;    // from 1; squad: 0, `id` says it
    // squad only
    const char *id;                      // the question's, NUL-terminated; NULL elsewhere
    const struct source_answer *answers; // (n_answers)
    uint32_t n_answers;                  // 0: no answer in the context (version 2), or unlabelled
};

struct source {
    char *name;           // the task as it may stand in a file's name: / as -
    struct example *rows; // [n]
    size_t n;
    char *storage; // the source's own
    struct file_map *maps;
    size_t n_maps;
    char **paths;
    size_t n_paths;
};

// csv, tsv, jsonl: where the values stand.
struct source_columns {
    const char *text, *pair, *label; // text NULL: "text"; pair NULL: single texts; label NULL: labels are not read
    bool label_must;                 // a file without the label's column is refused; else its rows are unlabelled
};

struct source_spec {
    enum source_format format;
    const char *dir;  // TweetEval: holds <task>/…; others: {train,val,test}.{csv,tsv,jsonl,json}
    const char *task; // TweetEval: the folder; others: a name
    struct source_columns columns;
};

// The task's label names (TweetEval: mapping.txt in the task's folder, or in one above it, below <dir>; where several
// could hold, as for stance and its targets, they must agree. csv, tsv, jsonl: <dir>/mapping.txt, else the names that
// occur in train, sorted: by number if all are whole numbers, else by bytes).
// A task that is neither known nor a folder of <dir>: STATUS_USAGE with the tasks that are there and the nearest name.
enum status source_labels(struct labels *out, const struct source_spec *spec);

// Reads one split and checks it in full: UTF-8; TweetEval: as many labels as texts, every label a decimal id of the
// mapping; csv, tsv, jsonl: every label a name, or where there is a mapping.txt also an id, or empty (-1).
// STATUS_DATA with file:line and the value; a format that this version can't read: STATUS_USAGE.
enum status source_read(struct source *out, const struct source_spec *spec, enum source_split split,
                        const struct labels *labels);
// One file, whose rows need not be labelled: of spec->format, or, where that is TweetEval's, of the format that its
// name's ending says (.csv .tsv .jsonl, .json: squad, else lines of text). `labels` NULL: labels are not read. No rows
// are no error.
enum status source_read_file(struct source *out, const struct source_spec *spec, const char *path,
                             const struct labels *labels);
// Whether the files of the split are there (a task may lack a test split).
bool source_has(const struct source_spec *spec, enum source_split split);
void source_close(struct source *source);

// All text and labels (content, not paths) into a hash.
void source_hash(const struct source *source, struct hash_stream *hash);

// Appends the rows of a text file and its label file, given as bytes, which the source borrows, as it does the paths
// (they are for messages). What source_read does for each pair of files. `out` starts as {0}.
enum status source_parse(struct source *out, const char *text_path, const char *text, size_t text_size,
                         const char *label_path, const char *ids, size_t ids_size, uint32_t n_labels);

// A label file alone (predictions, gold): ids, one a row, each checked against n_labels (0 = any id below LABELS_MAX).
enum status source_label_parse(int32_t **out, size_t *n, const char *path, const char *bytes, size_t size,
                               uint32_t n_labels);
enum status source_label_file(int32_t **out, size_t *n, const char *path, uint32_t n_labels);

#endif
