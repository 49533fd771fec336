// SPDX-License-Identifier: Apache-2.0
// Saving: rank 0 lays the file out, every rank's writer writes its pieces, rank 0 commits. Each phase ends in
// agreement.
#include "checkpoints/checkpoint.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "checkpoints/commit.h"
#include "checkpoints/layout.h"
#include "checkpoints/pieces.h"
#include "checkpoints/rest.h"
#include "checkpoints/steps.h"
#include "checkpoints/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define SAVE_MESSAGE 1024

struct checkpoint {
    struct comm *comm;
    const struct checkpoint_dir *dir;
    const struct param_table *table;
    struct checkpoint_arenas arenas;
    struct trainer_state state; // of its step; its strings are borrowed
    char *folder, *file;        // <dir>/.tmp-step-…, its checkpoint.h5
    uint64_t *offsets;          // of the datasets
    struct pieces pieces;
    struct store store; // rank 0, as is `rest`
    struct rest rest;
    struct writer *writer;
    bool made;      // rank 0: the folder is there
    bool cancelled; // some rank's writer has failed
    double held_s;  // so far
};

static uint64_t save_bytes(const struct checkpoint *save) {
    return save->table->count * sizeof(float) * LAYOUT_GROUPS;
}

// For an I/O error: what was needed, where, and how much is free there now, before what went wrong.
static enum status save_error(const struct checkpoint *save, enum status status) {
    struct statvfs info;
    char available[80] = "";
    if (status != STATUS_IO)
        return status;
    TRY(commit_held(save->dir)); // lost, perhaps with all that lay in it: that is the reason
    if (statvfs(save->dir->path, &info) == 0)
        snprintf(available, sizeof available, ", %.1f MiB free%s",
                 (double)info.f_bavail * (double)info.f_frsize / 1048576,
                 info.f_files > 0 && info.f_favail == 0 ? ", but no inode for another file: see df -i" : "");
    return status_add(status,
                      "checkpoint of step %" PRIu64 " (%.1f MiB needed in %s%s; checkpoints.dir names another folder)",
                      save->state.step, (double)save_bytes(save) / 1048576, save->dir->path, available);
}

// ---- begin: names and memory, on every rank

static enum status save_names(struct checkpoint *save) {
    uint64_t random = 0;
    char name[STEP_NAME];
    enum status status = STATUS_OK;
    if (save->comm->rank == 0 && getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        random = (uint64_t)getpid() << 32 ^ (uint64_t)time(NULL);
    TRY(comm_broadcast(save->comm, &random, sizeof random, 0));
    step_name(name, save->state.step);
    save->folder = text_format("%s/" STEPS_TMP "%s-%016" PRIx64, save->dir->path, name, random);
    save->file = save->folder ? path_join(save->folder, MANIFEST_FILE) : NULL;
    save->offsets = calloc(LAYOUT_GROUPS * save->table->n + 1, sizeof *save->offsets);
    if (!save->file || !save->offsets)
        status = status_set(STATUS_SYSTEM, "checkpoint of step %" PRIu64 ": no memory", save->state.step);
    return comm_agree(save->comm, status);
}

// ---- create: the file with its space, by rank 0

// A full disk is told before anything is written where the file system says how much is free.
static enum status save_space(const struct checkpoint *save) {
    struct statvfs info;
    if (statvfs(save->dir->path, &info) != 0)
        return status_errno(STATUS_IO, "free space of %s", save->dir->path);
    uint64_t available = (uint64_t)info.f_bavail * info.f_frsize;
    if (available >= save_bytes(save))
        return STATUS_OK;
    return status_set(STATUS_IO, "%s: %s: free some space there, or choose another folder", save->dir->path,
                      strerror(ENOSPC));
}

// Takes the blocks now, so that no rank finds the disk full half-way. File systems that can't do it find out as they
// write.
static enum status save_reserve(const struct checkpoint *save, int fd) {
    off_t size = (off_t)save->rest.size;
    if (fallocate(fd, 0, 0, size) == 0)
        return STATUS_OK;
    if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)
        return status_errno(STATUS_IO, "allocate %jd bytes for %s", (intmax_t)size, save->file);
    return ftruncate(fd, size) == 0 ? STATUS_OK : status_errno(STATUS_IO, "truncate %s", save->file);
}

