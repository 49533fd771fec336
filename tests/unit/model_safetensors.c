// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "base/file.h"
#include "model/safetensors.h"

#include <math.h>

// A file of a header's text and `size` bytes of data 0, 1, 2, …
struct bytes {
    char at[4096];
    size_t size;
};

static struct bytes *bytes_of(const char *header, size_t size) {
    static struct bytes out;
    uint64_t length = strlen(header);
    memcpy(out.at, &length, 8);
    memcpy(out.at + 8, header, length);
    for (size_t i = 0; i < size; i++)
        out.at[8 + length + i] = (char)i;
    out.size = 8 + length + size;
    return &out;
}

static void refused_bytes(const char *at, size_t size, const char *word) {
    struct safetensors file;
    char *exact = malloc(size + 1); // its end is where the sanitizer looks
    memcpy(exact, at, size);
    assert_status(safetensors_parse(&file, exact, size, "x.safetensors"), STATUS_DATA);
    if (!strstr(status_message(), word))
        fail_msg("\"%s\" does not say \"%s\"", status_message(), word);
    assert_null(file.at);
    free(exact);
}

static void refused(const char *header, size_t size, const char *word) {
    const struct bytes *bytes = bytes_of(header, size);
    refused_bytes(bytes->at, bytes->size, word);
}

static void test_good(void **state) {
    (void)state;
    struct safetensors file;
    const struct bytes *bytes = bytes_of("{\"b\": {\"dtype\": \"F32\", \"shape\": [2, 1], \"data_offsets\": [8, 16]}, "
                                         "\"__metadata__\": {\"format\": \"pt\"}, "
                                         "\"a\": {\"dtype\": \"I64\", \"shape\": [], \"data_offsets\": [0, 8]}, \"e\": "
                                         "{\"dtype\": \"F16\", \"shape\": [0, 9], \"data_offsets\": [8, 8]}}   ",
                                         16);
    assert_ok(safetensors_parse(&file, bytes->at, bytes->size, "x"));
    assert_int_equal(file.n, 3);
    assert_string_equal(file.at[0].name, "a");
    assert_string_equal(file.at[2].name, "e");
    const struct tensor *b = safetensors_find(&file, "b");
    assert_non_null(b);
    assert_int_equal(b->rank, 2);
    assert_int_equal(b->elements, 2);
    assert_null(safetensors_find(&file, "c"));
    double value;
    tensor_doubles(&value, safetensors_find(&file, "a"), 0, 1);
    assert_near(value, (double)0x0706050403020100, 0, 0);
    safetensors_close(&file);
    bytes = bytes_of("{}", 0);
    assert_ok(safetensors_parse(&file, bytes->at, bytes->size, "x"));
    assert_null(safetensors_find(&file, "b"));
    safetensors_close(&file);
}

static void test_dtypes(void **state) {
    (void)state;
    static const char header[] = "{\"f16\": {\"dtype\": \"F16\", \"shape\": [3], \"data_offsets\": [0, 6]}, \"bf16\": "
                                 "{\"dtype\": \"BF16\", \"shape\": [1], \"data_offsets\": [6, 8]}, "
                                 "\"f64\": {\"dtype\": \"F64\", \"shape\": [1], \"data_offsets\": [8, 16]}}";
    const uint16_t halves[4] = {0x3c00, 0xc100, 0x0001, 0x4049}; // 1, -2.5, 2^-24; bf16 3.140625
    const double third = 1.0 / 3;
    struct safetensors file;
    float out[3];
    struct bytes *bytes = bytes_of(header, 16);
    memcpy(bytes->at + bytes->size - 16, halves, 8);
    memcpy(bytes->at + bytes->size - 8, &third, 8);
    assert_ok(safetensors_parse(&file, bytes->at, bytes->size, "x"));
    tensor_floats(out, safetensors_find(&file, "f16"), 0, 3);
    assert_true(out[0] == 1 && out[1] == -2.5f && out[2] == ldexpf(1, -24));
    tensor_floats(out, safetensors_find(&file, "f16"), 1, 1);
    assert_true(out[0] == -2.5f);
    tensor_floats(out, safetensors_find(&file, "bf16"), 0, 1);
    assert_true(out[0] == 3.140625f);
    tensor_floats(out, safetensors_find(&file, "f64"), 0, 1);
    assert_true(out[0] == (float)third);
    safetensors_close(&file);
}

#define ONE(name, dtype, shape, offsets)                                                                               \
    "\"" name "\": {\"dtype\": \"" dtype "\", \"shape\": " shape ", \"data_offsets\": " offsets "}"

static void test_header(void **state) {
    (void)state;
    char bytes[32] = {0};
    uint64_t length = (uint64_t)SAFETENSORS_HEADER_MAX + 1;
    refused_bytes(bytes, 0, "too few");
    refused_bytes(bytes, 7, "too few");
    refused_bytes(bytes, 8, "header");
    refused_bytes(bytes, 16, "header");
    memcpy(bytes, &length, 8);
    refused_bytes(bytes, 32, "104857601");
    length = UINT64_MAX;
    memcpy(bytes, &length, 8);
    refused_bytes(bytes, 32, "header says");
    length = 25;
    memcpy(bytes, &length, 8);
    refused_bytes(bytes, 32, "header says 25"); // truncated
    refused("{\"a\": ", 0, "header");
    refused(" {}", 0, "header");
    refused("[]", 0, "header");
    refused("{} x", 0, "header");
    refused("{\"a\": 1}", 0, "not an object");
    refused("{\"__metadata__\": {\"a\": 1}}", 0, "__metadata__");
}

