// SPDX-License-Identifier: Apache-2.0
// Saving: rank 0 lays the file out, every rank writes its pieces, rank 0 commits. Each phase ends in agreement.
#include "checkpoints/checkpoint.h"

#include "base/file.h"
#include "base/text.h"
#include "checkpoints/commit.h"
#include "checkpoints/layout.h"
#include "checkpoints/pieces.h"
#include "checkpoints/rest.h"
#include "checkpoints/steps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define SAVE_MESSAGE 1024

struct save {
    struct comm *comm;
    const struct checkpoint_dir *dir;
    const struct param_table *table;
    const struct checkpoint_arenas *arenas;
    const struct trainer_state *state;
    char *folder, *file; // <dir>/.tmp-step-…, its checkpoint.h5
    uint64_t *offsets;   // of the datasets
    struct pieces pieces;
    struct store store; // rank 0, as is `rest`
    struct rest rest;
    bool made; // rank 0: the folder is there
};

static double save_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static uint64_t save_bytes(const struct save *save) {
    return save->table->count * sizeof(float) * LAYOUT_GROUPS;
}

// For an I/O error: what was needed and where, before what went wrong.
static enum status save_error(const struct save *save, enum status status) {
    if (status != STATUS_IO)
        return status;
    return status_add(status,
                      "checkpoint of step %" PRIu64 " (%.1f MB needed in %s; checkpoints.dir names another folder)",
                      save->state->step, (double)save_bytes(save) / 1e6, save->dir->path);
}

// ---- begin: names and memory, on every rank

static enum status save_names(struct save *save) {
    uint64_t random = 0;
    char name[STEP_NAME];
    enum status status = STATUS_OK;
    if (save->comm->rank == 0 && getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        random = (uint64_t)getpid() << 32 ^ (uint64_t)time(NULL);
    TRY(comm_broadcast(save->comm, &random, sizeof random, 0));
    step_name(name, save->state->step);
    save->folder = text_format("%s/.tmp-%s-%016" PRIx64, save->dir->path, name, random);
    save->file = save->folder ? path_join(save->folder, MANIFEST_FILE) : NULL;
    save->offsets = calloc(LAYOUT_GROUPS * save->table->n + 1, sizeof *save->offsets);
    if (!save->file || !save->offsets)
        status = status_set(STATUS_SYSTEM, "checkpoint of step %" PRIu64 ": no memory", save->state->step);
    return comm_agree(save->comm, status);
}

// ---- create: the file with its space, by rank 0

// A full disk is told before anything is written where the file system says how much is free.
static enum status save_space(const struct save *save) {
    struct statvfs info;
    if (statvfs(save->dir->path, &info) != 0)
        return status_errno(STATUS_IO, "free space of %s", save->dir->path);
    uint64_t available = (uint64_t)info.f_bavail * info.f_frsize;
    if (available >= save_bytes(save))
        return STATUS_OK;
    return status_set(STATUS_IO, "%s: %s: %.1f MB free: free some space there, or choose another folder",
                      save->dir->path, strerror(ENOSPC), (double)available / 1e6);
}

// Takes the blocks now, so that no rank finds the disk full half-way. File systems that can't do it find out as they
// write.
static enum status save_reserve(const struct save *save, int fd) {
    off_t size = (off_t)save->rest.size;
    if (fallocate(fd, 0, 0, size) == 0)
        return STATUS_OK;
    if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)
        return status_errno(STATUS_IO, "allocate %jd bytes for %s", (intmax_t)size, save->file);
    return ftruncate(fd, size) == 0 ? STATUS_OK : status_errno(STATUS_IO, "truncate %s", save->file);
}

static enum status save_create(struct save *save) {
    TRY(file_make_folders(save->dir->path));
    TRY(save_space(save));
    if (mkdir(save->folder, 0777) != 0)
        return status_errno(STATUS_IO, "create folder %s", save->folder);
    save->made = true;
    return layout_create(save->offsets, &save->store, save->table, save->state);
}

