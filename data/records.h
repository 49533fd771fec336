// SPDX-License-Identifier: Apache-2.0
// A file of columns, csv, tsv or jsonl, as records {text, pair, label}: a pure function of bytes. A column is found by
// its name: in the header (csv, tsv: the first record, which every other has as many fields as), or as a key of each
// object (jsonl).
#ifndef FINETUNED_DATA_RECORDS_H
#define FINETUNED_DATA_RECORDS_H

#include "data/csv.h"
#include "data/jsonl.h"
#include "data/source.h"

struct cell {
    const char *at; // NULL: no value (no such column, jsonl: null)
    size_t size;
};

struct record {
    struct cell text;  // always there
    struct cell pair;  // there if columns.pair is
    struct cell label; // not there or empty: unlabelled
    size_t line;       // where it begins, from 1
};

enum { COLUMN_TEXT, COLUMN_PAIR, COLUMN_LABEL, COLUMNS };

struct records {
    enum source_format format;
    const char *path;
    const char *names[COLUMNS]; // NULL: not wanted
    bool must[COLUMNS];         // a file without it is refused
    // internal
    struct csv csv;
    size_t at[COLUMNS]; // csv: which field; SIZE_MAX: none
    size_t n;           // csv: fields of the header
    struct jsonl jsonl;
    char *storage; // jsonl: holds values
    size_t used;
};

// The input stays the caller's, as do the names and the path, which is for messages. STATUS_DATA: not UTF-8, no header,
// a column that must be there and is not (with those that are).
enum status records_open(struct records *out, enum source_format format, const struct source_columns *columns,
                         const char *path, const char *bytes, size_t size);
void records_close(struct records *records);
// The malloc'ed memory (NULL: none) that values lie in which don't stand in the input as they are: the caller's from
// now on, for those who keep values behind records_close.
char *records_take(struct records *records);

// The next record; *end where there is none. STATUS_DATA with file:line and the value.
enum status records_next(struct records *records, struct record *out, bool *end);

#endif
