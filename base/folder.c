// SPDX-License-Identifier: Apache-2.0
// Folders, links and paths.
#include "base/file_parts.h"

#include "base/pulse.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

// Cuts the last name off: "a/b" -> "a" -> "."; "/a" -> "/".
static void path_cut(char *path) {
    char *slash = strrchr(path, '/');
    while (slash && slash > path && slash[-1] == '/')
        slash--;
    if (!slash)
        memcpy(path, ".", 2);
    else
        slash[slash == path] = '\0';
}

char *file_nearest_folder(const char *path) {
    char *name = malloc(strlen(path) + 2);
    struct stat info;
    if (!name)
        return NULL;
    memcpy(name, path, strlen(path) + 1);
    while (lstat(name, &info) != 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) &&
           strcmp(name, ".") != 0 && strcmp(name, "/") != 0)
        path_cut(name);
    return name;
}

// Not there though it has a name: a link that leads nowhere, or a way that is barred.
static enum status place_lost(const char *at, const char *nearest) {
    char target[256];
    int error = errno;
    if (error == ELOOP)
        return status_set(STATUS_USAGE, "%s is a link that leads in a circle: remove it, or name another folder", at);
    ssize_t n = readlink(nearest, target, sizeof target);
    errno = error;
    return n < 0 ? status_errno(STATUS_IO, "%s", at)
                 : status_set(STATUS_IO, "%s is a link that leads to %.*s, which is not there", at, (int)n, target);
}

// `nearest` is `path`, or stands above it, and is no folder that we may write into.
static enum status place_refuse(const char *key, const char *path, const char *nearest) {
    struct stat info;
    size_t size = strlen(nearest);
    bool self = strncmp(path, nearest, size) == 0 && !path[size + strspn(path + size, "/")];
    char *at = self ? text_format("%s: %s", key, nearest) : text_format("%s: %s: %s", key, path, nearest);
    enum status status;
    if (!at)
        status = status_set(STATUS_SYSTEM, "%s: no memory", key);
    else if (stat(nearest, &info) != 0)
        status = place_lost(at, nearest);
    else if (!S_ISDIR(info.st_mode))
        status = status_set(STATUS_USAGE, "%s is %s: name another folder", at,
                            S_ISREG(info.st_mode) ? "a file" : "no folder");
    else
        status = access(nearest, W_OK | X_OK) == 0
                     ? STATUS_OK
                     : status_set(STATUS_IO, "%s is not writable: %s: choose another folder", at, strerror(errno));
    free(at);
    return status;
}

enum status file_place(const char *key, const char *path) {
    char *nearest = file_nearest_folder(path);
    enum status status = STATUS_OK;
    if (!nearest)
        return status_set(STATUS_SYSTEM, "%s: %s: no memory", key, path);
    if (!*path)
        status = status_set(STATUS_USAGE, "%s is empty: name a folder", key);
    else if (!file_is_folder(nearest) || access(nearest, W_OK | X_OK) != 0)
        status = place_refuse(key, path, nearest);
    free(nearest);
    return status;
}

char *file_first_missing(const char *path) {
    char *nearest = file_nearest_folder(path), *first = NULL;
    size_t size = !nearest || strcmp(nearest, ".") == 0 ? 0 : strlen(nearest);
    size += strspn(path + size, "/");
    if (nearest && path[size])
        first = strndup(path, size + strcspn(path + size, "/"));
    free(nearest);
    return first;
}

enum status file_make_place(char **made, const char *key, const char *path) {
    if (made)
        *made = NULL;
    TRY(file_place(key, path));
    char *first = made ? file_first_missing(path) : NULL;
    enum status status = file_make_folders(path);
    if (made)
        *made = first;
    return status == STATUS_IO ? status_set(status, "%s: %s (choose another folder)", key, status_message()) : status;
}

void file_unmake(const char *path, const char *made) {
    char *name = strdup(path);
    size_t size = name ? strlen(name) : 0;
    while (size > 1 && name[size - 1] == '/')
        name[--size] = '\0';
    for (bool gone = name; gone && strlen(name) >= strlen(made); path_cut(name))
        gone = rmdir(name) == 0 || errno == ENOENT;
    free(name);
}

enum status file_sync_folder(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return file_error(STATUS_IO, "open folder", path);
    enum status status = STATUS_OK;
    // some network file systems have no fsync of folders
    pulse_long();
    int failed = fsync(fd), error = errno;
    pulse_beat();
    errno = error;
    if (failed && errno != EINVAL && errno != ENOTSUP)
        status = file_error(STATUS_IO, "fsync folder", path);
    close(fd);
    return status;
}

static int file_remove_one(const char *path, const struct stat *info, int type, struct FTW *where) {
    (void)info, (void)type, (void)where;
    pulse_beat();
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
    char *temporary = file_temporary(path);
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

// Whether a path, both resolved, lies below a folder.
static bool path_is_below(const char *path, const char *folder) {
    size_t size = strlen(folder);
    return strncmp(path, folder, size) == 0 && (path[size] == '/' || size == 1);
}

// <cache>/snapshots/<revision> -> <cache>/blobs: there the hub's cache keeps the files that a snapshot links to.
static char *path_blobs(const char *folder) {
    char *cache = strdup(folder), *blobs = NULL;
    if (!cache)
        return NULL;
    path_cut(cache);
    const char *name = strrchr(cache, '/');
    if (name && strcmp(name, "/snapshots") == 0) {
        path_cut(cache);
        blobs = path_join(cache, "blobs");
    }
    free(cache);
    return blobs;
}

static bool link_stays(const char *target, const char *folder) {
    char *root = realpath(folder, NULL), *blobs = root ? path_blobs(root) : NULL;
    bool stays = root && (path_is_below(target, root) || (blobs && path_is_below(target, blobs)));
    free(blobs);
    free(root);
    return stays;
}

enum status file_stays(const char *folder, const char *name) {
    struct stat info;
    char *path = path_join(folder, name), *target = NULL;
    enum status status = path ? STATUS_OK : status_set(STATUS_SYSTEM, "%s: no memory", name);
    if (path && lstat(path, &info) == 0 && S_ISLNK(info.st_mode))
        target = realpath(path, NULL); // NULL: it leads nowhere, which who opens it will say
    if (target && !link_stays(target, folder))
        status = status_set(STATUS_DATA,
                            "%s is a link that leads out of its folder, to %s: it would be copied from there into what "
                            "is made of this model; if that is meant, copy the file itself",
                            path, target);
    free(target);
    free(path);
    return status;
}

#define ASIDE ".aside-"
#define ASIDE_TRIES 100000

// rename(2) fails on a folder that holds anything, so a name that another took meanwhile is passed over.
enum status file_set_aside(char **to, const char *from, const char *name) {
    for (unsigned i = 1; i <= ASIDE_TRIES; i++) {
        *to = text_format("%s" ASIDE "%u", name, i);
        if (!*to)
            return status_set(STATUS_SYSTEM, "rename %s: no memory", from);
        errno = EEXIST;
        if (!file_named(*to) && rename(from, *to) == 0)
            return STATUS_OK;
        int error = errno;
        free(*to);
        *to = NULL;
        if (error != EEXIST && error != ENOTEMPTY) {
            errno = error;
            break;
        }
    }
    return status_errno(STATUS_IO, "rename %s to %s" ASIDE "N", from, name);
}

size_t file_aside_of(const char *name) {
    size_t size = strlen(name), end = size;
    while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9')
        end--;
    size_t mark = strlen(ASIDE);
    return end < size && end > mark && strncmp(name + end - mark, ASIDE, mark) == 0 ? end - mark : size;
}
