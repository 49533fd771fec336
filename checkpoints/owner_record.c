// SPDX-License-Identifier: Apache-2.0
// Who we are, and who another's file says it is.
#include "base/file.h"
#include "base/hash.h"
#include "checkpoints/owner_parts.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define OWNER_MAX 65536 // bytes of the file

// ---- who we are

static void owner_read_line(char *out, size_t room, const char *path) {
    char *bytes = NULL;
    if (file_read(&bytes, NULL, path, OWNER_MAX) == STATUS_OK)
        snprintf(out, room, "%.*s", (int)strcspn(bytes, "\n"), bytes);
    free(bytes);
}

unsigned long long owner_start_time(long pid) {
    char path[64], line[1024] = "";
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    owner_read_line(line, sizeof line, path);
    char *at = strrchr(line, ')'); // the command's name may hold anything
    if (!at || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X')
        return 0;
    at += 2;
    for (int field = 3; field < 22 && at; field++)
        at = (at = strchr(at, ' ')) ? at + 1 : NULL;
    return at ? strtoull(at, NULL, 10) : 0;
}

enum status owner_record_self(struct owner_record *record) {
    uint64_t token[2];
    struct tm now;
    time_t seconds = time(NULL);
    *record = (struct owner_record){.pid = (long)getpid()};
    if (getrandom(token, sizeof token, 0) != (ssize_t)sizeof token)
        return status_errno(STATUS_SYSTEM, "random bytes");
    snprintf(record->token, sizeof record->token, "%016" PRIx64 "%016" PRIx64, token[0], token[1]);
    gethostname(record->host, sizeof record->host - 1);
    owner_read_line(record->boot_id, sizeof record->boot_id, "/proc/sys/kernel/random/boot_id");
    if (readlink("/proc/self/ns/pid", record->pid_namespace, sizeof record->pid_namespace - 1) < 0)
        record->pid_namespace[0] = '\0';
    strftime(record->started, sizeof record->started, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &now));
    record->start_time = owner_start_time(record->pid);
    return STATUS_OK;
}

// ---- the file's text

char *owner_format(const struct owner_record *record) {
    json_t *root = json_pack("{s:s, s:s, s:s, s:I, s:I, s:s, s:s, s:s}", "host", record->host, "boot_id",
                             record->boot_id, "pid_namespace", record->pid_namespace, "pid", (json_int_t)record->pid,
                             "start_time", (json_int_t)record->start_time, "started", record->started, "token",
                             record->token, "heartbeat", "0000000000000000");
    char *text = root ? json_dumps(root, JSON_PRESERVE_ORDER) : NULL;
    json_decref(root);
    return text;
}

static bool owner_text(char *out, size_t room, const json_t *root, const char *key) {
    const json_t *value = json_object_get(root, key);
    if (!json_is_string(value) || json_string_length(value) >= room)
        return false;
    memcpy(out, json_string_value(value), json_string_length(value) + 1);
    return true;
}

// It becomes part of a file's name.
static bool owner_token_is_right(const char *token) {
    for (const char *at = token; *at; at++)
        if (!isdigit((unsigned char)*at) && !(*at >= 'a' && *at <= 'f'))
            return false;
    return strlen(token) == 32;
}

static bool owner_record_read(struct owner_record *out, const json_t *root) {
    const json_t *pid = json_object_get(root, "pid"), *start = json_object_get(root, "start_time");
    if (!owner_text(out->host, sizeof out->host, root, "host") ||
        !owner_text(out->boot_id, sizeof out->boot_id, root, "boot_id") ||
        !owner_text(out->pid_namespace, sizeof out->pid_namespace, root, "pid_namespace") ||
        !owner_text(out->started, sizeof out->started, root, "started") ||
        !owner_text(out->token, sizeof out->token, root, "token") || !owner_token_is_right(out->token))
        return false;
    if (!json_is_integer(pid) || !json_is_integer(start) || json_integer_value(pid) <= 0 ||
        json_integer_value(start) < 0)
        return false;
    out->pid = (long)json_integer_value(pid);
    out->start_time = (unsigned long long)json_integer_value(start);
    return true;
}

enum status owner_parse(struct owner_record *out, const char *bytes, size_t size) {
    *out = (struct owner_record){0};
    json_t *root = size <= OWNER_MAX ? json_loadb(bytes, size, JSON_REJECT_DUPLICATES, NULL) : NULL;
    bool right = json_is_object(root) && owner_record_read(out, root);
    json_decref(root);
    return right ? STATUS_OK : status_set(STATUS_DATA, "not an owner's file");
}

// ---- the other's file

enum status owner_other_read(struct owner_other *out, const char *path) {
    *out = (struct owner_other){0};
    TRY(file_read(&out->bytes, &out->size, path, OWNER_MAX)); // missing: STATUS_DATA
    if (owner_parse(&out->record, out->bytes, out->size) == STATUS_OK)
        return STATUS_OK;
    out->garbage = true;
    out->record = (struct owner_record){0};
    snprintf(out->record.token, sizeof out->record.token, "%016" PRIx64 "%016zx", hash64(out->bytes, out->size),
             out->size);
    return STATUS_OK;
}

#define OWNER_REMEDY "remove it if no run uses the folder"

enum status owner_other_refuse(const char *path, enum status found) {
    struct stat info, real;
    if (lstat(path, &info) != 0)
        return file_missing_status(errno) == STATUS_DATA
                   ? STATUS_OK
                   : status_errno(STATUS_IO, "%s can't be read: " OWNER_REMEDY, path);
    bool link = S_ISLNK(info.st_mode), leads = stat(path, &real) == 0;
    if (!leads || !S_ISREG(real.st_mode))
        return status_set(STATUS_IO, "%s: %s, where a run that holds the folder has its file: " OWNER_REMEDY, path,
                          link && !leads          ? "a link that leads nowhere, or in a circle"
                          : link                  ? "a link to what is no regular file"
                          : S_ISDIR(info.st_mode) ? "a folder"
                                                  : "not a regular file");
    if (found != STATUS_DATA)
        return status_set(STATUS_IO, "%s: " OWNER_REMEDY, status_message());
    return real.st_size > OWNER_MAX
               ? status_set(STATUS_IO, "%s: larger than a run's file there is: " OWNER_REMEDY, path)
               : STATUS_OK;
}
