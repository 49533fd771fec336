// SPDX-License-Identifier: Apache-2.0
#include "daemon/follow.h"

#include "base/file.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FOLLOW_TRIES 5

static bool follow_is_link(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

// Whether `path`, or of a file its folder, is a link.
static bool follow_leads(const char *path) {
    char *name = strdup(path);
    size_t size = name ? strlen(name) : 0;
    while (size > 1 && name[size - 1] == '/')
        name[--size] = '\0';
    bool leads = name && follow_is_link(name);
    char *slash = name && !file_is_folder(name) ? strrchr(name, '/') : NULL;
    if (slash && slash > name) {
        *slash = '\0';
        leads = leads || follow_is_link(name);
    }
    free(name);
    return leads;
}

// Whether there is now something else, or nothing.
static bool follow_differs(const char *real, const struct stat *before) {
    struct stat now;
    return stat(real, &now) != 0 || now.st_dev != before->st_dev || now.st_ino != before->st_ino;
}

// Whether the link leads elsewhere than to `real` (NULL: nowhere) now.
static bool follow_moved(const char *path, const char *real) {
    char *now = realpath(path, NULL);
    bool moved = now && real ? strcmp(now, real) != 0 : now != real;
    free(now);
    return moved;
}

// `gone`: it failed, and what was read is there no more, or on its way out.
static enum status follow_link(bool *gone, const char *path, enum status (*read)(void *context, const char *real),
                               void *context) {
    struct stat before;
    char *real = realpath(path, NULL);
    bool there = real && stat(real, &before) == 0;
    enum status status = read(context, real ? real : path);
    *gone = status != STATUS_OK && (follow_moved(path, real) || (real && (!there || follow_differs(real, &before))));
    free(real);
    return status;
}

static enum status follow_plain(const char *path, enum status (*read)(void *context, const char *real), void *context) {
    struct stat before;
    bool there = stat(path, &before) == 0;
    enum status status = read(context, path);
    bool gone = status != STATUS_OK && there && follow_differs(path, &before);
    return gone ? status_set(STATUS_DATA, "%s was removed while it was read", path) : status;
}

enum status follow_read(const char *path, enum status (*read)(void *context, const char *real), void *context) {
    bool gone = true;
    enum status status = STATUS_OK;
    if (!follow_leads(path))
        return follow_plain(path, read, context);
    for (int i = 0; i < FOLLOW_TRIES && gone; i++)
        status = follow_link(&gone, path, read, context);
    return gone ? status_set(STATUS_AGAIN, "%s was replaced by a newer checkpoint while it was read: try again", path)
                : status;
}
