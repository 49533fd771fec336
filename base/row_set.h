// SPDX-License-Identifier: Apache-2.0
// A set of rows of the embeddings: a batch reads few of them, and all others have no gradient. Rows are numbered
// through the table's first parameters (table->embeddings, param->row); a bit a row, so that a set is walked in
// ascending order, whatever order it was filled in.
#ifndef FINETUNED_BASE_ROW_SET_H
#define FINETUNED_BASE_ROW_SET_H

#include "base/param.h"

struct row_set {
    uint64_t *bits;
    size_t words;
};

// Room for all rows of the table; empty.
enum status row_set_init(struct row_set *out, const struct param_table *table);
void row_set_release(struct row_set *set);

void row_set_clear(struct row_set *set);
void row_set_fill(struct row_set *set, const struct param_table *table); // all rows
void row_set_copy(struct row_set *to, const struct row_set *from);
void row_set_join(struct row_set *to, const struct row_set *from); // adds its rows

static inline void row_set_add(struct row_set *set, uint64_t row) {
    set->bits[row / 64] |= (uint64_t)1 << row % 64;
}

// The first row of the set from `row` on; UINT64_MAX: there is none.
static inline uint64_t row_set_next(const struct row_set *set, uint64_t row) {
    size_t word = (size_t)(row / 64);
    if (word >= set->words)
        return UINT64_MAX;
    uint64_t bits = set->bits[word] & UINT64_MAX << row % 64;
    while (!bits && ++word < set->words)
        bits = set->bits[word];
    return bits ? word * 64 + (uint64_t)__builtin_ctzll(bits) : UINT64_MAX;
}

// The parameter that a row belongs to, and its floats in an arena.
const struct param *row_param(const struct param_table *table, uint64_t row);
struct param_piece row_piece(const struct param_table *table, uint64_t row);

#endif
