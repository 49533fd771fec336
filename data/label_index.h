// SPDX-License-Identifier: Apache-2.0
// Label values of a data file to ids, by hash: as the file's rows come, for up to LABELS_MAX labels.
//
// A value is a label's name, or its id in plain digits. A name comes first; and where any name is itself a number, ids
// are no values at all: "1" could mean either.
#ifndef FINETUNED_DATA_LABEL_INDEX_H
#define FINETUNED_DATA_LABEL_INDEX_H

#include "data/labels.h"

struct label_index {
    struct labels labels; // a copy, and what label_index_add added
    uint32_t *slots;      // (mask + 1) id + 1, 0: free
    uint32_t mask;
    bool names_only; // ids are no values: some name is a number; or set by the caller
};

enum status label_index_open(struct label_index *out, const struct labels *labels);
void label_index_close(struct label_index *index);

// The id of a value, or -1.
int32_t label_index_find(const struct label_index *index, const char *value, size_t size);
// Adds a name that may be there already. STATUS_DATA, without place: no label's name (NUL, too long), too many.
enum status label_index_add(struct label_index *index, const char *name, size_t size);
// Takes the labels out, sorted: by number if all are whole numbers ("-1", "0", "10"), else by bytes.
void label_index_sorted(struct label_index *index, struct labels *out);

#endif
