// SPDX-License-Identifier: Apache-2.0
// Elements of a tensor by their row-major number, whatever its strides and dtype.
#include "support.h"

#include "model/tensor.h"

#include <math.h>

static const float values[24] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23};

// Every piece [first, first + n) of a tensor is that of `wanted`.
static void pieces_check(const struct tensor *tensor, const double *wanted) {
    float floats[64];
    double doubles[64];
    assert_true(tensor->elements <= 64);
    for (uint64_t first = 0; first <= tensor->elements; first++)
        for (uint64_t n = 0; n <= tensor->elements - first; n++) {
            tensor_doubles(doubles, tensor, first, n);
            assert_memory_equal(doubles, wanted + first, n * sizeof *doubles);
            if (tensor->dtype == TENSOR_I64)
                continue;
            tensor_floats(floats, tensor, first, n);
            for (uint64_t i = 0; i < n; i++)
                assert_true((double)floats[i] == wanted[first + i]);
        }
}

static void test_strides(void **state) {
    (void)state;
    const char *data = (const char *)values;
    double wanted[24];
    struct tensor tensor = {.dtype = TENSOR_F32, .rank = 3, .shape = {2, 3, 4}, .elements = 24, .data = data};
    for (int i = 0; i < 24; i++)
        wanted[i] = i;
    pieces_check(&tensor, wanted);
    tensor.strided = true; // the same, said by strides
    memcpy(tensor.stride, (uint64_t[4]){12, 4, 1}, sizeof tensor.stride);
    pieces_check(&tensor, wanted);
    // dimensions in reverse order
    tensor = (struct tensor){.dtype = TENSOR_F32,
                             .rank = 3,
                             .shape = {4, 3, 2},
                             .elements = 24,
                             .data = data,
                             .strided = true,
                             .stride = {1, 4, 12}};
    for (int i = 0; i < 24; i++)
        wanted[i] = i / 6 + i % 6 / 2 * 4 + i % 2 * 12;
    pieces_check(&tensor, wanted);
    // columns 1 and 2 of rows 1..3 of a matrix (6, 4)
    tensor = (struct tensor){.dtype = TENSOR_F32,
                             .rank = 2,
                             .shape = {3, 2},
                             .elements = 6,
                             .data = data + 5 * sizeof(float),
                             .strided = true,
                             .stride = {4, 1}};
    pieces_check(&tensor, (double[]){5, 6, 9, 10, 13, 14});
    tensor.stride[0] = 0; // expanded: one row three times
    pieces_check(&tensor, (double[]){5, 6, 5, 6, 5, 6});
}

static void test_dtypes(void **state) {
    (void)state;
    const uint16_t bf16[3] = {0x3f80, 0xc040, 0x7f80}, f16[3] = {0x3c00, 0xc200, 0x0001};
    const int64_t ids[3] = {-1, 0, INT64_C(1) << 40};
    const double f64[3] = {0.5, -1e30, 3};
    struct tensor tensor = {.rank = 1, .shape = {2}, .elements = 2, .strided = true, .stride = {2}};
    tensor.dtype = TENSOR_BF16, tensor.data = (const char *)bf16;
    pieces_check(&tensor, (double[]){1, (double)INFINITY});
    tensor.dtype = TENSOR_F16, tensor.data = (const char *)f16;
    pieces_check(&tensor, (double[]){1, 0x1p-24});
    tensor.dtype = TENSOR_I64, tensor.data = (const char *)ids;
    pieces_check(&tensor, (double[]){-1, 0x1p40});
    tensor.dtype = TENSOR_F64, tensor.data = (const char *)f64;
    pieces_check(&tensor, (double[]){0.5, 3});
    float two[2];
    tensor_floats(two, &tensor, 0, 2);
    assert_true(two[0] == 0.5f && two[1] == 3);
    tensor = (struct tensor){.dtype = TENSOR_BF16, .elements = 1, .data = (const char *)bf16 + 2}; // no dimension
    pieces_check(&tensor, (double[]){-3});
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_strides), cmocka_unit_test(test_dtypes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
