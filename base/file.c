// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include "base/file_parts.h"
#include "base/pulse.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define PIECE ((size_t)16 << 20) // bytes of one read or write, between two beats (base/pulse.h)
#define SYNC_AHEAD 8             // pieces on their way at once
#define POINTER_MAX 1024         // bytes of a Git LFS pointer: its text is shorter

// A full disk may have room, and no inode for one file more. Of a file system that does not count them nothing is said.
static bool file_inodes_out(const char *path) {
    struct statvfs info;
    char *folder = file_nearest_folder(path);
    bool out = folder && statvfs(folder, &info) == 0 && info.f_files > 0 && info.f_favail == 0;
    free(folder);
    return out;
}

enum status file_error(enum status status, const char *verb, const char *path) {
    int error = errno;
    const char *hint = "";
    if (error == ENOSPC && file_inodes_out(path))
        hint = " (there is room, but no inode is left for another file: remove some files there, see df -i, or choose "
               "another folder)";
    else if (error == ENOSPC || error == EDQUOT)
        hint = " (free some space there, or choose another folder)";
    else if (error == EROFS)
        hint = " (it is mounted read-only: choose another folder)";
    else if (error == EACCES || error == EPERM)
        hint = " (check the permissions, or choose another folder)";
    status_set(status, "%s %s: %s%s", verb, path, strerror(error), hint);
    errno = error;
    return status;
}

enum status file_open_error(const char *path) {
    return file_error(file_missing_status(errno), "open", path);
}

enum status file_missing_status(int error) {
    return error == ENOENT || error == ENOTDIR || error == ELOOP ? STATUS_DATA : STATUS_IO;
}

// The first bytes, fewer where the file ends.
static enum status file_peek(size_t *n, int fd, char *bytes, size_t size, const char *path) {
    for (*n = 0; *n < size;) {
        ssize_t got = pread(fd, bytes + *n, size - *n, (off_t)*n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return file_error(STATUS_IO, "read", path);
        if (got == 0)
            break;
        *n += (size_t)got;
    }
    return STATUS_OK;
}

static enum status file_check_pointer_fd(int fd, const struct stat *info, const char *path) {
    static const char word[] = "version https://git-lfs.github.com/spec/";
    char bytes[sizeof word - 1];
    size_t n;
    if (!S_ISREG(info->st_mode) || info->st_size > POINTER_MAX)
        return STATUS_OK;
    TRY(file_peek(&n, fd, bytes, sizeof bytes, path));
    if (n < sizeof bytes || memcmp(bytes, word, sizeof bytes) != 0)
        return STATUS_OK;
    return status_set(
        STATUS_DATA, "%s: a Git LFS pointer, not the file itself: download it (git lfs pull, or from the model's page)",
        path);
}

enum status file_check_pointer(const char *path) {
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    enum status status = fd >= 0 && fstat(fd, &info) == 0 ? file_check_pointer_fd(fd, &info, path) : STATUS_OK;
    if (fd >= 0)
        close(fd);
    return status;
}

bool file_is_pointer(const char *path) {
    return file_check_pointer(path) == STATUS_DATA;
}

enum status file_open_read(int *fd, struct stat *info, const char *path, bool streams) {
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a named pipe without a writer must not hang us here
    if (*fd < 0)
        return file_open_error(path);
    enum status status = STATUS_OK;
    if (fcntl(*fd, F_SETFL, 0) != 0 || fstat(*fd, info) != 0)
        status = file_error(STATUS_IO, "stat", path);
    else if (S_ISDIR(info->st_mode))
        status = status_set(STATUS_DATA, "open %s: it is a folder, a file is needed", path);
    else if (!streams && !S_ISREG(info->st_mode))
        status = status_set(STATUS_DATA, "open %s: not a regular file", path);
    else
        status = file_check_pointer_fd(*fd, info, path);
    if (status != STATUS_OK)
        close(*fd);
    return status;
}

ssize_t file_read_some(int fd, void *bytes, size_t size) {
    for (;;) {
        ssize_t n = read(fd, bytes, size < PIECE ? size : PIECE);
        pulse_beat();
        if (n >= 0 || errno != EINTR)
            return n;
    }
}

static enum status file_too_large(const char *path, size_t ceiling) {
    return status_set(STATUS_DATA, "read %s: larger than the %zu bytes allowed here", path, ceiling);
}

// Reads to the end, whatever size stat told: pipes and /proc have none. The last byte of `room` is for the NUL.
static enum status file_read_fd(char **out, size_t *size, int fd, size_t room, const char *path, size_t ceiling) {
    char *at = NULL;
    size_t used = 0;
    enum status status = STATUS_OK;
    for (;;) {
        char *grown = realloc(at, room);
        if (!grown) {
            status = status_set(STATUS_SYSTEM, "read %s: no memory for %zu bytes", path, room);
            break;
        }
        at = grown;
        ssize_t n = 0;
        while (used < room - 1 && (n = file_read_some(fd, at + used, room - 1 - used)) > 0)
            used += (size_t)n;
        if (n < 0) {
            status = file_error(STATUS_IO, "read", path);
            break;
        }
        if (used > ceiling) {
            status = file_too_large(path, ceiling);
            break;
        }
        if (used < room - 1) { // the end
            at[used] = '\0';
            *out = at;
            *size = used;
            return STATUS_OK;
        }
        room = room <= SIZE_MAX / 2 ? room * 2 : SIZE_MAX;
    }
    free(at);
    return status;
}

static enum status file_read_whole(char **out, size_t *size, const char *path, size_t ceiling, bool streams) {
    int fd;
    struct stat info;
    size_t unused;
    *out = NULL;
    TRY(file_open_read(&fd, &info, path, streams));
    enum status status;
    uint64_t told = S_ISREG(info.st_mode) && info.st_size > 0 ? (uint64_t)info.st_size : 0;
    if (told > ceiling || told > SIZE_MAX / 2)
        status = file_too_large(path, ceiling);
    else // one byte for the NUL, one that shows that nothing follows
        status = file_read_fd(out, size ? size : &unused, fd, told ? (size_t)told + 2 : 4096, path, ceiling);
    close(fd);
    return status;
}

enum status file_read(char **out, size_t *size, const char *path, size_t ceiling) {
    return file_read_whole(out, size, path, ceiling, false);
}

enum status file_read_stream(char **out, size_t *size, const char *path, size_t ceiling) {
    return file_read_whole(out, size, path, ceiling, true);
}

enum status file_check_regular(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0)
        return file_open_error(path);
    return S_ISREG(info.st_mode) ? STATUS_OK : status_set(STATUS_DATA, "%s: not a regular file", path);
}