static enum status save_create(struct checkpoint *save) {
    TRY(commit_held(save->dir));
    TRY(file_make_folders(save->dir->path));
    TRY(save_space(save));
    if (mkdir(save->folder, 0777) != 0)
        return status_errno(STATUS_IO, "create folder %s", save->folder);
    save->made = true;
    return layout_create(save->offsets, &save->store, save->table, &save->state);
}

// The others open the file after it was closed here: that is what NFS needs to show it to them.
static enum status save_create_file(struct checkpoint *save) {
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

static enum status save_layout(struct checkpoint *save) {
    enum status status = save->comm->rank == 0 ? save_error(save, save_create(save)) : STATUS_OK;
    TRY(comm_agree(save->comm, status));
    TRY(comm_broadcast(save->comm, save->offsets, LAYOUT_GROUPS * save->table->n * sizeof *save->offsets, 0));
    status = pieces_plan(&save->pieces, save->table, save->offsets, save->comm->world);
    if (status == STATUS_OK && save->comm->rank == 0)
        status = save_error(save, save_create_file(save));
    return comm_agree(save->comm, status);
}

// ---- write: each rank its pieces

static enum status save_start(struct checkpoint *save) {
    struct writer_options options = {.table = save->table,
                                     .arenas = save->arenas,
                                     .rank = save->comm->rank,
                                     .pool = save->dir->pool,
                                     .buffer = save->dir->buffer};
    enum status status = writer_open(&save->writer, &save->pieces, save->file, &options);
    return comm_agree(save->comm, save_error(save, status));
}

// The slowest rank's seconds: {held, write}.
static enum status save_times(struct checkpoint_saved *out, const struct checkpoint *save) {
    double mine[2] = {out->held_s, out->write_s};
    double *all = calloc(2 * (size_t)save->comm->world, sizeof *all);
    TRY(comm_agree(save->comm, all ? STATUS_OK : status_set(STATUS_SYSTEM, "checkpoint: no memory")));
    enum status status = comm_all_gather(save->comm, mine, all, sizeof mine);
    for (int rank = 0; rank < save->comm->world && status == STATUS_OK; rank++) {
        out->held_s = fmax(out->held_s, all[2 * rank]);
        out->write_s = fmax(out->write_s, all[2 * rank + 1]);
    }
    free(all);
    return status;
}

// Waits for all writers: after a failure none of them is at work any more.
static enum status save_written(struct checkpoint_saved *out, struct checkpoint *save) {
    double begun = clock_seconds();
    TRY(comm_agree(save->comm, save_error(save, writer_join(save->writer, &out->write_s))));
    if (save->cancelled)
        return status_set(STATUS_ARGUMENT, "checkpoint of step %" PRIu64 ": cancelled", save->state.step);
    TRY(pieces_gather(&save->pieces, save->comm));
    out->held_s = save->held_s + clock_seconds() - begun;
    return save_times(out, save);
}

// ---- commit, by rank 0

static enum status save_commit_folder(struct checkpoint_saved *out, struct checkpoint *save) {
    struct removal *removal = out->removal = calloc(1, sizeof *removal);
    if (!removal)
        return status_set(STATUS_SYSTEM, "checkpoint: no memory");
    TRY(commit_folder(save->folder, save->dir, save->table, &save->pieces, &save->rest, &save->state, removal));
    TRY(commit_held(save->dir));
    commit_tidy(save->dir, &save->state, removal);
    removal_begin(removal);
    return STATUS_OK;
}

static enum status save_commit(struct checkpoint_saved *out, struct checkpoint *save) {
    enum status status = save->comm->rank == 0 ? save_error(save, save_commit_folder(out, save)) : STATUS_OK;
    return comm_agree(save->comm, status);
}

void checkpoint_saved_settle(struct checkpoint_saved *saved) {
    if (saved->removal)
        removal_end(saved->removal);
    free(saved->removal);
    saved->removal = NULL;
}

static enum status save_result(struct checkpoint_saved *out, const struct checkpoint *save) {
    struct stat info;
    out->step = save->state.step;
    out->path = step_path(save->dir->path, save->state.step);
    char *file = out->path ? path_join(out->path, MANIFEST_FILE) : NULL;
    if (file && stat(file, &info) == 0)
        out->bytes = (uint64_t)info.st_size;
    free(file);
    return out->path ? STATUS_OK : status_set(STATUS_SYSTEM, "checkpoint: no memory");
}

// ---- the whole

static void save_free(struct checkpoint *save) {
    writer_close(save->writer);
    pieces_release(&save->pieces);
    store_release(&save->store);
    rest_release(&save->rest);
    free(save->offsets);
    free(save->file);
    free(save->folder);
    free(save);
}

static enum status save_begin(struct checkpoint *save) {
    TRY(save_names(save));
    TRY(save_layout(save));
    return save_start(save);
}

enum status checkpoint_begin(struct checkpoint **out, struct comm *comm, const struct checkpoint_dir *dir,
                             const struct param_table *table, const struct checkpoint_arenas *arenas,
                             const struct trainer_state *state) {
    double begun = clock_seconds();
    struct checkpoint *save = *out = calloc(1, sizeof *save);
    enum status status = comm_agree(comm, save ? STATUS_OK : status_set(STATUS_SYSTEM, "checkpoint: no memory"));
    if (status != STATUS_OK || !save) {
        free(save);
        return status;
    }
    *save = (struct checkpoint){.comm = comm, .dir = dir, .table = table, .arenas = *arenas, .state = *state};
    status = save_begin(save);
    save->held_s = clock_seconds() - begun;
    if (status != STATUS_OK) {
        checkpoint_rollback(save);
        *out = NULL;
    }
    return status;
}

void checkpoint_release(struct checkpoint *save, unsigned bucket, const struct row_set *rows) {
    double begun = clock_seconds();
    writer_release(save->writer, bucket, rows);
    save->held_s += clock_seconds() - begun;
}

enum checkpoint_progress checkpoint_progress(const struct checkpoint *save) {
    switch (writer_progress(save->writer)) {
    case WRITER_BUSY:
        return CHECKPOINT_BUSY;
    case WRITER_WRITTEN:
        return CHECKPOINT_WRITTEN;
    default:
        return CHECKPOINT_FAILED;
    }
}

static enum status save_phases(struct checkpoint_saved *out, struct checkpoint *save) {
    TRY(save_written(out, save));
    double begun = clock_seconds();
    TRY(save_commit(out, save));
    out->held_s += clock_seconds() - begun;
    return save_result(out, save);
}

enum status checkpoint_commit(struct checkpoint_saved *out, struct checkpoint *save, bool failed) {
    *out = (struct checkpoint_saved){0};
    save->cancelled = failed;
    if (failed)
        writer_cancel(save->writer);
    enum status status = save_phases(out, save);
    if (status == STATUS_OK) {
        save_free(save);
    } else {
        checkpoint_saved_settle(out);
        checkpoint_rollback(save);
    }
    return status;
}

void checkpoint_rollback(struct checkpoint *save) {
    char message[SAVE_MESSAGE];
    if (!save)
        return;
    writer_close(save->writer);
    save->writer = NULL;
    snprintf(message, sizeof message, "%s", status_message());
    if (save->made)
        file_remove(save->folder);
    status_set(STATUS_OK, "%s", message);
    save_free(save);
}

enum status checkpoint_save(struct checkpoint_saved *out, struct comm *comm, const struct checkpoint_dir *dir,
                            const struct param_table *table, const struct checkpoint_arenas *arenas,
                            const struct trainer_state *state) {
    struct checkpoint *checkpoint;
    *out = (struct checkpoint_saved){0};
    TRY(checkpoint_begin(&checkpoint, comm, dir, table, arenas, state));
    TRY(checkpoint_commit(out, checkpoint, false));
    checkpoint_saved_settle(out);
    return STATUS_OK;
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
