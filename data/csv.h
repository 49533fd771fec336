// SPDX-License-Identifier: Apache-2.0
// Records of comma- or tab-separated text, a pure function of bytes. The grammar is RFC 4180's, read strictly:
//
//     file    [U+FEFF] record (end record)* [end]         end: CRLF or LF; inside quotes both are text
//     record  field (separator field)*
//     field   plain | '"' (byte but '"' | '""')* '"'      plain: no separator, quote, CR or LF
//
// A line with nothing on it is no record (as Python's DictReader and pandas have it); an empty text alone on its line
// is written "". With tabs a quote in a field that doesn't begin with one is an ordinary byte, as Python and pandas
// have it: TSV is mostly written without quoting.
#ifndef FINETUNED_DATA_CSV_H
#define FINETUNED_DATA_CSV_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct csv_field {
    const char *at; // into the input, or into `storage` where a doubled quote had to be undone
    size_t size;
};

struct csv {
    // the record that csv_next read last
    struct csv_field *fields; // (n)
    size_t n;
    size_t line; // where it begins, from 1
    // internal
    char *storage; // malloc'ed at the first doubled quote, with room for all that was left; holds fields
    size_t used;
    size_t room; // of fields
    const char *path, *at, *end;
    size_t line_at; // of `at`
    char separator; // ',' or '\t'
};

// The input stays the caller's; `path` is for messages.
void csv_init(struct csv *out, const char *path, char separator, const char *bytes, size_t size);
// Frees all but `storage` if the caller has taken it (set it to NULL).
void csv_release(struct csv *csv);

// The next record; *end where there is none. STATUS_DATA with the line where the record begins: a quote that stands
// where none may, one that is never closed, a carriage return alone.
enum status csv_next(struct csv *csv, bool *end);

#endif
