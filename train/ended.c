// SPDX-License-Identifier: Apache-2.0
#include "train/ended.h"

#include "base/file.h"
#include "base/job.h"
#include "train/history.h"
#include "train/report_text.h"

#include <stdlib.h>
#include <string.h>

static bool has(const char *out, const char *name) {
    char *path = path_join(out, name);
    bool is = path && file_named(path);
    free(path);
    return is;
}

// Whether a run wrote the job file: its first line.
static bool has_job(const char *out) {
    char *path = path_join(out, "job.yaml"), *bytes = NULL;
    bool is = path && file_check_regular(path) == STATUS_OK &&
              file_read(&bytes, NULL, path, JOB_FILE_MAX) == STATUS_OK &&
              strncmp(bytes, JOB_FILE_WRITTEN, strlen(JOB_FILE_WRITTEN)) == 0;
    free(bytes);
    free(path);
    return is;
}

static bool has_report(const char *out) {
    json_t *report = NULL;
    bool is = has(out, REPORT_JSON) && report_read(&report, out) == STATUS_OK &&
              json_is_string(json_object_get(report, "run_id")) && json_is_object(json_object_get(report, "val"));
    json_decref(report);
    return is;
}

const char *ended_has(const char *out, bool any, uint64_t end_step) {
    if (end_step)
        return has(out, "model") ? "model" : has(out, REPORT_JSON) ? REPORT_JSON : NULL;
    if (any || !has_job(out))
        return NULL;
    return has(out, "model/finetuned.json") ? "model" : has_report(out) ? REPORT_JSON : NULL;
}
