// SPDX-License-Identifier: Apache-2.0
// csv, tsv and jsonl as a task: <dir>/{train,val,test}.<ending>, test may lack; labels from <dir>/mapping.txt, else the
// names that occur in train.
#ifndef FINETUNED_DATA_COLUMNS_H
#define FINETUNED_DATA_COLUMNS_H

#include "data/source.h"

bool columns_has(const struct source_spec *spec, enum source_split split);
// Without mapping.txt: STATUS_DATA if train has no label, only one, or as many as rows.
enum status columns_labels(struct labels *out, const struct source_spec *spec);
enum status columns_read(struct source *out, const struct source_spec *spec, enum source_split split,
                         const struct labels *labels);
// `labels` NULL: the label's column is not looked at. A label may be given by name or id.
enum status columns_read_file(struct source *out, enum source_format format, const struct source_columns *columns,
                              const char *path, const struct labels *labels);

// Appends a file's records, given as bytes, which the source borrows, as it does the path. `out` starts without
// storage. `ids`: a label may also be given by its id. A pure function.
enum status columns_parse(struct source *out, enum source_format format, const struct source_columns *columns,
                          const char *path, const char *bytes, size_t size, const struct labels *labels, bool ids);

#endif