// The others open the file after it was closed here: that is what NFS needs to show it to them.
static enum status save_create_file(struct save *save) {
    TRY(rest_plan(&save->rest, &save->store, &save->pieces));
    int fd = open(save->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return status_errno(STATUS_IO, "create %s", save->file);
    enum status status = save_reserve(save, fd);
    if (status == STATUS_OK)
        status = rest_write(&save->rest, &save->store, fd, save->file);
    if (close(fd) != 0 && status == STATUS_OK)
        status = status_errno(STATUS_IO, "close %s", save->file);
    store_release(&save->store);
    return status;
}

static enum status save_layout(struct save *save) {
    enum status status = save->comm->rank == 0 ? save_error(save, save_create(save)) : STATUS_OK;
    TRY(comm_agree(save->comm, status));
    TRY(comm_broadcast(save->comm, save->offsets, LAYOUT_GROUPS * save->table->n * sizeof *save->offsets, 0));
    status = pieces_plan(&save->pieces, save->table, save->offsets, save->comm->world);
    if (status == STATUS_OK && save->comm->rank == 0)
        status = save_error(save, save_create_file(save));
    return comm_agree(save->comm, status);
}

// ---- write: each rank its pieces

static enum status save_write_own(struct save *save) {
    int fd = open(save->file, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return status_errno(STATUS_IO, "open %s%s", save->file,
                            errno == ENOENT ? " (checkpoints.dir must be a folder that all hosts share)" : "");
    enum status status = pieces_write(&save->pieces, save->table, save->arenas, save->comm->rank, fd, save->file);
    if (status == STATUS_OK && fsync(fd) != 0)
        status = status_errno(STATUS_IO, "fsync %s", save->file);
    if (close(fd) != 0 && status == STATUS_OK)
        status = status_errno(STATUS_IO, "close %s", save->file);
    return status;
}

static enum status save_write(struct save *save) {
    TRY(comm_agree(save->comm, save_error(save, save_write_own(save))));
    return pieces_gather(&save->pieces, save->comm);
}

// ---- commit, by rank 0

static enum status save_commit(struct save *save) {
    enum status status = STATUS_OK;
    if (save->comm->rank == 0) {
        status = commit_folder(save->folder, save->dir, save->table, &save->pieces, &save->rest, save->state);
        if (status == STATUS_OK)
            commit_tidy(save->dir, save->state);
    }
    return comm_agree(save->comm, save_error(save, status));
}

static enum status save_result(struct checkpoint_saved *out, const struct save *save) {
    struct stat info;
    out->path = step_path(save->dir->path, save->state->step);
    char *file = out->path ? path_join(out->path, MANIFEST_FILE) : NULL;
    if (file && stat(file, &info) == 0)
        out->bytes = (uint64_t)info.st_size;
    free(file);
    return out->path ? STATUS_OK : status_set(STATUS_SYSTEM, "checkpoint: no memory");
}

static enum status save_phases(struct checkpoint_saved *out, struct save *save) {
    double start = save_clock();
    TRY(save_names(save));
    TRY(save_layout(save));
    double write = save_clock();
    TRY(save_write(save));
    out->write_s = save_clock() - write;
    TRY(save_commit(save));
    out->held_s = save_clock() - start;
    return save_result(out, save);
}

// Keeps the message of what went wrong.
static void save_discard(const struct save *save, enum status status) {
    char message[SAVE_MESSAGE];
    snprintf(message, sizeof message, "%s", status_message());
    file_remove(save->folder);
    status_set(status, "%s", message);
}

enum status checkpoint_save(struct checkpoint_saved *out, struct comm *comm, const struct checkpoint_dir *dir,
                            const struct param_table *table, const struct checkpoint_arenas *arenas,
                            const struct trainer_state *state) {
    struct save save = {.comm = comm, .dir = dir, .table = table, .arenas = arenas, .state = state};
    *out = (struct checkpoint_saved){0};
    enum status status = save_phases(out, &save);
    if (status != STATUS_OK && save.made)
        save_discard(&save, status);
    pieces_release(&save.pieces);
    store_release(&save.store);
    rest_release(&save.rest);
    free(save.offsets);
    free(save.file);
    free(save.folder);
    return status;
}

enum status checkpoint_size(uint64_t *bytes, const struct param_table *table, const struct trainer_state *state) {
    struct store store = {0};
    uint64_t *offsets = calloc(LAYOUT_GROUPS * table->n + 1, sizeof *offsets);
    enum status status =
        offsets ? layout_create(offsets, &store, table, state) : status_set(STATUS_SYSTEM, "checkpoint: no memory");
    *bytes = store.size;
    store_release(&store);
    free(offsets);
    return status;
}
