// SPDX-License-Identifier: Apache-2.0
// What the formats share when they fill a source. For data/source.c and the formats' files alone.
#ifndef FINETUNED_DATA_SOURCE_PARTS_H
#define FINETUNED_DATA_SOURCE_PARTS_H

#include "data/source.h"

// STATUS_DATA with file, line and column of the first byte that is not UTF-8.
enum status source_check_utf8(const char *path, const char *bytes, size_t size);
// Names an empty source (a / in it becomes -) and makes room for so many files.
enum status source_init(struct source *out, const char *name, size_t files);
// Maps a file and remembers it and its path (malloc'ed; NULL: no memory); the source owns both.
enum status source_hold(struct source *source, char *path, const struct file_map **out);
// Room for more rows.
enum status source_grow(struct source *out, size_t more);

#endif
