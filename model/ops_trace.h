// SPDX-License-Identifier: Apache-2.0
// A decorator of an op table: each op does what it did, and its time goes into a trace.
#ifndef FINETUNED_MODEL_OPS_TRACE_H
#define FINETUNED_MODEL_OPS_TRACE_H

#include "base/trace.h"
#include "model/ops.h"

// Kinds of ops in a trace. FLOPs are counted of the products alone.
enum ops_kind {
    OPS_GEMM, // the tile kernels of the three products, transposing included
    OPS_ATTENTION,
    OPS_LAYERNORM,
    OPS_GELU,
    OPS_DROPOUT,
    OPS_EMBEDDINGS,
    OPS_BIAS, // gradients of biases
    OPS_ADD,  // residuals, and sums of embedding rows' gradients
    OPS_TANH,
    OPS_ROUND, // operands to bf16
    OPS_KINDS
};
extern const char *const ops_kind_names[TRACE_OPS];

// The table that stands for `table` while `into` is open: one at a time in a process.
const struct ops *ops_traced(const struct ops *table, struct trace *into);

#endif
