// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/commit.h"

#include "base/file.h"
#include "base/log.h"
#include "checkpoints/layout.h"
#include "checkpoints/manifest.h"
#include "checkpoints/reader.h"
#include "checkpoints/steps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- the manifest of what was written

static enum status commit_datasets(struct manifest *manifest, const struct param_table *table,
                                   const struct pieces *pieces, size_t n_rest) {
    manifest->n_datasets = LAYOUT_GROUPS * table->n;
    manifest->datasets = calloc(manifest->n_datasets + 1, sizeof *manifest->datasets);
    manifest->pieces = calloc(pieces->n + n_rest + 1, sizeof *manifest->pieces);
    if (!manifest->datasets || !manifest->pieces) {
        manifest->n_datasets = 0;
        return status_set(STATUS_SYSTEM, "checkpoint: no memory for the manifest of %zu pieces", pieces->n);
    }
    for (size_t d = 0; d < manifest->n_datasets; d++) {
        manifest->datasets[d].piece = piece_bytes(&table->at[d % table->n]);
        manifest->datasets[d].name = layout_name(table, d);
        if (!manifest->datasets[d].name)
            return status_set(STATUS_SYSTEM, "checkpoint: no memory for the manifest");
    }
    for (size_t i = 0; i < pieces->n; i++) {
        const struct piece *piece = &pieces->at[i];
        struct manifest_dataset *dataset = &manifest->datasets[piece->dataset];
        if (piece->row == 0)
            dataset->offset = piece->offset;
        dataset->size += piece->size;
        manifest->pieces[manifest->n_pieces++] =
            (struct manifest_piece){piece->offset, piece->size, piece->hash, piece->dataset};
    }
    return STATUS_OK;
}

