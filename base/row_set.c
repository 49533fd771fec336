// SPDX-License-Identifier: Apache-2.0
#include "base/row_set.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum status row_set_init(struct row_set *out, const struct param_table *table) {
    size_t words = (size_t)((table->rows + 63) / 64);
    *out = (struct row_set){.bits = calloc(words + 1, sizeof *out->bits), .words = words};
    return out->bits ? STATUS_OK : status_set(STATUS_SYSTEM, "rows: no memory for a set of %zu words", words);
}

void row_set_release(struct row_set *set) {
    free(set->bits);
    *set = (struct row_set){0};
}

void row_set_clear(struct row_set *set) {
    memset(set->bits, 0, set->words * sizeof *set->bits);
}

void row_set_fill(struct row_set *set, const struct param_table *table) {
    for (uint64_t row = 0; row < table->rows; row++)
        row_set_add(set, row);
}

void row_set_copy(struct row_set *to, const struct row_set *from) {
    assert(to->words == from->words);
    memcpy(to->bits, from->bits, to->words * sizeof *to->bits);
}

void row_set_join(struct row_set *to, const struct row_set *from) {
    assert(to->words == from->words);
    for (size_t i = 0; i < to->words; i++)
        to->bits[i] |= from->bits[i];
}

const struct param *row_param(const struct param_table *table, uint64_t row) {
    const struct param *param = table->at;
    assert(row < table->rows);
    while (row - param->row >= param->shape[0])
        param++;
    return param;
}

struct param_piece row_piece(const struct param_table *table, uint64_t row) {
    const struct param *param = row_param(table, row);
    return param_sum(param, row - param->row);
}
