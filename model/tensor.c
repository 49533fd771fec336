// SPDX-License-Identifier: Apache-2.0
#include "model/tensor.h"

#include "base/bf16.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors' data are little-endian and are used in place");

static const struct {
    const char *name;
    unsigned size; // bytes
} dtypes[TENSOR_DTYPES] = {
    [TENSOR_F32] = {"F32", 4}, [TENSOR_F16] = {"F16", 2}, [TENSOR_BF16] = {"BF16", 2},
    [TENSOR_I64] = {"I64", 8}, [TENSOR_F64] = {"F64", 8},
};

const char *tensor_dtype_name(enum tensor_dtype dtype) {
    return dtypes[dtype].name;
}

unsigned tensor_dtype_size(enum tensor_dtype dtype) {
    return dtypes[dtype].size;
}

const char *tensor_shape_text(char out[96], const uint64_t *shape, unsigned rank) {
    size_t used = (size_t)snprintf(out, 96, "[");
    for (unsigned i = 0; i < rank && used < 90; i++)
        used += (size_t)snprintf(out + used, 96 - used, "%s%llu", i ? ", " : "", (unsigned long long)shape[i]);
    snprintf(out + (used < 94 ? used : 94), 2, "]");
    return out;
}

int tensor_by_name(const void *a, const void *b) {
    return strcmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

// The element that lies `place` elements behind the first.
static double element(const struct tensor *tensor, uint64_t place) {
    union {
        float f32;
        double f64;
        uint16_t half;
        int64_t i64;
    } value;
    memcpy(&value, tensor->data + place * dtypes[tensor->dtype].size, dtypes[tensor->dtype].size);
    switch (tensor->dtype) {
    case TENSOR_F32:
        return value.f32;
    case TENSOR_F64:
        return value.f64;
    case TENSOR_F16:
        return f16_to_float(value.half);
    case TENSOR_BF16:
        return bf16_to_float(value.half);
    case TENSOR_I64:
        return (double)value.i64;
    }
    return 0;
}

// A run of elements whose places are `step` apart.
struct run {
    uint64_t place, step, n;
};

// The longest run from element `i` on: all that is left, or in a strided tensor the rest of the last dimension.
static struct run run_at(const struct tensor *tensor, uint64_t i, uint64_t left) {
    if (!tensor->strided)
        return (struct run){i, 1, left};
    unsigned last = tensor->rank - 1;
    uint64_t rest = tensor->shape[last] - i % tensor->shape[last];
    struct run run = {0, tensor->stride[last], rest < left ? rest : left};
    for (unsigned d = tensor->rank; d-- > 0; i /= tensor->shape[d])
        run.place += i % tensor->shape[d] * tensor->stride[d];
    return run;
}

void tensor_doubles(double *out, const struct tensor *tensor, uint64_t first, uint64_t n) {
    assert(n <= tensor->elements && first <= tensor->elements - n);
    while (n > 0) {
        struct run run = run_at(tensor, first, n);
        for (uint64_t i = 0; i < run.n; i++)
            *out++ = element(tensor, run.place + i * run.step);
        first += run.n;
        n -= run.n;
    }
}

void tensor_floats(float *out, const struct tensor *tensor, uint64_t first, uint64_t n) {
    assert(n <= tensor->elements && first <= tensor->elements - n && tensor->dtype != TENSOR_I64);
    while (n > 0) {
        struct run run = run_at(tensor, first, n);
        if (tensor->dtype == TENSOR_F32 && run.step == 1)
            memcpy(out, tensor->data + run.place * 4, run.n * 4);
        else
            for (uint64_t i = 0; i < run.n; i++)
                out[i] = (float)element(tensor, run.place + i * run.step);
        out += run.n;
        first += run.n;
        n -= run.n;
    }
}
