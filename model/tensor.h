// SPDX-License-Identifier: Apache-2.0
// A tensor of a file of weights, in the memory of that file: what every form of such files gives.
#ifndef FINETUNED_MODEL_TENSOR_H
#define FINETUNED_MODEL_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tensor_dtype { TENSOR_F32, TENSOR_F16, TENSOR_BF16, TENSOR_I64, TENSOR_F64 };

#define TENSOR_DTYPES 5
#define TENSOR_RANK_MAX 4

const char *tensor_dtype_name(enum tensor_dtype dtype); // "F32", …
unsigned tensor_dtype_size(enum tensor_dtype dtype);    // bytes

struct tensor {
    const char *name;
    enum tensor_dtype dtype;
    unsigned rank; // 0..4
    uint64_t shape[TENSOR_RANK_MAX];
    uint64_t elements;
    const char *data;                 // of element [0, 0, …], little-endian; alignment is not promised
    bool strided;                     // false: row-major without gaps
    uint64_t stride[TENSOR_RANK_MAX]; // if strided: elements from one index of a dimension to the next
};

// `n` elements from `first` in row-major order, as float; not for I64 (asserted). tensor_doubles: the same as double,
// I64 too.
void tensor_floats(float *out, const struct tensor *tensor, uint64_t first, uint64_t n);
void tensor_doubles(double *out, const struct tensor *tensor, uint64_t first, uint64_t n);
// The shape as "[3, 64]" in `out`, for messages; returns `out`.
const char *tensor_shape_text(char out[96], const uint64_t *shape, unsigned rank);
// Order of names, for qsort and bsearch over tensors.
int tensor_by_name(const void *a, const void *b);

#endif
