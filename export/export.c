// SPDX-License-Identifier: Apache-2.0
#include "export/export.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"

#include <sys/stat.h>

void export_result_release(struct export_result *result) {
    free(result->path);
    *result = (struct export_result){0};
}

// The directory in a temporary place, and its archive <folder>/<name>-hf.tar.gz.
static enum status export_hf(struct export_result *out, const struct export_model *model, const char *folder,
                             struct pool *pool) {
    struct export_result directory = {0};
    enum status status = STATUS_SYSTEM;
    char *staged = text_format("%s/.tmp-%s-hf", folder, model->name);
    char *path = text_format("%s/%s-hf.tar.gz", folder, model->name);
    struct stat info;
    if (!staged || !path) {
        status_set(STATUS_SYSTEM, "export: no memory");
        goto done;
    }
    TRY_GOTO(file_make_folders(folder), done);
    TRY_GOTO(export_hf_directory(&directory, model, staged, pool), done);
    TRY_GOTO(archive_write(path, staged, ""), done);
    TRY_GOTO(hash_sha256_file(out->sha256, path), done);
    if (stat(path, &info) != 0)
        status = status_errno(STATUS_IO, "export: %s", path);
    else
        out->bytes = (uint64_t)info.st_size;
    memcpy(out->check, directory.check, sizeof out->check);
    out->path = path;
    path = NULL;
done:
    if (staged)
        file_remove(staged);
    export_result_release(&directory);
    free(staged);
    free(path);
    return status;
}

const struct exporter exporters[] = {
    {"hf", export_hf},
    {NULL, NULL},
};

const struct exporter *export_find(const char *kind) {
    for (const struct exporter *e = exporters; e->kind; e++)
        if (strcmp(e->kind, kind) == 0)
            return e;
    return NULL;
}
