// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_SIZE ((size_t)1 << 16)
#define TEMPORARY_TRIES 1000

// "verb path: what errno says (hint)".
static enum status file_error(enum status status, const char *verb, const char *path) {
    int error = errno;
    const char *hint = "";
    if (error == ENOSPC || error == EDQUOT)
        hint = " (free some space there, or choose another folder)";
    else if (error == EROFS || error == EACCES || error == EPERM)
        hint = " (check the permissions, or choose another folder)";
    status_set(status, "%s %s: %s%s", verb, path, strerror(error), hint);
    errno = error;
    return status;
}

// What is missing is the user's mistake, the rest the disk's.
static enum status file_open_error(const char *path) {
    return file_error(errno == ENOENT || errno == ENOTDIR ? STATUS_DATA : STATUS_IO, "open", path);
}

static enum status file_open_read(int *fd, struct stat *info, const char *path) {
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0)
        return file_open_error(path);
    enum status status = STATUS_OK;
    if (fstat(*fd, info) != 0)
        status = file_error(STATUS_IO, "stat", path);
    else if (S_ISDIR(info->st_mode))
        status = status_set(STATUS_DATA, "open %s: it is a folder, a file is needed", path);
    if (status != STATUS_OK)
        close(*fd);
    return status;
}

static ssize_t file_read_some(int fd, void *bytes, size_t size) {
    for (;;) {
        ssize_t n = read(fd, bytes, size < SSIZE_MAX ? size : SSIZE_MAX);
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

enum status file_read(char **out, size_t *size, const char *path, size_t ceiling) {
    int fd;
    struct stat info;
    size_t unused;
    *out = NULL;
    TRY(file_open_read(&fd, &info, path));
    enum status status;
    uint64_t told = S_ISREG(info.st_mode) && info.st_size > 0 ? (uint64_t)info.st_size : 0;
    if (told > ceiling || told > SIZE_MAX / 2)
        status = file_too_large(path, ceiling);
    else // one byte for the NUL, one that shows that nothing follows
        status = file_read_fd(out, size ? size : &unused, fd, told ? (size_t)told + 2 : 4096, path, ceiling);
    close(fd);
    return status;
}

enum status file_map_open(struct file_map *out, const char *path) {
    int fd;
    struct stat info;
    *out = (struct file_map){0};
    TRY(file_open_read(&fd, &info, path));
    enum status status = STATUS_OK;
    if (!S_ISREG(info.st_mode) || info.st_size < 0 || (uint64_t)info.st_size > SIZE_MAX / 2) {
        status = status_set(STATUS_DATA, "map %s: not a regular file", path);
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
        ssize_t n = write(fd, at, size);
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
        ssize_t n = pwrite(fd, at, size, (off_t)offset);
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

// ---- one file on its way: ".name.tmp-<pid>-<counter>" beside where it will be

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

// Bytes of `path` up to and with its last slash; 0 if it has none.
static size_t path_folder_size(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

static char *path_temporary(const char *path) {
    static atomic_uint counter;
    size_t folder = path_folder_size(path);
    char *out = NULL;
    if (asprintf(&out, "%.*s.%s.tmp-%ld-%u", (int)folder, path, path + folder, (long)getpid(),
                 atomic_fetch_add(&counter, 1)) < 0)
        return NULL;
    return out;
}

static enum status path_sync_parent(const char *path) {
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
        file->temporary = path_temporary(file->path);
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
    if (fsync(file->fd) != 0)
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
    int failed = fsync(fd);
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
    TRY(file_open_read(&fd, &info, from));
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

// ---- folders and links

static enum status file_make_folder(const char *path) {
    if (mkdir(path, 0777) == 0)
        return path_sync_parent(path);
    int error = errno;
    if (file_is_folder(path))
        return STATUS_OK;
    errno = error == EEXIST ? ENOTDIR : error;
    return file_error(STATUS_IO, "create folder", path);
}

enum status file_make_folders(const char *path) {
    char *name = strdup(path);
    if (!name)
        return status_set(STATUS_SYSTEM, "create folder %s: no memory", path);
    size_t size = strlen(name);
    while (size > 1 && name[size - 1] == '/') // its parent is what stands before its last slash
        name[--size] = '\0';
    enum status status = STATUS_OK;
    for (char *slash = size ? strchr(name + 1, '/') : NULL; slash && status == STATUS_OK;
         slash = strchr(slash + 1, '/')) {
        if (slash[-1] == '/')
            continue;
        *slash = '\0';
        status = file_make_folder(name);
        *slash = '/';
    }
    if (status == STATUS_OK)
        status = file_make_folder(name);
    free(name);
    return status;
}

enum status file_sync_folder(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return file_error(STATUS_IO, "open folder", path);
    enum status status = STATUS_OK;
    // some network file systems have no fsync of folders
    if (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP)
        status = file_error(STATUS_IO, "fsync folder", path);
    close(fd);
    return status;
}

static int file_remove_one(const char *path, const struct stat *info, int type, struct FTW *where) {
    (void)info, (void)type, (void)where;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

enum status file_remove(const char *path) {
    if (nftw(path, file_remove_one, 32, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT || errno == ENOTDIR)
        return STATUS_OK;
    return file_error(STATUS_IO, "remove", path);
}

static int file_list_order(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum status file_list_read(char ***names, size_t *n, DIR *folder, const char *path) {
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(folder);
        if (!entry)
            return errno ? file_error(STATUS_IO, "read folder", path) : STATUS_OK;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if ((*n & (*n - 1)) == 0) { // full: room is a power of two
            char **grown = realloc(*names, (*n ? *n * 2 : 1) * sizeof *grown);
            if (!grown)
                return status_set(STATUS_SYSTEM, "read folder %s: no memory", path);
            *names = grown;
        }
        if (!((*names)[*n] = strdup(entry->d_name)))
            return status_set(STATUS_SYSTEM, "read folder %s: no memory", path);
        ++*n;
    }
}

enum status file_list(char ***names, size_t *n, const char *path) {
    *names = NULL;
    *n = 0;
    DIR *folder = opendir(path);
    if (!folder)
        return file_open_error(path);
    enum status status = file_list_read(names, n, folder, path);
    closedir(folder);
    if (status != STATUS_OK) {
        file_list_free(*names, *n);
        *names = NULL;
        *n = 0;
    } else if (*n > 1) {
        qsort(*names, *n, sizeof **names, file_list_order);
    }
    return status;
}

void file_list_free(char **names, size_t n) {
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

enum status file_link(const char *path, const char *target) {
    char *temporary = path_temporary(path);
    if (!temporary)
        return status_set(STATUS_SYSTEM, "link %s: no memory", path);
    enum status status = STATUS_OK;
    if (symlink(target, temporary) != 0) {
        status = file_error(STATUS_IO, "link", path);
    } else if (rename(temporary, path) != 0) {
        status = file_error(STATUS_IO, "link", path);
        unlink(temporary);
    }
    free(temporary);
    return status == STATUS_OK ? path_sync_parent(path) : status;
}

char *path_join(const char *folder, const char *name) {
    size_t size = strlen(folder);
    if (size == 0 || name[0] == '/')
        return strdup(name);
    char *out = NULL;
    const char *slash = folder[size - 1] == '/' ? "" : "/";
    return asprintf(&out, "%s%s%s", folder, slash, name) < 0 ? NULL : out;
}