static void test_tensors(void **state) {
    (void)state;
    refused("{" ONE("a", "F32", "[1]", "[0, 4]") ", " ONE("b", "F32", "[1]", "[2, 6]") "}", 6, "overlap");
    refused("{" ONE("a", "F32", "[1]", "[0, 4]") ", " ONE("b", "F32", "[1]", "[0, 4]") "}", 4, "overlap");
    refused("{" ONE("a", "F32", "[1]", "[0, 4]") ", " ONE("b", "F32", "[1]", "[6, 10]") "}", 10, "hole");
    refused("{" ONE("a", "F32", "[1]", "[4, 8]") "}", 8, "hole");
    refused("{" ONE("a", "F32", "[1]", "[0, 4]") "}", 8, "no tensor");
    refused("{}", 1, "no tensor");
    refused("{" ONE("a", "F32", "[1]", "[0, 4]") ", " ONE("a", "F32", "[1]", "[4, 8]") "}", 8, "duplicate");
    refused("{" ONE("a", "F32", "[2]", "[0, 8]") "}", 4, "outside");
    refused("{" ONE("a", "F32", "[1]", "[4, 0]") "}", 8, "outside");
    refused("{" ONE("a", "F32", "[1]", "[-4, 0]") "}", 8, "data_offsets");
    refused("{" ONE("a", "F32", "[1]", "[0, 4, 8]") "}", 8, "data_offsets");
    refused("{" ONE("a", "F32", "[1]", "[0, 4.0]") "}", 4, "data_offsets");
    refused("{" ONE("a", "F32", "[1]", "[0, 8]") "}", 8, "don't fit");
    refused("{" ONE("a", "F8_E4M3", "[1]", "[0, 1]") "}", 1, "F8_E4M3");
    refused("{" ONE("a", "f32", "[1]", "[0, 4]") "}", 4, "f32");
    refused("{" ONE("a", "F32", "[-1]", "[0, 4]") "}", 4, "shape");
    refused("{" ONE("a", "F32", "[1, 1, 1, 1, 1]", "[0, 4]") "}", 4, "dimensions");
    refused("{" ONE("a", "F32", "[4294967296, 4294967296]", "[0, 0]") "}", 0, "overflow");
    refused("{" ONE("a", "F32", "[4611686018427387904]", "[0, 0]") "}", 0, "don't fit"); // times 4 bytes
    refused("{\"a\": {\"dtype\": \"F32\", \"shape\": [1]}}", 4, "data_offsets");
    refused("{\"a\": {\"dtype\": \"F32\", \"data_offsets\": [0, 4]}}", 4, "shape");
    refused("{\"a\": {\"shape\": [1], \"data_offsets\": [0, 4]}}", 4, "dtype");
}

static void test_writer(void **state) {
    (void)state;
    char *folder = support_folder(), *path = path_join(folder, "x.safetensors");
    struct safetensors_writer *w;
    struct safetensors file;
    const uint64_t shape[2] = {2, 3}, bias[1] = {2}, none[1] = {0};
    const float values[6] = {1, -2, 3.25f, 4, 5, 1.0f / 3};
    float out[6];
    assert_ok(safetensors_begin(&w, path));
    assert_ok(safetensors_announce(w, "w", TENSOR_F32, shape, 2));
    assert_ok(safetensors_announce(w, "none", TENSOR_F32, none, 1));
    assert_ok(safetensors_announce(w, "b", TENSOR_BF16, bias, 1));
    assert_status(safetensors_announce(w, "b", TENSOR_BF16, bias, 1), STATUS_ARGUMENT);
    assert_ok(safetensors_put(w, values, 4));
    assert_ok(safetensors_put(w, values + 4, 2));
    assert_ok(safetensors_put(w, values + 4, 2));
    assert_ok(safetensors_commit(w));
    assert_ok(safetensors_open(&file, path));
    assert_int_equal(file.n, 3);
    tensor_floats(out, safetensors_find(&file, "w"), 0, 6);
    assert_memory_equal(out, values, sizeof values);
    tensor_floats(out, safetensors_find(&file, "b"), 0, 2);
    assert_true(out[0] == 5 && out[1] == 0.333984375f);
    assert_int_equal((uintptr_t)safetensors_find(&file, "w")->data % 8, 0);
    safetensors_close(&file);
    assert_ok(safetensors_begin(&w, path));
    assert_ok(safetensors_announce(w, "w", TENSOR_F32, shape, 2));
    assert_ok(safetensors_put(w, values, 4));
    assert_status(safetensors_commit(w), STATUS_ARGUMENT); // two values are missing; the file of before stays
    assert_ok(safetensors_open(&file, path));
    assert_int_equal(file.n, 3);
    safetensors_close(&file);
    assert_status(safetensors_open(&file, "/nowhere/x.safetensors"), STATUS_DATA);
    assert_ok(file_remove(folder));
    free(folder);
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_good), cmocka_unit_test(test_dtypes),
                                       cmocka_unit_test(test_header), cmocka_unit_test(test_tensors),
                                       cmocka_unit_test(test_writer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
