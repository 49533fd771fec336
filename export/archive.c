// SPDX-License-Identifier: Apache-2.0
// Deterministic tar.gz: names sorted, times zero, no owner, mode 0644, gzip without a time stamp.
#include "base/file.h"
#include "base/text.h"
#include "export/export.h"

#include <archive.h>
#include <archive_entry.h>
#include <sys/stat.h>
#include <unistd.h>

static enum status archive_fail(struct archive *archive, const char *path) {
    return status_set(STATUS_IO, "export: writing %s: %s", path, archive_error_string(archive));
}

static enum status archive_bytes(struct archive *archive, const struct file_map *map, const char *path) {
    for (size_t at = 0; at < map->size;) {
        la_ssize_t n = archive_write_data(archive, map->at + at, map->size - at);
        if (n <= 0)
            return archive_fail(archive, path);
        at += (size_t)n;
    }
    return STATUS_OK;
}

static enum status archive_file(struct archive *archive, const char *path, const char *folder, const char *prefix,
                                const char *name) {
    struct file_map map = {0};
    struct archive_entry *entry = archive_entry_new();
    char *from = path_join(folder, name), *as = text_format("%s%s", prefix, name);
    enum status status =
        entry && from && as ? file_map_open(&map, from) : status_set(STATUS_SYSTEM, "export: no memory");
    if (status == STATUS_OK) {
        archive_entry_set_pathname(entry, as);
        archive_entry_set_size(entry, (la_int64_t)map.size);
        archive_entry_set_filetype(entry, AE_IFREG);
        archive_entry_set_perm(entry, 0644);
        archive_entry_set_mtime(entry, 0, 0);
        status = archive_write_header(archive, entry) == ARCHIVE_OK ? archive_bytes(archive, &map, path)
                                                                    : archive_fail(archive, path);
    }
    file_map_close(&map);
    archive_entry_free(entry);
    free(as);
    free(from);
    return status;
}

static enum status archive_fill(struct archive *archive, const char *path, const char *folder, const char *prefix) {
    char **names;
    size_t n;
    enum status status = STATUS_OK;
    if (archive_write_set_format_pax_restricted(archive) != ARCHIVE_OK ||
        archive_write_add_filter_gzip(archive) != ARCHIVE_OK ||
        archive_write_set_filter_option(archive, "gzip", "timestamp", NULL) != ARCHIVE_OK ||
        archive_write_open_filename(archive, path) != ARCHIVE_OK)
        return archive_fail(archive, path);
    TRY(file_list(&names, &n, folder));
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        status = archive_file(archive, path, folder, prefix, names[i]);
    file_list_free(names, n);
    return status == STATUS_OK && archive_write_close(archive) != ARCHIVE_OK ? archive_fail(archive, path) : status;
}

enum status archive_write(const char *path, const char *folder, const char *prefix) {
    char *staged = text_format("%s.tmp-%d", path, (int)getpid());
    struct archive *archive = archive_write_new();
    enum status status = staged && archive ? archive_fill(archive, staged, folder, prefix)
                                           : status_set(STATUS_SYSTEM, "export: no memory");
    archive_write_free(archive);
    if (status == STATUS_OK)
        status = file_adopt(path, staged);
    if (status != STATUS_OK && staged)
        file_remove(staged);
    free(staged);
    return status;
}
