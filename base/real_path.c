// SPDX-License-Identifier: Apache-2.0
// Where a path leads, also one that is not there yet.
#include "base/file_parts.h"

#include "base/text.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 40 // that are followed, as the system does

struct real {
    char *at; // absolute, no link in it
    int links;
};

static void real_up(struct real *real) {
    char *slash = strrchr(real->at, '/');
    slash[slash == real->at] = '\0';
}

static bool real_names(struct real *real, const char *path);

// A link is what it leads to. More of them than the system follows: taken as a name, which nobody can open.
static bool real_name(struct real *real, const char *name, size_t size) {
    char target[PATH_MAX];
    char *next = text_format("%s/%.*s", strcmp(real->at, "/") == 0 ? "" : real->at, (int)size, name);
    if (!next)
        return false;
    ssize_t n = real->links > 0 ? readlink(next, target, sizeof target - 1) : -1;
    if (n < 0) {
        free(real->at);
        real->at = next;
        return true;
    }
    free(next);
    target[n] = '\0';
    real->links--;
    if (target[0] == '/')
        real->at[1] = '\0';
    return real_names(real, target);
}

static bool real_names(struct real *real, const char *path) {
    for (const char *at = path; *at;) {
        size_t size = strcspn(at, "/");
        bool good = true;
        if (size == 2 && at[0] == '.' && at[1] == '.')
            real_up(real);
        else if (size && !(size == 1 && at[0] == '.'))
            good = real_name(real, at, size);
        if (!good)
            return false;
        at += size + (at[size] == '/');
    }
    return true;
}

enum status file_real(char **out, const char *path) {
    struct real real = {.at = path[0] == '/' ? strdup("/") : getcwd(NULL, 0), .links = LINKS_MAX};
    enum status status = real.at          ? STATUS_OK
                         : path[0] != '/' ? file_error(STATUS_IO, "find the working directory for", path)
                                          : status_set(STATUS_SYSTEM, "%s: no memory", path);
    *out = NULL;
    if (status == STATUS_OK && !real_names(&real, path))
        status = status_set(STATUS_SYSTEM, "%s: no memory", path);
    if (status == STATUS_OK)
        *out = real.at;
    else
        free(real.at);
    return status;
}

bool file_is_in(const char *path, const char *folder) {
    size_t size = strlen(folder);
    return strncmp(path, folder, size) == 0 && (path[size] == '\0' || path[size] == '/' || size == 1);
}

bool file_is_home(const char *path) {
    return path[0] == '~' && (path[1] == '\0' || path[1] == '/');
}
