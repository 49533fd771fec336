// SPDX-License-Identifier: Apache-2.0
// Chooses among the tables that model/ops/table.c gives, one an instruction set.
#include "model/ops.h"
#include "model/ops/attention.h"

extern const struct ops ops_table__plain;
#if defined(__x86_64__)
extern const struct ops ops_table__avx2, ops_table__avx512, ops_table__avx512bf16;
static const struct ops *const tables[ISA_COUNT] = {&ops_table__plain, &ops_table__avx2, &ops_table__avx512,
                                                    &ops_table__avx512bf16};
#else
static const struct ops *const tables[ISA_COUNT] = {&ops_table__plain};
#endif

const struct ops *ops_table(enum isa isa) {
    if ((unsigned)isa >= ISA_COUNT || isa > isa_best())
        return NULL;
    return tables[isa];
}

size_t attention_scratch(size_t length, size_t head_size) {
    const struct attention_sizes s = attention_sizes(length, head_size);
    return 2 * s.panels + s.rows + ATTENTION_ROWS * (2 * s.wide + 2 * s.stride + attention_round(s.kept, 32) / 2);
}
