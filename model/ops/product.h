// SPDX-License-Identifier: Apache-2.0
// The small products inside attention: operands of a few kilobytes, packed and padded by the caller. An element of y is
// one chain of fused multiply-adds over the depth, from 0 (or from y), so the bits depend on nothing else.
#ifndef FINETUNED_MODEL_OPS_PRODUCT_H
#define FINETUNED_MODEL_OPS_PRODUCT_H

#include "base/isa.h"

#include <stdbool.h>
#include <stddef.h>

#define PRODUCT_PANEL 32 // columns of b that lie together
#define PRODUCT_LANE 16  // b's columns are padded to a multiple of it

// y[r][c] = sum over k of x(r, k) b(k, c); b(k, c) = b[c / 32 * panel + k * ldb + c % 32].
struct product {
    float *y; // (rows, columns)
    size_t ldy;
    const float *x; // (rows, depth); (depth, rows) for product_transposed
    size_t ldx;
    const float *b;
    size_t ldb, panel;
    size_t rows, columns, depth;
};

void ISA_NAME(product)(const struct product *p);
// x is read by columns. more: y is added to.
void ISA_NAME(product_transposed)(const struct product *p, bool more);

#endif
