// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/steps.h"

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void step_name(char out[STEP_NAME], uint64_t step) {
    snprintf(out, STEP_NAME, "step-%08" PRIu64, step);
}

bool step_parse(uint64_t *step, const char *name) {
    char again[STEP_NAME];
    if (strncmp(name, "step-", 5) != 0 || !text_to_u64(name + 5, step))
        return false;
    step_name(again, *step);
    return strcmp(again, name) == 0;
}

static bool is_hex16(const char *at) {
    return strspn(at, "0123456789abcdef") == 16 && at[16] == '\0';
}

static bool is_on_its_way(const char *name) {
    char step[STEP_NAME];
    uint64_t number;
    const char *at = strncmp(name, STEPS_TMP, strlen(STEPS_TMP)) == 0 ? name + strlen(STEPS_TMP) : "";
    const char *random = strrchr(at, '-');
    if (!random || (size_t)(random - at) >= sizeof step || !is_hex16(random + 1))
        return false;
    snprintf(step, sizeof step, "%.*s", (int)(random - at), at);
    return strcmp(step, STEPS_SEEN) == 0 || step_parse(&number, step);
}

bool steps_name_is_left(const char *name) {
    char of[2 * STEP_NAME];
    size_t size = file_temporary_of(name);
    if (!size || size >= sizeof of)
        return is_on_its_way(name);
    snprintf(of, sizeof of, "%.*s", (int)size, name + 1);
    return strcmp(of, "latest") == 0 || strcmp(of, "best") == 0 || is_on_its_way(of);
}

bool steps_name_is_given(const char *name) {
    size_t size = file_aside_of(name), digits = strncmp(name, "step-", 5) == 0 ? strspn(name + 5, "0123456789") : 0;
    return steps_name_is_left(name) || (digits && 5 + digits == size) ||
           (size == 6 && strncmp(name, "latest", size) == 0) || (size == 4 && strncmp(name, "best", size) == 0);
}

static int steps_order(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

enum status steps_list(struct steps *out, const char *dir) {
    char **names;
    size_t n;
    *out = (struct steps){0};
    struct stat info;
    if (lstat(dir, &info) != 0 && (errno == ENOENT || errno == ENOTDIR)) // a link that leads nowhere is not missing
        return STATUS_OK;
    TRY(file_list(&names, &n, dir));
    out->at = calloc(n + 1, sizeof *out->at);
    for (size_t i = 0; i < n && out->at; i++)
        if (step_parse(&out->at[out->n], names[i]))
            out->n++;
    file_list_free(names, n);
    if (!out->at)
        return status_set(STATUS_SYSTEM, "list %s: no memory", dir);
    qsort(out->at, out->n, sizeof *out->at, steps_order); // names of nine digits sort before those of eight
    return STATUS_OK;
}

void steps_release(struct steps *steps) {
    free(steps->at);
    *steps = (struct steps){0};
}

char *step_path(const char *dir, uint64_t step) {
    char name[STEP_NAME];
    step_name(name, step);
    return path_join(dir, name);
}

enum status step_aside(char **aside, const char *dir, uint64_t step) {
    char *from = step_path(dir, step), *to = NULL;
    enum status status = from ? file_set_aside(&to, from, from)
                              : status_set(STATUS_SYSTEM, "rename step %" PRIu64 " in %s: no memory", step, dir);
    free(from);
    if (status == STATUS_OK)
        status = file_sync_folder(dir);
    if (aside && status == STATUS_OK)
        *aside = to;
    else
        free(to);
    return status;
}

enum status step_remove(char **temporary, const char *dir, uint64_t step) {
    char name[STEP_NAME];
    step_name(name, step);
    char *from = path_join(dir, name);
    char *to = text_format("%s/" STEPS_TMP "%s-%016lx", dir, name, (unsigned long)getpid());
    enum status status = STATUS_OK;
    if (!from || !to)
        status = status_set(STATUS_SYSTEM, "remove step %" PRIu64 " in %s: no memory", step, dir);
    else if (rename(from, to) != 0)
        status = status_errno(STATUS_IO, "remove %s", from);
    if (status != STATUS_OK)
        free(to);
    *temporary = status == STATUS_OK ? to : NULL;
    free(from);
    return status;
}

enum status step_link(const char *dir, const char *name, uint64_t step) {
    char target[STEP_NAME];
    char *path = path_join(dir, name);
    step_name(target, step);
    enum status status =
        path ? file_link(path, target) : status_set(STATUS_SYSTEM, "link %s in %s: no memory", name, dir);
    free(path);
    return status;
}

static bool step_link_leads(const char *path, const char *step) {
    char target[STEP_NAME + 1] = "";
    ssize_t size = readlink(path, target, sizeof target - 1);
    return size > 0 && strcmp(target, step) == 0;
}

enum status step_mend(bool *was_wrong, const char *dir, const char *name, uint64_t step) {
    char target[STEP_NAME], *path = path_join(dir, name), *aside = NULL;
    struct stat info;
    enum status status = path ? STATUS_OK : status_set(STATUS_SYSTEM, "link %s in %s: no memory", name, dir);
    step_name(target, step);
    *was_wrong = path && !step_link_leads(path, target);
    if (*was_wrong && lstat(path, &info) == 0 && !S_ISLNK(info.st_mode))
        status = file_set_aside(&aside, path, path);
    if (*was_wrong && status == STATUS_OK)
        status = step_link(dir, name, step);
    if (aside)
        log_warn("checkpoint: %s is no link: set aside as %s", path, aside);
    free(aside);
    free(path);
    return status;
}

enum status step_unlink(const char *dir, const char *name) {
    struct stat info;
    char *path = path_join(dir, name);
    enum status status = path ? STATUS_OK : status_set(STATUS_SYSTEM, "unlink %s in %s: no memory", name, dir);
    if (path && lstat(path, &info) == 0 && S_ISLNK(info.st_mode) && unlink(path) != 0)
        status = status_errno(STATUS_IO, "remove %s", path);
    free(path);
    return status;
}
