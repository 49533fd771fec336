// SPDX-License-Identifier: Apache-2.0
#include "train/report_sums.h"

#include "base/file.h"
#include "base/hash.h"
#include "train/told_sum.h"

#include <stdlib.h>
#include <string.h>

static enum status sum_of(char sha256[65], const char *folder, const char *name) {
    char *path = path_join(folder, name);
    enum status status = path ? hash_sha256_file(sha256, path) : status_set(STATUS_SYSTEM, "report: no memory");
    free(path);
    return status;
}

enum status report_sums_print(struct text *out, const char *folder) {
    char json[65], markdown[65];
    TRY(sum_of(json, folder, REPORT_JSON));
    TRY(sum_of(markdown, folder, REPORT_MARKDOWN));
    text_printf(out, "{\"" REPORT_JSON "\": \"%s\", \"" REPORT_MARKDOWN "\": \"%s\"}", json, markdown);
    return STATUS_OK;
}

static enum status sum_check(const char *told, const char *folder, const char *name) {
    char *path = path_join(folder, name);
    enum status status = path ? STATUS_OK : status_set(STATUS_SYSTEM, "report: no memory");
    if (path && *told && file_named(path))
        status = told_sum_check(path, told, "end");
    free(path);
    return status;
}

enum status report_sums_check(const struct history_report *told, const char *folder) {
    TRY(sum_check(told->json, folder, REPORT_JSON));
    return sum_check(told->markdown, folder, REPORT_MARKDOWN);
}