static int commit_piece_order(const void *a, const void *b) {
    const struct manifest_piece *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

// All pieces, the tensors' and HDF5's own, in the file's order.
static void commit_rest(struct manifest *manifest, const struct rest *rest) {
    memcpy(manifest->pieces + manifest->n_pieces, rest->at, rest->n * sizeof *rest->at);
    manifest->n_pieces += rest->n;
    manifest->size = rest->size;
    qsort(manifest->pieces, manifest->n_pieces, sizeof *manifest->pieces, commit_piece_order);
}

// The newest older checkpoint of this folder: what this one goes on from.
static void commit_parent(struct manifest *manifest, const char *dir) {
    struct steps steps;
    if (steps_list(&steps, dir) != STATUS_OK)
        return;
    for (size_t i = steps.n; i-- > 0 && !manifest->parent[0];) {
        char *path = steps.at[i] < manifest->step ? step_path(dir, steps.at[i]) : NULL;
        if (path && reader_glance(path) == STATUS_OK)
            step_name(manifest->parent, steps.at[i]);
        free(path);
    }
    steps_release(&steps);
}

static enum status commit_manifest_write(const struct manifest *manifest, const char *folder) {
    char *bytes = NULL, *name = path_join(folder, MANIFEST_NAME);
    size_t size = 0;
    enum status status =
        name ? manifest_format(&bytes, &size, manifest) : status_set(STATUS_SYSTEM, "checkpoint %s: no memory", folder);
    if (status == STATUS_OK && size > MANIFEST_MAX)
        status = status_set(STATUS_SYSTEM, "checkpoint %s: a manifest of %zu bytes is too large", folder, size);
    if (status == STATUS_OK)
        status = file_replace(name, bytes, size); // fsyncs the file and the folder
    free(bytes);
    free(name);
    return status;
}

static enum status commit_manifest(const char *folder, const char *dir, const struct param_table *table,
                                   const struct pieces *pieces, const struct rest *rest,
                                   const struct trainer_state *state) {
    struct manifest manifest = {.step = state->step};
    memcpy(manifest.run_id, state->run_id, sizeof manifest.run_id);
    manifest.run_id[sizeof manifest.run_id - 1] = '\0';
    enum status status = commit_datasets(&manifest, table, pieces, rest->n);
    if (status == STATUS_OK) {
        commit_rest(&manifest, rest);
        commit_parent(&manifest, dir);
        status = commit_manifest_write(&manifest, folder);
    }
    manifest_release(&manifest);
    return status;
}

// ---- the rename

// Whether `path` is a checkpoint that the same run wrote: then it may be replaced.
static bool commit_is_own(const char *path, const struct trainer_state *state) {
    struct manifest manifest;
    if (manifest_read(&manifest, path) != STATUS_OK)
        return false;
    bool own = state->run_id[0] && strcmp(manifest.run_id, state->run_id) == 0;
    manifest_release(&manifest);
    return own;
}

// The same run saves a step again (an evaluation at a step that was saved before it): the two folders change places at
// once where the file system can do that, so that there is no moment without a good one.
static bool commit_exchange(const char *folder, const char *path) {
    return renameat2(AT_FDCWD, folder, AT_FDCWD, path, RENAME_EXCHANGE) == 0;
}

static void commit_warn(enum status status) {
    if (status != STATUS_OK)
        log_warn("checkpoint: %s (the checkpoint itself is good)", status_message());
}

// Puts it in place; what was set aside for it comes back if that fails.
static enum status commit_place(const char *folder, const char *path, const char *aside) {
    if (rename(folder, path) == 0)
        return STATUS_OK;
    enum status status = status_errno(STATUS_IO, "rename %s to %s", folder, path);
    if (aside && rename(aside, path) != 0)
        log_warn("checkpoint: %s stays at %s", path, aside);
    return status;
}

// Another that the same run wrote stood there and is now at `left`.
static void commit_replaced(const char *left, struct removal *removal) {
    char *path = strdup(left);
    if (path)
        removal_add(removal, path);
    else
        commit_warn(file_remove(left));
}

static enum status commit_rename(const char *folder, const char *path, const struct checkpoint_dir *dir,
                                 const struct trainer_state *state, struct removal *removal) {
    struct stat info;
    char *aside = NULL;
    bool there = lstat(path, &info) == 0;
    bool own = there && commit_is_own(path, state);
    bool exchanged = own && commit_exchange(folder, path);
    enum status status = STATUS_OK;
    if (there && !exchanged)
        TRY(step_aside(&aside, dir->path, state->step));
    if (aside && !own)
        log_warn("checkpoint: %s was in the way and is now %s", path, aside);
    if (!exchanged)
        status = commit_place(folder, path, aside);
    if (status == STATUS_OK)
        status = file_sync_folder(dir->path);
    if (status == STATUS_OK && own)
        commit_replaced(exchanged ? folder : aside, removal);
    free(aside);
    return status;
}

enum status commit_held(const struct checkpoint_dir *dir) {
    TRY(owner_check(dir->owners[0]));
    return owner_check(dir->owners[1]);
}

enum status commit_folder(const char *folder, const struct checkpoint_dir *dir, const struct param_table *table,
                          const struct pieces *pieces, const struct rest *rest, const struct trainer_state *state,
                          struct removal *removal) {
    TRY(commit_manifest(folder, dir->path, table, pieces, rest, state));
    TRY(commit_held(dir));
    char *path = step_path(dir->path, state->step);
    enum status status = path ? commit_rename(folder, path, dir, state, removal)
                              : status_set(STATUS_SYSTEM, "checkpoint %s: no memory", folder);
    free(path);
    return status;
}

// ---- afterwards

static void commit_remove(const struct checkpoint_dir *dir, uint64_t step, struct removal *removal) {
    char *temporary;
    commit_warn(step_remove(&temporary, dir->path, step));
    if (temporary)
        removal_add(removal, temporary);
}

// Walks from the newest, which was just written: keeps `keep` good ones, and the best, and leaves alone what is no
// checkpoint.
static void commit_retain(const struct checkpoint_dir *dir, const struct trainer_state *state,
                          const struct steps *steps, struct removal *removal) {
    uint32_t kept = 0, keep = dir->keep ? dir->keep : 1;
    for (size_t i = steps->n; i-- > 0;) {
        uint64_t step = steps->at[i];
        if (step > state->step)
            continue; // not of this branch; the start of a run sees to them
        char *path = step_path(dir->path, step);
        bool good = step == state->step || (path && reader_glance(path) == STATUS_OK);
        free(path);
        if (!good)
            continue;
        if (kept < keep)
            kept++;
        else if (!state->best_step || step != state->best_step)
            commit_remove(dir, step, removal);
    }
}

void commit_tidy(const struct checkpoint_dir *dir, const struct trainer_state *state, struct removal *removal) {
    struct steps steps;
    commit_warn(step_link(dir->path, "latest", state->step));
    if (state->best_step && state->best_step == state->step)
        commit_warn(step_link(dir->path, "best", state->step));
    enum status status = steps_list(&steps, dir->path);
    commit_warn(status);
    if (status == STATUS_OK)
        commit_retain(dir, state, &steps, removal);
    steps_release(&steps);
}

enum status checkpoint_retain(const struct checkpoint_dir *dir, const struct trainer_state *state) {
    struct steps steps;
    struct removal removal = {0};
    TRY(steps_list(&steps, dir->path));
    commit_retain(dir, state, &steps, &removal);
    for (size_t i = 0; i < removal.n; i++)
        log_info("removed %s, a checkpoint beyond checkpoints.keep that a start before left", removal.paths[i]);
    removal_begin(&removal);
    removal_end(&removal);
    steps_release(&steps);
    return STATUS_OK;
}
