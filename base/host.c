// SPDX-License-Identifier: Apache-2.0
// Control groups: Linux' Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst. /proc/self/cgroup names our
// group in each hierarchy; limits of all groups above it hold too. In a container the named path may not be below the
// mount: the mount itself is then our group, and is looked at as the last one upwards.
#include "base/host.h"

#include "base/file.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX ((size_t)1 << 20) // bytes of a file in /proc and /sys that we read

static char *host_read(const char *root, const char *path) {
    char *name = text_format("%s%s", root, path), *bytes = NULL;
    if (name && file_exists(name) && file_read(&bytes, NULL, name, FILE_MAX) != STATUS_OK)
        bytes = NULL;
    free(name);
    return bytes;
}

const char *host_line(char *line, unsigned room, const char *root, const char *path) {
    char *bytes = host_read(root, path);
    snprintf(line, room, "%.*s", bytes ? (int)strcspn(bytes, "\n") : 0, bytes ? bytes : "");
    free(bytes);
    return line;
}

// "max", nothing, and what version 1 gives for no limit (the largest multiple of a page) are HOST_NONE.
static uint64_t host_number(const char *root, const char *folder, const char *name) {
    char line[64], *path = text_format("%s/%s", folder, name);
    uint64_t value = HOST_NONE;
    if (path && !text_to_u64(host_line(line, sizeof line, root, path), &value))
        value = HOST_NONE;
    free(path);
    return value < (uint64_t)1 << 62 ? value : HOST_NONE;
}

// The number behind "name " in a file of such lines.
static uint64_t host_field(const char *root, const char *path, const char *name) {
    char *bytes = host_read(root, path);
    size_t size = strlen(name);
    uint64_t value = HOST_NONE;
    for (const char *line = bytes; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, name, size) == 0 && (line[size] == ' ' || line[size] == '\t')) {
            value = strtoull(line + size, NULL, 10);
            break;
        }
    free(bytes);
    return value;
}

// ---- our control group

// Whether "memory" is one of "cpu,memory".
static bool group_lists(const char *names, size_t size, const char *name) {
    size_t wanted = strlen(name);
    for (const char *at = names, *end = names + size; at < end; at += strcspn(at, ",:") + 1)
        if ((size_t)(end - at) >= wanted && strncmp(at, name, wanted) == 0 && (at[wanted] == ',' || at[wanted] == ':'))
            return true;
    return false;
}

// Our group's path in the hierarchy of `controller` (version 1), or of version 2 ("": line "0::/path"); malloc'ed, NULL
// if there is none.
static char *group_path(const char *root, const char *controller) {
    char *bytes = host_read(root, "/proc/self/cgroup"), *found = NULL;
    for (char *line = bytes; line && *line && !found;) {
        char *end = line + strcspn(line, "\n"), *names = memchr(line, ':', (size_t)(end - line));
        char *path = names ? memchr(names + 1, ':', (size_t)(end - names - 1)) : NULL;
        bool right = path && (*controller ? group_lists(names + 1, (size_t)(path - names), controller)
                                          : path == names + 1 && line[0] == '0');
        if (right)
            found = strndup(path + 1, (size_t)(end - path - 1));
        line = *end ? end + 1 : end;
    }
    free(bytes);
    return found;
}

struct group_kind {
    const char *controller, *mount;
    const char *limit, *usage, *cache; // files; a field of memory.stat
};

// Where version 1 keeps memory limits, and version 2 its one hierarchy.
static const struct group_kind group_memory[] = {
    {"memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
    {"", "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"},
    {"", "/sys/fs/cgroup/unified", "memory.max", "memory.current", "inactive_file"},
};

// Calls `look` with our group's folder and with each one above it, up to the mount.
static void group_walk(const char *root, const char *controller, const char *mount,
                       void (*look)(void *context, const char *root, const char *folder, const void *kind),
                       void *context, const void *kind) {
    char *path = group_path(root, controller);
    char *folder = path ? text_format("%s%s", mount, path) : NULL;
    size_t least = strlen(mount);
    for (size_t size = folder ? strlen(folder) : 0; size >= least && size > 0;) {
        while (size > least && folder[size - 1] == '/')
            size--;
        folder[size] = '\0';
        look(context, root, folder, kind);
        if (size == least)
            break;
        while (size > least && folder[size - 1] != '/')
            size--;
    }
    free(folder);
    free(path);
}

static void memory_look(void *context, const char *root, const char *folder, const void *kind) {
    const struct group_kind *k = kind;
    struct host_memory *out = context;
    uint64_t limit = host_number(root, folder, k->limit), used = host_number(root, folder, k->usage);
    if (limit == HOST_NONE || limit >= out->total)
        return;
    char *stat = text_format("%s/memory.stat", folder);
    uint64_t cache = stat ? host_field(root, stat, k->cache) : HOST_NONE;
    free(stat);
    used = used == HOST_NONE ? 0 : used;
    used -= cache != HOST_NONE && cache < used ? cache : 0;
    uint64_t left = limit > used ? limit - used : 0;
    if (out->limit != HOST_NONE && left >= out->limit - out->used)
        return;
    out->limit = limit;
    out->used = used < limit ? used : limit;
}

bool host_memory(struct host_memory *out, const char *root) {
    uint64_t total = host_field(root, "/proc/meminfo", "MemTotal:");
    uint64_t available = host_field(root, "/proc/meminfo", "MemAvailable:");
    *out = (struct host_memory){.limit = HOST_NONE};
    if (total == HOST_NONE || available == HOST_NONE)
        return false;
    out->total = total * 1024; // given in kB
    out->free = available * 1024;
    for (size_t i = 0; i < sizeof group_memory / sizeof *group_memory; i++)
        group_walk(root, group_memory[i].controller, group_memory[i].mount, memory_look, out, &group_memory[i]);
    uint64_t left = out->limit == HOST_NONE ? HOST_NONE : out->limit - out->used;
    out->available = left < out->free ? left : out->free;
    return true;
}

// ---- time

static void quota_least(double *out, double quota, double period) {
    if (quota > 0 && period > 0 && (*out == 0 || quota / period < *out))
        *out = quota / period;
}

// cpu.max: "quota period", or "max period".
static void quota_look(void *context, const char *root, const char *folder, const void *kind) {
    char line[64], *path = text_format("%s/cpu.max", folder), *rest;
    (void)kind;
    host_line(line, sizeof line, root, path ? path : "");
    double quota = strtod(line, &rest);
    quota_least(context, quota, strtod(rest, NULL));
    free(path);
}

// Version 1: -1 is no quota.
static void quota_look_1(void *context, const char *root, const char *folder, const void *kind) {
    (void)kind;
    uint64_t quota = host_number(root, folder, "cpu.cfs_quota_us");
    uint64_t period = host_number(root, folder, "cpu.cfs_period_us");
    if (quota != HOST_NONE && period != HOST_NONE)
        quota_least(context, (double)quota, (double)period);
}

double host_cpu_quota(const char *root) {
    double quota = 0;
    group_walk(root, "cpu", "/sys/fs/cgroup/cpu", quota_look_1, &quota, NULL);
    group_walk(root, "cpu", "/sys/fs/cgroup/cpu,cpuacct", quota_look_1, &quota, NULL);
    group_walk(root, "", "/sys/fs/cgroup", quota_look, &quota, NULL);
    return quota;
}
