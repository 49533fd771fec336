// SPDX-License-Identifier: Apache-2.0
// One set of tensors from a folder: which of its forms counts, indices and shards that agree, hashes.
#include "torch_support.h"

#include <sys/stat.h>

#include "base/file.h"
#include "model/weight_files.h"

static void text_write(const char *folder, const char *name, const char *text) {
    char *path = path_join(folder, name);
    assert_ok(file_replace(path, text, strlen(text)));
    free(path);
}

// A safetensors file of one float a tensor: its value is `first`, `first` + 1, …
static void safetensors_write(const char *folder, const char *name, const char *const *tensors, float first) {
    char *path = path_join(folder, name);
    struct safetensors_writer *w;
    assert_ok(safetensors_begin(&w, path));
    for (size_t i = 0; tensors[i]; i++)
        assert_ok(safetensors_announce(w, tensors[i], TENSOR_F32, (uint64_t[]){1}, 1));
    for (size_t i = 0; tensors[i]; i++)
        assert_ok(safetensors_put(w, &(float){first + (float)i}, 1));
    assert_ok(safetensors_commit(w));
    free(path);
}

static void torch_write(const char *folder, const char *name, const char *tensor, float value) {
    const struct view view = {tensor, "FloatStorage", "0", 1, 0, 1, {1}, {1}};
    struct zip_writer w = {0};
    struct bytes pickle = {0};
    put_state_dict(&pickle, &view, 1);
    zip_add(&w, "m/data.pkl", pickle.at, pickle.size);
    zip_add(&w, "m/data/0", &value, sizeof value);
    struct bytes bytes = zip_end(&w);
    char *path = path_join(folder, name);
    assert_ok(file_replace(path, bytes.at, bytes.size));
    free(path);
    bytes_release(&bytes);
    bytes_release(&pickle);
}

static float value_of(const struct weight_files *files, const char *name) {
    const struct tensor *tensor = weight_files_find(files, name);
    float value;
    if (!tensor)
        fail_msg("%s is not there", name);
    tensor_floats(&value, tensor, 0, 1);
    return value;
}

// What the folder's weights say `a` is, and the end of the path that messages name.
static void form_check(const char *folder, float a, const char *end, bool torch) {
    struct weight_files files;
    assert_ok(weight_files_open(&files, folder));
    assert_true(value_of(&files, "a") == a);
    assert_string_equal(strrchr(files.path, '/') + 1, end);
    assert_int_equal(files.torch, torch);
    assert_null(weight_files_find(&files, "z"));
    weight_files_close(&files);
}

static void removed(const char *folder, const char *name) {
    char *path = path_join(folder, name);
    assert_ok(file_remove(path));
    free(path);
}

// The four forms in order of preference: each is taken when those before it are gone.
static void test_preference(void **state) {
    (void)state;
    char *folder = support_folder();
    struct weight_files files;
    safetensors_write(folder, "model.safetensors", (const char *[]){"a", NULL}, 1);
    safetensors_write(folder, "s1.safetensors", (const char *[]){"a", NULL}, 2);
    text_write(folder, "model.safetensors.index.json", "{\"weight_map\": {\"a\": \"s1.safetensors\"}}");
    torch_write(folder, "pytorch_model.bin", "a", 3);
    torch_write(folder, "s1.bin", "a", 4);
    text_write(folder, "pytorch_model.bin.index.json", "{\"weight_map\": {\"a\": \"s1.bin\"}}");
    form_check(folder, 1, "model.safetensors", false);
    removed(folder, "model.safetensors");
    form_check(folder, 2, "model.safetensors.index.json", false);
    removed(folder, "model.safetensors.index.json");
    form_check(folder, 3, "pytorch_model.bin", true);
    removed(folder, "pytorch_model.bin");
    form_check(folder, 4, "pytorch_model.bin.index.json", true);
    removed(folder, "pytorch_model.bin.index.json");
    assert_status(weight_files_open(&files, folder), STATUS_DATA);
    assert_non_null(strstr(status_message(), "none of model.safetensors, pytorch_model.bin"));
    // a link that leads nowhere is said, not passed over
    torch_write(folder, "pytorch_model.bin", "a", 3);
    char *link = path_join(folder, "model.safetensors");
    assert_int_equal(symlink("gone", link), 0);
    assert_status(weight_files_open(&files, folder), STATUS_DATA);
    assert_non_null(strstr(status_message(), "model.safetensors"));
    assert_ok(file_remove(folder));
    free(link);
    free(folder);
}

static void test_shards(void **state) {
    (void)state;
    char *folder = support_folder(), *path = path_join(folder, "model.safetensors.index.json");
    struct weight_files files;
    safetensors_write(folder, "x2.safetensors", (const char *[]){"c", "a", NULL}, 1);
    safetensors_write(folder, "x1.safetensors", (const char *[]){"b", NULL}, 5);
    text_write(folder, "model.safetensors.index.json",
               "{\"metadata\": {\"total_size\": 12}, \"weight_map\": {\"a\": \"x2.safetensors\", \"b\": "
               "\"x1.safetensors\", \"c\": \"x2.safetensors\"}}");
    assert_ok(weight_files_open(&files, folder));
    assert_true(files.n == 3 && files.n_parts == 2 && files.is_index);
    assert_true(value_of(&files, "a") == 2 && value_of(&files, "b") == 5 && value_of(&files, "c") == 1);
    weight_files_close(&files);
    assert_ok(weight_files_open_path(&files, path));
    assert_int_equal(files.n, 3);
    weight_files_close(&files);
    assert_int_equal(chdir(folder), 0); // a path without a folder
    assert_ok(weight_files_open_path(&files, "model.safetensors.index.json"));
    assert_int_equal(files.n, 3);
    weight_files_close(&files);
    assert_int_equal(chdir("/"), 0);
    assert_ok(file_remove(folder));
    free(path);
    free(folder);
}

