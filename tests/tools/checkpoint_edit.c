// SPDX-License-Identifier: Apache-2.0
// checkpoint_edit FOLDER [name=value …]: writes attributes of /trainer and makes the manifest anew, so that tests get
// checkpoints that would take days to train or another version to write. `name=` alone removes the attribute; `format`
// is the manifest's too. The manifest's step follows the attribute.
#include "base/file.h"
#include "base/hash.h"
#include "checkpoints/h5.h"
#include "checkpoints/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status edit_attribute(hid_t group, const char *name, const char *value) {
    if (!*value)
        return H5Adelete(group, name) < 0 ? status_set(STATUS_DATA, "no attribute %s", name) : STATUS_OK;
    hid_t id = H5Aopen(group, name, H5P_DEFAULT), type = id < 0 ? id : H5Aget_type(id);
    uint64_t integer = strtoull(value, NULL, 10);
    double real = strtod(value, NULL);
    herr_t done = id < 0                              ? -1
                  : H5Tget_class(type) == H5T_FLOAT   ? H5Awrite(id, H5T_NATIVE_DOUBLE, &real)
                  : H5Tget_class(type) == H5T_INTEGER ? H5Awrite(id, H5T_NATIVE_UINT64, &integer)
                                                      : H5Awrite(id, type, &value);
    H5Tclose(type);
    H5Aclose(id);
    return done < 0 ? status_set(STATUS_DATA, "attribute %s can't be written", name) : STATUS_OK;
}

static enum status edit_file(const char *path, char **pairs) {
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    hid_t group = file < 0 ? file : H5Gopen2(file, "/trainer", H5P_DEFAULT);
    enum status status = group < 0 ? status_set(STATUS_DATA, "%s can't be opened", path) : STATUS_OK;
    for (; *pairs && status == STATUS_OK; pairs++) {
        char *value = strchr(*pairs, '=');
        char *name = value ? strndup(*pairs, (size_t)(value - *pairs)) : NULL;
        status = name ? edit_attribute(group, name, value + 1) : status_set(STATUS_USAGE, "%s: no name=value", *pairs);
        free(name);
    }
    H5Gclose(group);
    return H5Fclose(file) < 0 && status == STATUS_OK ? status_set(STATUS_IO, "%s can't be closed", path) : status;
}

static const char *edit_value(char **pairs, const char *name) {
    for (size_t size = strlen(name); *pairs; pairs++)
        if (strncmp(*pairs, name, size) == 0 && (*pairs)[size] == '=')
            return *pairs + size + 1;
    return NULL;
}

static enum status edit_hashes(struct manifest *manifest, const char *path) {
    char *bytes;
    size_t size;
    TRY(file_read(&bytes, &size, path, (size_t)1 << 30));
    enum status status =
        size == manifest->size ? STATUS_OK : status_set(STATUS_DATA, "%s: its size is another now", path);
    for (size_t i = 0; i < manifest->n_pieces && status == STATUS_OK; i++)
        manifest->pieces[i].hash = hash64(bytes + manifest->pieces[i].offset, manifest->pieces[i].size);
    free(bytes);
    return status;
}

// Numbers of one digit: the text keeps its size.
static void edit_format(char *bytes, const char *format) {
    char *at = strstr(bytes, "\"format\": "), *check = strstr(bytes, "\"check\": \""), digits[17];
    at[10] = *format;
    snprintf(digits, sizeof digits, "%016" PRIx64, hash64(bytes, (size_t)(check - bytes)));
    memcpy(check + 10, digits, 16);
}

static enum status edit_manifest(const char *folder, const char *file, char **pairs) {
    struct manifest manifest;
    const char *step = edit_value(pairs, "step"), *format = edit_value(pairs, "format");
    char *bytes = NULL, *path = path_join(folder, MANIFEST_NAME);
    size_t size;
    enum status status;
    TRY_GOTO(manifest_read(&manifest, folder), done);
    TRY_GOTO(edit_hashes(&manifest, file), done);
    manifest.step = step ? strtoull(step, NULL, 10) : manifest.step;
    TRY_GOTO(manifest_format(&bytes, &size, &manifest), done);
    if (format && *format)
        edit_format(bytes, format);
    status = file_replace(path, bytes, size);
done:
    manifest_release(&manifest);
    free(bytes);
    free(path);
    return status;
}

int main(int argc, char **argv) {
    setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1);
    char *file = argc > 1 ? path_join(argv[1], MANIFEST_FILE) : NULL;
    enum status status = file ? edit_file(file, argv + 2) : status_set(STATUS_USAGE, "which checkpoint?");
    if (status == STATUS_OK)
        status = edit_manifest(argv[1], file, argv + 2);
    if (status != STATUS_OK)
        fprintf(stderr, "checkpoint_edit: %s\n", status_message());
    free(file);
    return status_exit_code(status);
}