enum status file_map_open(struct file_map *out, const char *path) {
    int fd;
    struct stat info;
    *out = (struct file_map){0};
    TRY(file_open_read(&fd, &info, path, false));
    enum status status = STATUS_OK;
    if (info.st_size < 0 || (uint64_t)info.st_size > SIZE_MAX / 2) {
        status = status_set(STATUS_DATA, "map %s: no size that can be mapped", path);
    } else if (info.st_size > 0) {
        void *at = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED)
            status = file_error(STATUS_IO, "map", path);
        else
            *out = (struct file_map){.at = at, .size = (size_t)info.st_size};
    }
    close(fd);
    return status;
}

void file_map_close(struct file_map *map) {
    if (map->at)
        munmap((void *)(uintptr_t)map->at, map->size);
    *map = (struct file_map){0};
}

void file_map_rest(const struct file_map *map) {
    if (map->at)
        madvise((void *)(uintptr_t)map->at, map->size, MADV_DONTNEED);
}

bool file_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

bool file_named(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0;
}

bool file_is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

enum status file_write_all(int fd, const void *bytes, size_t size, const char *path) {
    const char *at = bytes;
    while (size > 0) {
        ssize_t n = write(fd, at, size < PIECE ? size : PIECE);
        pulse_beat();
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EIO;
        if (n <= 0)
            return file_error(STATUS_IO, "write", path);
        at += n;
        size -= (size_t)n;
    }
    return STATUS_OK;
}

enum status file_pwrite_all(int fd, const void *bytes, size_t size, uint64_t offset, const char *path) {
    const char *at = bytes;
    while (size > 0) {
        ssize_t n = pwrite(fd, at, size < PIECE ? size : PIECE, (off_t)offset);
        pulse_beat();
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EIO;
        if (n <= 0)
            return file_error(STATUS_IO, "write", path);
        at += n;
        size -= (size_t)n;
        offset += (uint64_t)n;
    }
    return STATUS_OK;
}

// A file system without sync_file_range leaves it all to fsync.
int file_sync(int fd) {
    struct stat info;
    const off_t piece = (off_t)PIECE;
    bool steps = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    steps = steps && sync_file_range(fd, 0, SYNC_AHEAD * piece, SYNC_FILE_RANGE_WRITE) == 0;
    for (off_t at = 0; steps && at < info.st_size; at += piece) {
        steps = sync_file_range(fd, at + SYNC_AHEAD * piece, piece, SYNC_FILE_RANGE_WRITE) == 0 &&
                sync_file_range(fd, at, piece,
                                SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) == 0;
        pulse_beat();
    }
    pulse_long();
    int failed = fsync(fd);
    int error = errno;
    pulse_beat();
    errno = error;
    return failed;
}
