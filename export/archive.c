// SPDX-License-Identifier: Apache-2.0
// Deterministic tar.gz: names sorted, times zero, no owner, mode 0644, gzip without a time stamp.
#include "base/file.h"
#include "base/hash.h"
#include "base/pulse.h"
#include "base/text.h"
#include "export/export.h"
#include "export/sums.h"

#include <archive.h>
#include <archive_entry.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK ((size_t)1 << 20) // bytes that are compressed between two beats (base/pulse.h)

static enum status archive_fail(struct archive *archive, const char *path) {
    return status_set(STATUS_IO, "export: writing %s: %s", path, archive_error_string(archive));
}

static enum status archive_bytes(struct archive *archive, const struct file_map *map, const char *path) {
    for (size_t at = 0; at < map->size;) {
        la_ssize_t n = archive_write_data(archive, map->at + at, map->size - at < BLOCK ? map->size - at : BLOCK);
        pulse_beat();
        if (n <= 0)
            return archive_fail(archive, path);
        at += (size_t)n;
    }
    return STATUS_OK;
}

static enum status archive_header(struct archive *archive, const char *path, const char *name, size_t size) {
    struct archive_entry *entry = archive_entry_new();
    if (!entry)
        return status_set(STATUS_SYSTEM, "export: no memory");
    archive_entry_set_pathname(entry, name);
    archive_entry_set_size(entry, (la_int64_t)size);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_mtime(entry, 0, 0);
    enum status status = archive_write_header(archive, entry) == ARCHIVE_OK ? STATUS_OK : archive_fail(archive, path);
    archive_entry_free(entry);
    return status;
}

static enum status archive_file(struct archive *archive, const char *path, const char *from, const char *name) {
    struct file_map map = {0};
    TRY(file_map_open(&map, from));
    enum status status = archive_header(archive, path, name, map.size);
    if (status == STATUS_OK)
        status = archive_bytes(archive, &map, path);
    file_map_close(&map);
    return status;
}

static enum status archive_folder(struct archive *archive, const char *path, const char *folder, const char *inside);

// A file, or all that a folder holds.
static enum status archive_one(struct archive *archive, const char *path, const char *folder, const char *name) {
    char *from = path_join(folder, name);
    enum status status = from ? file_is_folder(from) ? archive_folder(archive, path, folder, name)
                                                     : archive_file(archive, path, from, name)
                              : status_set(STATUS_SYSTEM, "export: no memory");
    free(from);
    return status;
}

// `inside`: the path below `folder`, "" for itself.
static enum status archive_folder(struct archive *archive, const char *path, const char *folder, const char *inside) {
    char **names, *from = path_join(folder, inside);
    size_t n;
    enum status status = from ? file_list(&names, &n, from) : status_set(STATUS_SYSTEM, "export: no memory");
    free(from);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        char *name = path_join(inside, names[i]);
        status = name ? archive_one(archive, path, folder, name) : status_set(STATUS_SYSTEM, "export: no memory");
        free(name);
    }
    file_list_free(names, n);
    return status;
}

static enum status archive_fill(struct archive *archive, const char *path, const char *folder) {
    if (archive_write_set_format_pax_restricted(archive) != ARCHIVE_OK ||
        archive_write_add_filter_gzip(archive) != ARCHIVE_OK ||
        archive_write_set_filter_option(archive, "gzip", "timestamp", NULL) != ARCHIVE_OK ||
        archive_write_open_filename(archive, path) != ARCHIVE_OK)
        return archive_fail(archive, path);
    TRY(archive_folder(archive, path, folder, ""));
    return archive_write_close(archive) != ARCHIVE_OK ? archive_fail(archive, path) : STATUS_OK;
}

// `model`: who is asked before it is published; NULL: nobody.
static enum status archive_make(const char *path, const char *folder, const struct export_model *model) {
    char *staged = file_temporary(path);
    struct archive *archive = archive_write_new();
    enum status status =
        staged && archive ? archive_fill(archive, staged, folder) : status_set(STATUS_SYSTEM, "export: no memory");
    archive_write_free(archive);
    if (status == STATUS_OK && model)
        status = export_may(model);
    if (status == STATUS_OK)
        status = file_adopt(path, staged);
    if (status != STATUS_OK && staged)
        file_remove(staged);
    free(staged);
    return status;
}

enum status archive_write(const char *path, const char *folder) {
    return archive_make(path, folder, NULL);
}

static enum status archive_result(struct export_result *out, const char *path, const char *check) {
    struct stat info;
    TRY(hash_sha256_file(out->sha256, path));
    if (stat(path, &info) != 0)
        return status_errno(STATUS_IO, "export: %s", path);
    out->bytes = (uint64_t)info.st_size;
    snprintf(out->check, sizeof out->check, "%s", check);
    out->path = strdup(path);
    return out->path ? STATUS_OK : status_set(STATUS_SYSTEM, "export: no memory");
}

enum status export_archive(struct export_result *out, const struct export_model *model, const char *path,
                           enum status (*add)(const char *staged), struct pool *pool) {
    struct export_result directory = {0};
    char *staged = file_temporary(path);
    enum status status = staged ? file_sweep_beside(path) : status_set(STATUS_SYSTEM, "export: no memory");
    if (status == STATUS_OK)
        status = export_hf_directory(&directory, model, staged, pool);
    if (status == STATUS_OK && add)
        status = add(staged);
    if (status == STATUS_OK && add)
        status = sums_write(staged); // with what was added
    if (status == STATUS_OK)
        status = archive_make(path, staged, model);
    if (status == STATUS_OK)
        status = archive_result(out, path, directory.check);
    if (staged)
        file_remove(staged);
    export_result_release(&directory);
    free(staged);
    return status;
}
