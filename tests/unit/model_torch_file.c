// SPDX-License-Identifier: Apache-2.0
// Files of torch.save: tensors as views of storages in a zip, and every way in which such a file can be wrong.
#include "torch_support.h"

#include "base/file.h"
#include "model/torch_file.h"

// data.pkl of `n` views, storages "0", "1", … of `sizes` bytes each holding 0, 1, 2, … in their type.
static struct bytes file_make(const struct view *views, size_t n, const size_t *sizes, size_t storages) {
    struct zip_writer w = {0};
    struct bytes pickle = {0};
    put_state_dict(&pickle, views, n);
    zip_add(&w, "m/data.pkl", pickle.at, pickle.size);
    zip_add(&w, "m/byteorder", "little", 6);
    for (size_t i = 0; i < storages; i++) {
        char name[32], data[256];
        for (size_t k = 0; k < sizeof data / sizeof(float); k++)
            memcpy(data + k * sizeof(float), &(float){(float)k}, sizeof(float));
        assert_true(sizes[i] <= sizeof data);
        snprintf(name, sizeof name, "m/data/%zu", i);
        zip_add(&w, name, data, sizes[i]);
    }
    zip_add(&w, "m/version", "3\n", 2);
    bytes_release(&pickle);
    return zip_end(&w);
}

static void refused(const struct bytes *bytes, const char *said) {
    struct torch_file file;
    char *exact = malloc(bytes->size ? bytes->size : 1);
    assert_non_null(exact);
    memcpy(exact, bytes->at, bytes->size);
    assert_status(torch_file_parse(&file, exact, bytes->size, "w.bin"), STATUS_DATA);
    assert_null(file.at);
    if (strncmp(status_message(), "w.bin: ", 7) != 0 || !strstr(status_message(), said))
        fail_msg("\"%s\" does not say \"%s\"", status_message(), said);
    free(exact);
}

static void view_refused(const struct view *view, size_t size, const char *said) {
    struct bytes bytes = file_make(view, 1, &size, 1);
    refused(&bytes, said);
    bytes_release(&bytes);
}

static const struct tensor *find(const struct torch_file *file, const char *name) {
    for (size_t i = 0; i < file->n; i++)
        if (strcmp(file->at[i].name, name) == 0)
            return &file->at[i];
    fail_msg("%s is not there", name);
    return NULL;
}

static void tensor_check(const struct torch_file *file, const char *name, const float *wanted, uint64_t n) {
    const struct tensor *tensor = find(file, name);
    float got[64];
    assert_true(tensor->elements == n && n <= 64);
    tensor_floats(got, tensor, 0, n);
    assert_memory_equal(got, wanted, n * sizeof *got);
}

