// SPDX-License-Identifier: Apache-2.0
#include "export/export.h"

#include "base/file.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

void export_result_release(struct export_result *result) {
    free(result->path);
    *result = (struct export_result){0};
}

enum status export_may(const struct export_model *model) {
    return model->may ? model->may(model->context) : STATUS_OK;
}

static enum status export_hf(struct export_result *out, const struct export_model *model, const char *path,
                             struct pool *pool) {
    return export_archive(out, model, path, NULL, pool);
}

const struct exporter exporters[] = {
    {JOB_EXPORT_HF, "hf", "-hf.tar.gz", export_hf},
    {JOB_EXPORT_SAGEMAKER, "sagemaker", "-sagemaker.tar.gz", export_sagemaker},
    {.kind = NULL},
};

const struct exporter *export_find(const char *kind) {
    for (const struct exporter *e = exporters; e->kind; e++)
        if (strcmp(e->kind, kind) == 0)
            return e;
    return NULL;
}

char *export_path(const struct exporter *exporter, const char *folder, const char *name) {
    char *file = text_format("%s%s", name, exporter->ending), *path = file ? path_join(folder, file) : NULL;
    free(file);
    return path;
}

enum status export_run(struct export_result *out, const struct exporter *exporter, const struct export_model *model,
                       const char *folder, struct pool *pool) {
    char *path = export_path(exporter, folder, model->name);
    enum status status = path ? file_make_folders(folder) : status_set(STATUS_SYSTEM, "export: no memory");
    if (status == STATUS_OK)
        status = exporter->run(out, model, path, pool);
    free(path);
    return status;
}
