// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/layout.h"

#include "base/text.h"
#include "checkpoints/attributes.h"
#include "checkpoints/h5.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *const layout_groups[LAYOUT_GROUPS] = {"/model", "/optimizer/exp_avg", "/optimizer/exp_avg_sq"};

char *layout_name(const struct param_table *table, size_t d) {
    return text_format("%s/%s", layout_groups[d / table->n], table->at[d % table->n].name);
}

// ---- creating

// Space allocated at once, nothing written into it, no times: the ranks write the data themselves.
static hid_t layout_creation(void) {
    hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_layout(creation, H5D_CONTIGUOUS);
    H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER);
    H5Pset_obj_track_times(creation, false);
    return creation;
}

static enum status layout_create_dataset(uint64_t *offset, hid_t group, hid_t creation, const struct param *param) {
    hsize_t shape[2] = {param->shape[0], param->shape[1]};
    hid_t space = H5Screate_simple((int)param->rank, shape, NULL);
    hid_t id = H5Dcreate2(group, param->name, H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    enum status status = STATUS_OK;
    haddr_t at = id >= 0 ? H5Dget_offset(id) : HADDR_UNDEF;
    if (at == HADDR_UNDEF)
        status = h5_error(STATUS_SYSTEM, "checkpoint: dataset %s", param->name);
    *offset = (uint64_t)at;
    if (id >= 0 && H5Dclose(id) < 0 && status == STATUS_OK)
        status = h5_error(STATUS_SYSTEM, "checkpoint: dataset %s", param->name);
    H5Sclose(space);
    return status;
}

static enum status layout_create_datasets(uint64_t *offsets, hid_t file, const struct param_table *table) {
    hid_t creation = layout_creation();
    enum status status = STATUS_OK;
    for (size_t g = 0; g < LAYOUT_GROUPS && status == STATUS_OK; g++) {
        hid_t group = H5Gcreate2(file, layout_groups[g], H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        if (group < 0)
            status = h5_error(STATUS_SYSTEM, "checkpoint: group %s", layout_groups[g]);
        for (size_t i = 0; i < table->n && status == STATUS_OK; i++)
            status = layout_create_dataset(&offsets[g * table->n + i], group, creation, &table->at[i]);
        if (group >= 0)
            H5Gclose(group);
    }
    H5Pclose(creation);
    return status;
}

static enum status layout_create_group(hid_t *out, hid_t file, const char *name) {
    *out = H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    return *out < 0 ? h5_error(STATUS_SYSTEM, "checkpoint: group %s", name) : STATUS_OK;
}

static enum status layout_create_all(uint64_t *offsets, hid_t file, const struct param_table *table,
                                     const struct trainer_state *state) {
    hid_t group;
    TRY(layout_create_group(&group, file, "/trainer"));
    enum status status = attributes_write(group, state);
    H5Gclose(group);
    TRY(status);
    TRY(layout_create_group(&group, file, "/optimizer"));
    H5Gclose(group);
    return layout_create_datasets(offsets, file, table);
}

enum status layout_create(uint64_t *offsets, struct store *store, const struct param_table *table,
                          const struct trainer_state *state) {
    h5_start();
    enum status status = STATUS_OK;
    hid_t access = store_access(store);
    H5Pset_alignment(access, LAYOUT_ALIGN_FROM, LAYOUT_ALIGN);
    H5Pset_meta_block_size(access, LAYOUT_META);
    hid_t file = H5Fcreate(MANIFEST_FILE, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    if (file < 0)
        status = h5_error(STATUS_SYSTEM, "create " MANIFEST_FILE " in memory");
    else
        status = layout_create_all(offsets, file, table, state);
    if (file >= 0 && H5Fclose(file) < 0 && status == STATUS_OK)
        status = h5_error(STATUS_SYSTEM, "close " MANIFEST_FILE " in memory");
    if (access >= 0)
        H5Pclose(access);
    return status;
}

// ---- checking

struct layout_shape {
    int rank;
    hsize_t at[2];
    char text[64]; // "[768, 768]"
};

static void layout_shape_print(struct layout_shape *shape) {
    if (shape->rank == 1)
        snprintf(shape->text, sizeof shape->text, "[%" PRIu64 "]", (uint64_t)shape->at[0]);
    else
        snprintf(shape->text, sizeof shape->text, "[%" PRIu64 ", %" PRIu64 "]", (uint64_t)shape->at[0],
                 (uint64_t)shape->at[1]);
}

static struct layout_shape layout_shape_param(const struct param *param) {
    struct layout_shape shape = {.rank = (int)param->rank, .at = {param->shape[0], param->shape[1]}};
    layout_shape_print(&shape);
    return shape;
}

static bool layout_shape_read(struct layout_shape *shape, hid_t id) {
    hid_t space = H5Dget_space(id);
    shape->rank = space >= 0 && H5Sis_simple(space) > 0 ? H5Sget_simple_extent_ndims(space) : 0;
    bool right = (shape->rank == 1 || shape->rank == 2) && H5Sget_simple_extent_dims(space, shape->at, NULL) >= 0;
    if (space >= 0)
        H5Sclose(space);
    if (right)
        layout_shape_print(shape);
    return right;
}

// Contiguous, in this file, float32 little-endian.
static bool layout_is_plain(hid_t id) {
    hid_t type = H5Dget_type(id);
    hid_t creation = H5Dget_create_plist(id);
    bool plain = type >= 0 && creation >= 0 && H5Tequal(type, H5T_IEEE_F32LE) > 0 &&
                 H5Pget_layout(creation) == H5D_CONTIGUOUS && H5Pget_external_count(creation) == 0;
    if (creation >= 0)
        H5Pclose(creation);
    if (type >= 0)
        H5Tclose(type);
    return plain;
}

static enum status layout_check_open(struct layout_shape *shape, hid_t id, const struct manifest_dataset *dataset,
                                     const char *path) {
    if (!layout_is_plain(id) || !layout_shape_read(shape, id))
        return status_set(STATUS_DATA, "%s: %s is not a contiguous float32 dataset of one or two dimensions", path,
                          dataset->name);
    uint64_t rows = shape->at[0], columns = shape->rank == 2 ? shape->at[1] : 1;
    if (H5Dget_offset(id) != dataset->offset || columns == 0 || rows > UINT64_MAX / 4 / columns ||
        rows * columns * 4 != dataset->size)
        return status_set(STATUS_DATA, "%s: %s %s is not at the place that " MANIFEST_NAME " gives", path,
                          dataset->name, shape->text);
    return STATUS_OK;
}

static enum status layout_check_dataset(struct layout_shape *shape, hid_t file, const struct manifest_dataset *dataset,
                                        const char *path) {
    hid_t id = h5_dataset(file, dataset->name);
    if (id < 0)
        return status_set(STATUS_DATA, "%s: dataset %s is missing", path, dataset->name);
    enum status status = layout_check_open(shape, id, dataset, path);
    H5Dclose(id);
    return status;
}

// Which group of ours a dataset's name is in; LAYOUT_GROUPS if in none.
static size_t layout_group_of(const char *name) {
    for (size_t g = 0; g < LAYOUT_GROUPS; g++) {
        size_t size = strlen(layout_groups[g]);
        if (strncmp(name, layout_groups[g], size) == 0 && name[size] == '/' && name[size + 1] &&
            !strchr(name + size + 1, '/'))
            return g;
    }
    return LAYOUT_GROUPS;
}

// The groups exist, are no links elsewhere, and hold as many objects as the manifest names.
static enum status layout_check_groups(hid_t file, const struct manifest *manifest, const char *path) {
    size_t wanted[LAYOUT_GROUPS + 1] = {0};
    for (size_t i = 0; i < manifest->n_datasets; i++)
        wanted[layout_group_of(manifest->datasets[i].name)]++;
    if (wanted[LAYOUT_GROUPS])
        return status_set(STATUS_DATA, "%s: " MANIFEST_NAME " names a dataset that is in none of our groups", path);
    if (!h5_is_hard(file, "/optimizer"))
        return status_set(STATUS_DATA, "%s: group /optimizer is missing", path);
    for (size_t g = 0; g < LAYOUT_GROUPS; g++) {
        H5G_info_t info = {0};
        hid_t group = h5_group(file, layout_groups[g]);
        bool there = group >= 0 && H5Gget_info(group, &info) >= 0;
        if (group >= 0)
            H5Gclose(group);
        if (!there || info.nlinks != wanted[g])
            return status_set(STATUS_DATA, "%s: group %s holds %" PRIu64 " objects, " MANIFEST_NAME " names %zu", path,
                              layout_groups[g], there ? (uint64_t)info.nlinks : 0, wanted[g]);
    }
    return STATUS_OK;
}

static enum status layout_check_param(hid_t file, const struct manifest *manifest, const struct param_table *table,
                                      size_t d, const char *path) {
    struct layout_shape shape, wanted = layout_shape_param(&table->at[d % table->n]);
    char *name = layout_name(table, d);
    if (!name)
        return status_set(STATUS_SYSTEM, "%s: no memory", path);
    const struct manifest_dataset *dataset = manifest_find(manifest, name);
    enum status status = STATUS_OK;
    if (!dataset)
        status = status_set(STATUS_DATA, "%s is of another model: %s is not in it, the model has it as %s", path, name,
                            wanted.text);
    else
        status = layout_check_dataset(&shape, file, dataset, path);
    if (status == STATUS_OK &&
        (shape.rank != wanted.rank || shape.at[0] != wanted.at[0] || (shape.rank == 2 && shape.at[1] != wanted.at[1])))
        status = status_set(STATUS_DATA, "%s is of another model: %s is %s in it, %s in the model", path, name,
                            shape.text, wanted.text);
    free(name);
    return status;
}

// A dataset that the table lacks, named. Called when the manifest has more than the table.
static enum status layout_check_extra(hid_t file, const struct manifest *manifest, const struct param_table *table,
                                      const char *path) {
    for (size_t i = 0; i < manifest->n_datasets; i++) {
        const struct manifest_dataset *dataset = &manifest->datasets[i];
        const char *tensor = dataset->name + strlen(layout_groups[layout_group_of(dataset->name)]) + 1;
        struct layout_shape shape;
        if (param_find(table, tensor))
            continue;
        TRY(layout_check_dataset(&shape, file, dataset, path));
        return status_set(STATUS_DATA, "%s is of another model: %s is %s in it, the model has none of that name", path,
                          dataset->name, shape.text);
    }
    return status_set(STATUS_DATA, "%s: " MANIFEST_NAME " names a dataset twice", path);
}

static enum status layout_check_table(hid_t file, const struct manifest *manifest, const struct param_table *table,
                                      const char *path) {
    for (size_t d = 0; d < LAYOUT_GROUPS * table->n; d++)
        TRY(layout_check_param(file, manifest, table, d, path));
    if (manifest->n_datasets != LAYOUT_GROUPS * table->n)
        return layout_check_extra(file, manifest, table, path);
    return STATUS_OK;
}

static enum status layout_check_state(struct trainer_state *state, hid_t file, const struct manifest *manifest,
                                      const char *path) {
    hid_t group = h5_group(file, "/trainer");
    if (group < 0)
        return status_set(STATUS_DATA, "%s: group /trainer is missing", path);
    enum status status = attributes_read(state, group, path);
    H5Gclose(group);
    if (status == STATUS_OK && state->step != manifest->step) {
        status = status_set(STATUS_DATA, "%s is of step %" PRIu64 ", " MANIFEST_NAME " of step %" PRIu64, path,
                            state->step, manifest->step);
        trainer_state_release(state);
    }
    return status;
}

static enum status layout_check_file(struct trainer_state *state, hid_t file, const struct manifest *manifest,
                                     const struct param_table *table, const char *path) {
    TRY(layout_check_state(state, file, manifest, path));
    TRY(layout_check_groups(file, manifest, path));
    if (table)
        return layout_check_table(file, manifest, table, path);
    for (size_t i = 0; i < manifest->n_datasets; i++) {
        struct layout_shape shape;
        TRY(layout_check_dataset(&shape, file, &manifest->datasets[i], path));
    }
    return STATUS_OK;
}

static enum status layout_open(hid_t *out, const char *path) {
    h5_start();
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);
    *out = H5Fopen(path, H5F_ACC_RDONLY, access);
    enum status status = *out < 0 ? h5_error(STATUS_DATA, "open %s", path) : STATUS_OK;
    H5Pclose(access);
    return h5_blame(status, path);
}

enum status layout_check(struct trainer_state *state, const char *path, const struct manifest *manifest,
                         const struct param_table *table) {
    hid_t file;
    struct trainer_state found = {0};
    TRY(layout_open(&file, path));
    enum status status = h5_blame(layout_check_file(&found, file, manifest, table, path), path);
    H5Fclose(file);
    if (status == STATUS_OK && state)
        *state = found;
    else
        trainer_state_release(&found);
    return status;
}

static enum status layout_shapes_read(json_t *out, hid_t file, const struct manifest *manifest, const char *path) {
    for (size_t i = 0; i < manifest->n_datasets; i++) {
        const struct manifest_dataset *dataset = &manifest->datasets[i];
        struct layout_shape shape;
        if (layout_group_of(dataset->name) != 0)
            continue;
        TRY(layout_check_dataset(&shape, file, dataset, path));
        json_t *value = json_array();
        for (int k = 0; k < shape.rank; k++)
            json_array_append_new(value, json_integer((json_int_t)shape.at[k]));
        json_object_set_new(out, dataset->name + strlen(layout_groups[0]) + 1, value);
    }
    return STATUS_OK;
}

enum status layout_shapes(json_t **out, const char *path, const struct manifest *manifest) {
    hid_t file;
    *out = NULL;
    TRY(layout_open(&file, path));
    json_t *shapes = json_object();
    enum status status = h5_blame(layout_shapes_read(shapes, file, manifest, path), path);
    H5Fclose(file);
    if (status == STATUS_OK)
        *out = shapes;
    else
        json_decref(shapes);
    return status;
}
