// SPDX-License-Identifier: Apache-2.0
// A .safetensors of more than 4 GiB, most of it a hole: offsets that 32 bits don't hold.
#include "support.h"

#include "base/file.h"
#include "base/text.h"
#include "model/safetensors.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define ROWS UINT64_C(1500000)
#define COLUMNS UINT64_C(1024)
#define LARGE (ROWS * COLUMNS * 4) // 6.1 GB

static char *header_of(uint64_t end) {
    return text_format("{\"a\":{\"dtype\":\"F32\",\"shape\":[%llu,%llu],\"data_offsets\":[0,%llu]},"
                       "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[%llu,%llu]}}",
                       (unsigned long long)ROWS, (unsigned long long)COLUMNS, (unsigned long long)LARGE,
                       (unsigned long long)LARGE, (unsigned long long)end);
}

static char *file_make(const char *folder, uint64_t end) {
    static const float last[2] = {1.5f, -2.5f};
    char *path = path_join(folder, "model.safetensors"), *header = header_of(end);
    uint64_t length = strlen(header);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_ok(file_write_all(fd, &length, 8, path));
    assert_ok(file_write_all(fd, header, length, path));
    assert_ok(file_pwrite_all(fd, last, sizeof last, 8 + length + LARGE, path));
    close(fd);
    free(header);
    return path;
}

static void behind_4_gib(void **context) {
    (void)context;
    char *folder = support_folder(), *path = file_make(folder, LARGE + 8);
    struct safetensors file;
    assert_ok(safetensors_open(&file, path));
    const struct tensor *a = safetensors_find(&file, "a"), *b = safetensors_find(&file, "b");
    assert_int_equal(a->elements, ROWS * COLUMNS);
    assert_int_equal((const char *)b->data - (const char *)a->data, LARGE);
    float row[COLUMNS] = {1}, pair[2];
    tensor_floats(row, a, (ROWS - 1) * COLUMNS, COLUMNS);
    tensor_floats(pair, b, 0, 2);
    assert_true(row[0] == 0 && row[COLUMNS - 1] == 0);
    assert_true(pair[0] == 1.5f && pair[1] == -2.5f);
    safetensors_close(&file);
    assert_ok(file_remove(folder));
    free(path);
    free(folder);
}

// 32 bits of the end are right, the rest is not.
static void wrong_by_4_gib(void **context) {
    (void)context;
    char *folder = support_folder(), *path = file_make(folder, LARGE + 8 - (UINT64_C(1) << 32));
    struct safetensors file;
    assert_status(safetensors_open(&file, path), STATUS_DATA);
    free(path);
    path = file_make(folder, LARGE + 8 + (UINT64_C(1) << 32));
    assert_status(safetensors_open(&file, path), STATUS_DATA);
    free(path);
    path = file_make(folder, LARGE + 8);
    struct file_map map;
    assert_ok(file_map_open(&map, path));
    assert_int_equal(truncate(path, (off_t)(map.size - (UINT64_C(1) << 32))), 0);
    file_map_close(&map);
    assert_status(safetensors_open(&file, path), STATUS_DATA);
    assert_ok(file_remove(folder));
    free(path);
    free(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(behind_4_gib), cmocka_unit_test(wrong_by_4_gib)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