// Views of one storage (0): whole, a part of it, transposed, one column, expanded, without dimensions, empty.
static void test_views(void **state) {
    (void)state;
    const struct view views[] = {
        {"whole", "FloatStorage", "0", 12, 0, 2, {4, 3}, {3, 1}},
        {"part", "FloatStorage", "0", 12, 4, 1, {5}, {1}},
        {"turned", "FloatStorage", "0", 12, 0, 2, {3, 4}, {1, 3}},
        {"column", "FloatStorage", "0", 12, 2, 1, {4}, {3}},
        {"same", "FloatStorage", "0", 12, 11, 2, {2, 1}, {0, 7}},
        {"scalar", "FloatStorage", "0", 12, 5, 0, {0}, {0}},
        {"empty", "FloatStorage", "0", 12, 12, 1, {0}, {1}},
        {"ids", "LongStorage", "1", 4, 0, 2, {1, 4}, {9, 1}},
        {"none", "HalfStorage", "2", 0, 0, 1, {0}, {1}},
        {"row", "FloatStorage", "0", 12, 3, 2, {1, 3}, {99, 1}},
    };
    struct bytes bytes = file_make(views, 10, (size_t[]){48, 32, 0}, 3);
    struct torch_file file;
    assert_ok(torch_file_parse(&file, bytes.at, bytes.size, "w.bin"));
    assert_int_equal(file.n, 10);
    tensor_check(&file, "whole", (float[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 12);
    tensor_check(&file, "part", (float[]){4, 5, 6, 7, 8}, 5);
    tensor_check(&file, "turned", (float[]){0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}, 12);
    tensor_check(&file, "column", (float[]){2, 5, 8, 11}, 4);
    tensor_check(&file, "same", (float[]){11, 11}, 2);
    tensor_check(&file, "scalar", (float[]){5}, 1);
    tensor_check(&file, "empty", NULL, 0);
    tensor_check(&file, "none", NULL, 0);
    tensor_check(&file, "row", (float[]){3, 4, 5}, 3);
    assert_true(find(&file, "whole")->data == find(&file, "turned")->data);
    assert_false(find(&file, "whole")->strided || find(&file, "row")->strided || find(&file, "ids")->strided);
    assert_true(find(&file, "turned")->strided && find(&file, "same")->strided);
    const struct tensor *ids = find(&file, "ids");
    assert_true(ids->dtype == TENSOR_I64 && ids->rank == 2 && ids->shape[0] == 1 && ids->shape[1] == 4);
    assert_true(ids->data >= bytes.at && ids->data < bytes.at + bytes.size); // in place, no copy
    torch_file_close(&file);
    for (size_t size = 0; size < bytes.size; size++)
        refused(&(struct bytes){bytes.at, size}, "w.bin");
    bytes_release(&bytes);
}

static void test_bounds(void **state) {
    (void)state;
    const struct view good = {"w", "FloatStorage", "0", 12, 0, 2, {4, 3}, {3, 1}};
    struct view view = good;
    view.offset = 1;
    view_refused(&view, 48, "tensor w: reaches element 12 of a storage of 12");
    view = good;
    view.stride[0] = 4;
    view_refused(&view, 48, "reaches element 14");
    view = good;
    view.size[0] = 5;
    view_refused(&view, 48, "reaches element 14");
    view = good;
    view.rank = 4; // 2^31 - 1 to the fourth
    for (int i = 0; i < 4; i++)
        view.size[i] = INT32_MAX, view.stride[i] = 0;
    view_refused(&view, 48, "overflow");
    view_refused(&good, 44, "storage m/data/0 has 44 bytes, 12 elements of F32 are said");
    view_refused(&good, 52, "has 52 bytes");
    view = good;
    view.type = "HalfStorage";
    view_refused(&view, 48, "12 elements of F16");
    view = good;
    view.elements = INT32_MAX;
    view_refused(&view, 48, "2147483647 elements");
    view = good;
    view.key = "1";
    view_refused(&view, 48, "tensor w: its storage data/1 is missing");
    view.key = "../data/0";
    view_refused(&view, 48, "is missing");
    view.key = "";
    view_refused(&view, 48, "is missing");
}

// Names and values of the state_dict.
static void pickle_check(const char *pickle, size_t size, const char *said) {
    struct zip_writer w = {0};
    struct torch_file file;
    zip_add(&w, "m/data.pkl", pickle, size);
    struct bytes bytes = zip_end(&w);
    if (said) {
        refused(&bytes, said);
    } else {
        assert_ok(torch_file_parse(&file, bytes.at, bytes.size, "w.bin"));
        assert_int_equal(file.n, 0);
        torch_file_close(&file);
    }
    bytes_release(&bytes);
}

#define PICKLE(literal, said) pickle_check(literal, sizeof(literal) - 1, said)

static void test_entries(void **state) {
    (void)state;
    PICKLE("\x80\x02}.", NULL);
    PICKLE("\x80\x02}(X\x01\0\0\0nK\x07X\x01\0\0\0sX\x01\0\0\0tX\x01\0\0\0mNu.", NULL); // scalars are no weights
    PICKLE("\x80\x02).", "not a state_dict (tuple)");
    PICKLE("\x80\x02}X\x05\0\0\0model}s.", "model is not a tensor (dict)");
    PICKLE("\x80\x02}X\x01\0\0\0t)s.", "t is not a tensor (tuple)");
    PICKLE("\x80\x02}K\x01Ns.", "is not a string (int)");
    PICKLE("\x80\x02}X\x01\0\0\0\0Ns.", "NUL");
    PICKLE("\x80\x02"
           "cposix\nsystem\n.",
           "pickle imports posix.system");
    PICKLE("", "PROTO");
    const struct view twice[] = {{"w", "FloatStorage", "0", 4, 0, 1, {4}, {1}},
                                 {"w", "FloatStorage", "0", 4, 0, 1, {4}, {1}}};
    struct bytes bytes = file_make(twice, 2, (size_t[]){16}, 1);
    refused(&bytes, "tensor w: is there twice");
    bytes_release(&bytes);
    // a name of 1000 bytes 20000 times would need memory for names that the file does not hold
    char name[1001] = {0};
    memset(name, 'n', 1000);
    put_text(&bytes, "\x80\x02}(");
    put_string(&bytes, name);
    put_text(&bytes, "q\x01N");
    for (int i = 0; i < 20000; i++)
        put_text(&bytes, "h\x01N");
    put_text(&bytes, "u.");
    pickle_check(bytes.at, bytes.size, "twice");
    bytes_release(&bytes);
}

static void other_refused(const char *entry, const char *content, size_t size, const char *second, const char *said) {
    struct zip_writer w = {0};
    zip_add(&w, entry, content, size);
    if (second)
        zip_add(&w, second, "\x80\x02}.", 4);
    struct bytes bytes = zip_end(&w);
    refused(&bytes, said);
    bytes_release(&bytes);
}

static void test_archive(void **state) {
    (void)state;
    other_refused("m/byteorder", "big", 3, "m/data.pkl", "byteorder");
    other_refused("m/byteorder", "", 0, "m/data.pkl", "byteorder");
    other_refused("m/data.pkl", "\x80\x02}.", 4, "n/data.pkl", "two data.pkl");
    other_refused("m/data.pkl", "\x80\x02}.", 4, "m/data.pkl", "two entries are called m/data.pkl");
    other_refused("data.pkl", "\x80\x02}.", 4, NULL, "no <name>/data.pkl");
    other_refused("m/n/data.pkl", "\x80\x02}.", 4, NULL, "no <name>/data.pkl");
    refused(&(struct bytes){(char *)"", 0}, "not a file of torch.save");
    refused(&(struct bytes){(char *)"PK\x05\x06", 4}, "not a file of torch.save");
    refused(&(struct bytes){(char *)"PK\x03\x04", 4}, "not a whole zip archive");
    refused(&(struct bytes){(char *)"\x80\x02\x8a\x0al\xfc\x9c"
                                    "F\xf9 j\xa8P\x19.",
                            15},
            "before torch 1.6");
    char tar[512] = "pickle";
    memcpy(tar + 257, "ustar", 5);
    refused(&(struct bytes){tar, sizeof tar}, "before torch 1.6");
}

// A byte of a storage changed: the archive's CRC-32 says so, by the entry's name.
static void test_damage(void **state) {
    (void)state;
    const struct view view = {"w", "FloatStorage", "0", 12, 0, 2, {4, 3}, {3, 1}};
    struct bytes bytes = file_make(&view, 1, (size_t[]){48}, 1);
    char *name = memmem(bytes.at, bytes.size, "m/data/0", 8);
    assert_non_null(name);
    name[8 + 5] ^= 1;
    refused(&bytes, "entry m/data/0: ");
    bytes_release(&bytes);
}

static void test_open(void **state) {
    (void)state;
    const struct view view = {"w", "FloatStorage", "0", 12, 0, 2, {4, 3}, {3, 1}};
    struct bytes bytes = file_make(&view, 1, (size_t[]){48}, 1);
    char *folder = support_folder(), *path = path_join(folder, "w.bin");
    struct torch_file file;
    assert_status(torch_file_open(&file, path), STATUS_DATA);
    assert_ok(file_replace(path, bytes.at, bytes.size));
    assert_ok(torch_file_open(&file, path));
    assert_true(file.at[0].data >= file.map.at && file.at[0].data + 48 <= file.map.at + file.map.size);
    torch_file_close(&file);
    assert_ok(file_replace(path, "", 0));
    assert_status(torch_file_open(&file, path), STATUS_DATA);
    assert_ok(file_remove(folder));
    free(path);
    free(folder);
    bytes_release(&bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views),   cmocka_unit_test(test_bounds), cmocka_unit_test(test_entries),
        cmocka_unit_test(test_archive), cmocka_unit_test(test_damage), cmocka_unit_test(test_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
