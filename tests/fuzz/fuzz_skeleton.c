// SPDX-License-Identifier: Apache-2.0
// A checkpoint.h5 as one stretch of HDF5's own bytes. What the skeleton's check lets through, the library must read
// without a crash: attributes, groups and datasets, as layout.c asks for them.
#include "checkpoints/attributes.h"
#include "checkpoints/h5.h"
#include "checkpoints/layout.h"
#include "checkpoints/skeleton.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void attributes_of(hid_t file) {
    struct trainer_state state;
    hid_t group = h5_group(file, "/trainer");
    if (group < 0)
        return;
    if (attributes_read(&state, group, "fuzz") == STATUS_OK)
        trainer_state_release(&state);
    H5Gclose(group);
}

static void dataset_of(hid_t group, hsize_t i) {
    char name[256];
    hsize_t shape[2];
    if (H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name, H5P_DEFAULT) < 0)
        return;
    hid_t id = h5_dataset(group, name);
    if (id < 0)
        return;
    hid_t space = H5Dget_space(id), type = H5Dget_type(id), creation = H5Dget_create_plist(id);
    if (H5Sget_simple_extent_ndims(space) <= 2)
        H5Sget_simple_extent_dims(space, shape, NULL);
    H5Tequal(type, H5T_IEEE_F32LE);
    H5Dget_offset(id);
    H5Pclose(creation);
    H5Tclose(type);
    H5Sclose(space);
    H5Dclose(id);
}

static void group_of(hid_t file, const char *name) {
    H5G_info_t info;
    hid_t group = h5_group(file, name);
    if (group < 0)
        return;
    if (H5Gget_info(group, &info) >= 0)
        for (hsize_t i = 0; i < info.nlinks && i < 100; i++)
            dataset_of(group, i);
    H5Gclose(group);
}

static void library(const uint8_t *bytes, size_t size) {
    h5_start();
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_core(access, 1 << 16, false);
    H5Pset_file_image(access, (void *)(uintptr_t)bytes, size);
    hid_t file = H5Fopen("fuzz", H5F_ACC_RDONLY, access);
    H5Pclose(access);
    if (file < 0)
        return;
    attributes_of(file);
    for (size_t g = 0; g < LAYOUT_GROUPS; g++)
        group_of(file, layout_groups[g]);
    H5Fclose(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    struct skeleton_part part = {0, size, malloc(size + 1)};
    struct skeleton skeleton = {.path = "fuzz", .parts = &part, .n = 1, .file_size = size};
    memcpy(part.bytes, bytes, size);
    if (skeleton_check(&skeleton) == STATUS_OK)
        library(bytes, size);
    free(part.bytes);
    return 0;
}