static void index_refused(const char *folder, const char *index, const char *one, const char *two) {
    struct weight_files files;
    text_write(folder, "model.safetensors.index.json", index);
    assert_status(weight_files_open(&files, folder), STATUS_DATA);
    assert_null(files.parts);
    if (!strstr(status_message(), one) || !strstr(status_message(), two))
        fail_msg("\"%s\" does not say \"%s\" and \"%s\"", status_message(), one, two);
}

static void test_index(void **state) {
    (void)state;
    char *folder = support_folder(), *outside = path_join(folder, "outside"), text[PATH_MAX + 64];
    assert_int_equal(mkdir(outside, 0700), 0);
    safetensors_write(outside, "x.safetensors", (const char *[]){"a", NULL}, 1);
    safetensors_write(folder, "x.safetensors", (const char *[]){"a", "b", NULL}, 1);
    const char *end = "model.safetensors.index.json";
    index_refused(folder, "{", end, ":1:");
    index_refused(folder, "[]", end, "weight_map");
    index_refused(folder, "{\"weight_map\": {}}", end, "weight_map");
    index_refused(folder, "{\"weight_map\": {\"a\": 1}}", "tensor a", "is not the name of a file");
    index_refused(folder, "{\"weight_map\": {\"a\": \"\"}}", "tensor a", "is not the name of a file");
    index_refused(folder, "{\"weight_map\": {\"a\": \"..\"}}", "tensor a", "..");
    index_refused(folder, "{\"weight_map\": {\"a\": \"outside/x.safetensors\"}}", "tensor a", "outside/x.safetensors");
    snprintf(text, sizeof text, "{\"weight_map\": {\"a\": \"%s/x.safetensors\"}}", outside);
    index_refused(folder, text, "tensor a", "is not the name of a file");
    index_refused(folder, "{\"weight_map\": {\"a\": \"y.safetensors\"}}", "y.safetensors", "");
    index_refused(folder, "{\"weight_map\": {\"a\": \"x.safetensors\"}}", "tensor b", "no file");
    index_refused(folder,
                  "{\"weight_map\": {\"a\": \"x.safetensors\", \"b\": \"x.safetensors\", \"c\": \"x.safetensors\"}}",
                  "tensor c", "not in x.safetensors");
    safetensors_write(folder, "y.safetensors", (const char *[]){"c", NULL}, 1);
    index_refused(folder,
                  "{\"weight_map\": {\"a\": \"x.safetensors\", \"b\": \"y.safetensors\", \"c\": \"y.safetensors\"}}",
                  "tensor b", "places it in y.safetensors");
    torch_write(folder, "z.bin", "b", 1); // a shard is of the index's own form
    index_refused(folder, "{\"weight_map\": {\"b\": \"z.bin\"}}", "z.bin", "its header says");
    assert_ok(file_remove(folder));
    free(outside);
    free(folder);
}

static void hash_of(char out[33], const char *folder) {
    struct weight_files files;
    struct hash_stream *hash;
    assert_ok(hash_begin(&hash));
    assert_ok(weight_files_open(&files, folder));
    weight_files_hash(&files, hash);
    hash_end(hash, out);
    weight_files_close(&files);
}

// Of a single file: its bytes and nothing else, as checkpoints of before record it. Of shards: every byte of each.
static void test_hash(void **state) {
    (void)state;
    char *folder = support_folder(), *path = path_join(folder, "model.safetensors"), *bytes, one[33], two[33];
    struct hash_stream *hash;
    size_t size;
    safetensors_write(folder, "model.safetensors", (const char *[]){"a", NULL}, 1);
    hash_of(one, folder);
    assert_ok(hash_begin(&hash));
    assert_ok(file_read(&bytes, &size, path, 1 << 20));
    hash_add(hash, bytes, size);
    hash_end(hash, two);
    assert_string_equal(one, two);
    free(bytes);
    removed(folder, "model.safetensors");
    text_write(folder, "model.safetensors.index.json",
               "{\"weight_map\": {\"a\": \"1.safetensors\", \"b\": \"2.safetensors\"}}");
    safetensors_write(folder, "1.safetensors", (const char *[]){"a", NULL}, 1);
    safetensors_write(folder, "2.safetensors", (const char *[]){"b", NULL}, 2);
    hash_of(one, folder);
    text_write(folder, "model.safetensors.index.json", // the same in another order
               "{\"weight_map\": {\"b\": \"2.safetensors\", \"a\": \"1.safetensors\"}, \"metadata\": {}}");
    hash_of(two, folder);
    assert_string_equal(one, two);
    safetensors_write(folder, "2.safetensors", (const char *[]){"b", NULL}, 3);
    hash_of(two, folder);
    assert_string_not_equal(one, two);
    assert_ok(file_remove(folder));
    free(path);
    free(folder);
}

static void test_names(void **state) {
    (void)state;
    assert_true(weight_files_is("m/model.safetensors") && weight_files_is("pytorch_model.bin") &&
                weight_files_is("x.safetensors.index.json") && weight_files_is("x.bin.index.json"));
    assert_false(weight_files_is("m/config.json") || weight_files_is("index.json") || weight_files_is("a.h5"));
    struct weight_files files;
    assert_status(weight_files_open_path(&files, "a.h5"), STATUS_DATA);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_preference), cmocka_unit_test(test_shards), cmocka_unit_test(test_index),
        cmocka_unit_test(test_hash),       cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
