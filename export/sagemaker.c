// SPDX-License-Identifier: Apache-2.0
// <name>-sagemaker.tar.gz: the Hugging Face directory's files, and code/inference.py for SageMaker's stock Hugging Face
// inference container, which needs nothing else. The script's source is export/sagemaker/inference.py.
#include "base/file.h"
#include "export/export.h"

#include <stdlib.h>

extern const unsigned char sagemaker_inference[]; // made by the build from the script
extern const size_t sagemaker_inference_size;

static enum status sagemaker_code(const char *staged) {
    char *folder = path_join(staged, "code"), *path = path_join(staged, "code/inference.py");
    enum status status = folder && path ? file_make_folders(folder) : status_set(STATUS_SYSTEM, "export: no memory");
    if (status == STATUS_OK)
        status = file_replace(path, sagemaker_inference, sagemaker_inference_size);
    free(path);
    free(folder);
    return status;
}

enum status export_sagemaker(struct export_result *out, const struct export_model *model, const char *path,
                             struct pool *pool) {
    return export_archive(out, model, path, sagemaker_code, pool);
}
