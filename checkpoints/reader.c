// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/reader.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/pulse.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/skeleton.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum status reader_folder(char **out, const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    *out = NULL;
    if (!file_exists(path))
        return status_set(STATUS_DATA, "checkpoint %s: not there", path);
    if (!file_is_folder(path) && strcmp(name, MANIFEST_FILE) != 0 && strcmp(name, MANIFEST_NAME) != 0)
        return status_set(STATUS_DATA, "checkpoint %s: neither a step's folder nor its " MANIFEST_FILE, path);
    char *manifest = path_join(path, MANIFEST_NAME);
    bool none = manifest && file_is_folder(path) && !file_named(manifest);
    free(manifest);
    if (none)
        return status_set(STATUS_DATA, "checkpoint %s: " MANIFEST_NAME " is not there%s", path, checkpoint_hint(path));
    if (file_is_folder(path))
        *out = strdup(path);
    else
        *out = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    return *out ? STATUS_OK : status_set(STATUS_SYSTEM, "checkpoint %s: no memory", path);
}

static enum status reader_open_file(struct reader *reader) {
    struct stat info;
    reader->fd = open(reader->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (reader->fd < 0)
        return status_errno(file_missing_status(errno), "open %s", reader->file);
    if (fstat(reader->fd, &info) != 0)
        return status_errno(STATUS_IO, "stat %s", reader->file);
    if (!S_ISREG(info.st_mode))
        return status_set(STATUS_DATA, "%s: not a regular file", reader->file);
    TRY(file_check_pointer(reader->file));
    if ((uint64_t)info.st_size != reader->manifest.size)
        return status_set(STATUS_DATA, "%s: %jd bytes, " MANIFEST_NAME " gives %" PRIu64 " (cut off or not its own)",
                          reader->file, (intmax_t)info.st_size, reader->manifest.size);
    return STATUS_OK;
}

static enum status reader_buffer(struct reader *reader) {
    uint64_t largest = 1;
    for (size_t i = 0; i < reader->manifest.n_pieces; i++)
        if (reader->manifest.pieces[i].size > largest)
            largest = reader->manifest.pieces[i].size;
    reader->buffer = malloc(largest);
    return reader->buffer
               ? STATUS_OK
               : status_set(STATUS_SYSTEM, "read %s: no memory for %" PRIu64 " bytes", reader->file, largest);
}

static enum status reader_pread(struct reader *reader, const struct manifest_piece *piece) {
    uint64_t done = 0;
    while (done < piece->size) {
        ssize_t n = pread(reader->fd, (char *)reader->buffer + done, piece->size - done, (off_t)(piece->offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return status_errno(STATUS_IO, "read %s", reader->file);
        if (n == 0)
            return status_set(STATUS_DATA, "%s: ends at byte %" PRIu64, reader->file, piece->offset + done);
        done += (uint64_t)n;
        pulse_beat();
    }
    return STATUS_OK;
}

enum status reader_piece(struct reader *reader, const struct manifest_piece *piece) {
    const struct manifest *manifest = &reader->manifest;
    TRY(reader_pread(reader, piece));
    if (hash64(reader->buffer, piece->size) == piece->hash)
        return STATUS_OK;
    return status_set(STATUS_DATA, "%s: damaged: bytes %" PRIu64 " to %" PRIu64 " (%s) differ from " MANIFEST_NAME,
                      reader->file, piece->offset, piece->offset + piece->size - 1,
                      piece->dataset == MANIFEST_REST ? "HDF5's own" : manifest->datasets[piece->dataset].name);
}

static enum status reader_open_folder(struct reader *reader) {
    reader->file = path_join(reader->folder, MANIFEST_FILE);
    if (!reader->file)
        return status_set(STATUS_SYSTEM, "checkpoint %s: no memory", reader->folder);
    TRY(manifest_read(&reader->manifest, reader->folder));
    return reader_open_file(reader);
}

// HDF5's own bytes, compared and kept.
static enum status reader_own(struct skeleton *own, struct reader *reader) {
    uint64_t left = SKELETON_MAX;
    for (size_t i = 0; i < reader->manifest.n_pieces; i++) {
        const struct manifest_piece *piece = &reader->manifest.pieces[i];
        if (piece->dataset != MANIFEST_REST)
            continue;
        if (piece->size > left)
            return status_set(STATUS_DATA, "%s: more than %" PRIu64 " bytes between the datasets", reader->file,
                              SKELETON_MAX);
        left -= piece->size;
        TRY(reader_piece(reader, piece));
        struct skeleton_part part = {piece->offset, piece->size, malloc(piece->size)};
        if (!part.bytes)
            return status_set(STATUS_SYSTEM, "read %s: no memory for %" PRIu64 " bytes", reader->file, piece->size);
        memcpy(part.bytes, reader->buffer, piece->size);
        own->parts[own->n++] = part;
    }
    return STATUS_OK;
}

static enum status reader_skeleton(struct reader *reader) {
    struct skeleton own = {.path = reader->file, .file_size = reader->manifest.size};
    own.parts = calloc(reader->manifest.n_pieces + 1, sizeof *own.parts);
    enum status status =
        own.parts ? reader_own(&own, reader) : status_set(STATUS_SYSTEM, "read %s: no memory", reader->file);
    if (status == STATUS_OK)
        status = skeleton_check(&own);
    skeleton_release(&own);
    return status;
}

static enum status reader_open_checked(struct reader *reader) {
    TRY(reader_open_folder(reader));
    TRY(reader_buffer(reader));
    return reader_skeleton(reader);
}

enum status reader_open(struct reader *out, const char *path) {
    *out = (struct reader){.fd = -1};
    enum status status = reader_folder(&out->folder, path);
    if (status == STATUS_OK)
        status = reader_open_checked(out);
    if (status != STATUS_OK)
        reader_close(out);
    return status;
}

void reader_close(struct reader *reader) {
    if (reader->fd >= 0)
        close(reader->fd);
    manifest_release(&reader->manifest);
    free(reader->buffer);
    free(reader->file);
    free(reader->folder);
    *reader = (struct reader){.fd = -1};
}

enum status reader_glance(const char *folder) {
    struct reader reader = {.fd = -1, .folder = strdup(folder)};
    enum status status =
        reader.folder ? reader_open_folder(&reader) : status_set(STATUS_SYSTEM, "checkpoint %s: no memory", folder);
    reader_close(&reader);
    return status;
}
