// SPDX-License-Identifier: Apache-2.0
// One file on its way, under a temporary name (temporary.c) beside where it will be.
#include "base/file_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_SIZE ((size_t)1 << 16)
#define TEMPORARY_TRIES 1000

struct file_write {
    int fd;
    bool failed; // a write failed: it can't be committed any more
    char *path;
    char *temporary;
    pid_t pid; // whose it is: a forked child's exit must not remove it
    struct file_write *next;
    size_t used; // bytes waiting in the buffer
    char buffer[BUFFER_SIZE];
};

// Those that are open, so that exit() removes their temporary files.
static pthread_mutex_t writes_lock = PTHREAD_MUTEX_INITIALIZER;
static struct file_write *writes;
static pthread_once_t writes_once = PTHREAD_ONCE_INIT;

static void writes_at_exit(void) {
    pthread_mutex_lock(&writes_lock);
    for (struct file_write *file = writes; file; file = file->next)
        if (file->pid == getpid())
            unlink(file->temporary);
    pthread_mutex_unlock(&writes_lock);
}

static void writes_register(void) {
    atexit(writes_at_exit); // if it can't be had, only the sweeping is lost
}

static void writes_add(struct file_write *file) {
    pthread_once(&writes_once, writes_register);
    pthread_mutex_lock(&writes_lock);
    file->next = writes;
    writes = file;
    pthread_mutex_unlock(&writes_lock);
}

static void writes_drop(struct file_write *file) {
    pthread_mutex_lock(&writes_lock);
    struct file_write **at = &writes;
    while (*at && *at != file)
        at = &(*at)->next;
    if (*at)
        *at = file->next;
    pthread_mutex_unlock(&writes_lock);
}

size_t path_folder_size(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

enum status path_sync_parent(const char *path) {
    size_t folder = path_folder_size(path);
    char *parent = folder ? strndup(path, folder) : strdup(".");
    if (!parent)
        return status_set(STATUS_SYSTEM, "fsync the folder of %s: no memory", path);
    enum status status = file_sync_folder(parent);
    free(parent);
    return status;
}

static void file_write_free(struct file_write *file) {
    if (file->fd >= 0)
        close(file->fd);
    free(file->path);
    free(file->temporary);
    free(file);
}

// Another host on a shared disk may use the same pid: names that are taken are passed over.
static enum status file_write_create(struct file_write *file) {
    for (unsigned tries = 0; tries < TEMPORARY_TRIES; tries++) {
        free(file->temporary);
        file->temporary = file_temporary(file->path);
        if (!file->temporary)
            return status_set(STATUS_SYSTEM, "create %s: no memory", file->path);
        file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file->fd >= 0 || errno != EEXIST)
            break;
    }
    return file->fd >= 0 ? STATUS_OK : file_error(STATUS_IO, "create", file->path);
}

// Where a commit's rename goes: a link is followed, so that what it leads to is replaced and not the link. A device,
// pipe or socket is refused: a rename would put a file in its place.
static enum status write_target(char **out, const char *path) {
    struct stat info;
    bool link = lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
        return status_set(STATUS_IO, "create %s: it is no regular file: name a file", path);
    *out = link ? realpath(path, NULL) : NULL;
    if (!*out)
        *out = strdup(path);
    return *out ? STATUS_OK : status_set(STATUS_SYSTEM, "create %s: no memory", path);
}

enum status file_begin(struct file_write **out, const char *path) {
    *out = NULL;
    struct file_write *file = malloc(sizeof *file);
    if (!file)
        return status_set(STATUS_SYSTEM, "create %s: no memory", path);
    file->fd = -1;
    file->failed = false;
    file->temporary = NULL;
    file->used = 0;
    file->pid = getpid();
    file->path = NULL;
    enum status status = write_target(&file->path, path);
    if (status == STATUS_OK)
        status = file_write_create(file);
    if (status != STATUS_OK) {
        file_write_free(file);
        return status;
    }
    writes_add(file);
    *out = file;
    return STATUS_OK;
}

static enum status file_send(struct file_write *file, const void *bytes, size_t size) {
    if (file->failed)
        return status_set(STATUS_IO, "write %s: an earlier write of this file failed", file->path);
    enum status status = file_write_all(file->fd, bytes, size, file->path);
    file->failed = status != STATUS_OK;
    return status;
}

static enum status file_flush(struct file_write *file) {
    size_t used = file->used;
    file->used = 0;
    return file_send(file, file->buffer, used);
}

enum status file_put(struct file_write *file, const void *bytes, size_t size) {
    if (size > BUFFER_SIZE - file->used)
        TRY(file_flush(file));
    if (size > BUFFER_SIZE)
        return file_send(file, bytes, size);
    if (size > 0)
        memcpy(file->buffer + file->used, bytes, size);
    file->used += size;
    return STATUS_OK;
}

// Everything up to the new name being there; the order is what makes it safe.
static enum status file_commit_steps(struct file_write *file) {
    TRY(file_flush(file));
    if (file_sync(file->fd) != 0)
        return file_error(STATUS_IO, "fsync", file->path);
    int fd = file->fd;
    file->fd = -1;
    if (close(fd) != 0)
        return file_error(STATUS_IO, "close", file->path);
    if (rename(file->temporary, file->path) != 0)
        return file_error(STATUS_IO, "rename to", file->path);
    return STATUS_OK;
}

enum status file_commit(struct file_write *file) {
    enum status status = file_commit_steps(file);
    if (status != STATUS_OK) {
        file_rollback(file);
        return status;
    }
    writes_drop(file);
    status = path_sync_parent(file->path);
    file_write_free(file);
    return status;
}

void file_rollback(struct file_write *file) {
    if (!file)
        return;
    writes_drop(file);
    unlink(file->temporary);
    file_write_free(file);
}

enum status file_adopt(const char *path, const char *temporary) {
    int fd = open(temporary, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return file_error(STATUS_IO, "open", temporary);
    int failed = file_sync(fd);
    close(fd);
    if (failed)
        return file_error(STATUS_IO, "fsync", temporary);
    if (rename(temporary, path) != 0)
        return file_error(STATUS_IO, "rename to", path);
    return path_sync_parent(path);
}

enum status file_replace(const char *path, const void *bytes, size_t size) {
    struct file_write *file;
    TRY(file_begin(&file, path));
    enum status status = file_put(file, bytes, size);
    if (status == STATUS_OK)
        return file_commit(file);
    file_rollback(file);
    return status;
}

static enum status file_copy_bytes(struct file_write *file, int fd, const char *from) {
    char bytes[BUFFER_SIZE];
    ssize_t n;
    while ((n = file_read_some(fd, bytes, sizeof bytes)) > 0)
        TRY(file_put(file, bytes, (size_t)n));
    return n < 0 ? file_error(STATUS_IO, "read", from) : STATUS_OK;
}

enum status file_copy(const char *to, const char *from) {
    int fd;
    struct stat info;
    struct file_write *file;
    TRY(file_open_read(&fd, &info, from, false));
    enum status status = file_begin(&file, to);
    if (status == STATUS_OK) {
        status = file_copy_bytes(file, fd, from);
        if (status == STATUS_OK)
            status = file_commit(file);
        else
            file_rollback(file);
    }
    close(fd);
    return status;
}
