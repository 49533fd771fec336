// SPDX-License-Identifier: Apache-2.0
// What a run's exports made: <out>/model and the artifacts; and what lies beside those.
#include "daemon/verify/parts.h"

#include "base/file.h"
#include "daemon/verify/published.h"
#include "export/export.h"
#include "export/sums.h"
#include "model/weight_files.h"
#include "train/told_sum.h"

#include <stdlib.h>
#include <string.h>

// Whether the next start makes an artifact of this name where it is missing or wrong. Without a job nobody knows.
static bool job_makes(const struct job *job, const char *name) {
    bool makes = !job;
    for (unsigned i = 0; job && exporters[i].kind && !makes; i++) {
        char *path = job->export.to[exporters[i].job] ? export_path(&exporters[i], ".", job->job) : NULL;
        makes = path && strcmp(strrchr(path, '/') + 1, name) == 0;
        free(path);
    }
    return makes;
}

// ---- artifacts

// One that an export event tells of.
static enum status told_item(struct verify *v, const struct verify_told *told, const char *below, const char *path,
                             const char *wanted) {
    enum inspect_kind kind = INSPECT_NONE;
    enum verify_depth depth = VERIFY_HASHES;
    char why[900];
    enum status status = told_sum_check(path, wanted, "export");
    if (status == STATUS_OK)
        status = inspect_kind_of(&kind, path);
    if (status == STATUS_OK)
        status = verify_one(&depth, kind, path);
    snprintf(why, sizeof why, "%s", status != STATUS_OK ? status_message() : "");
    if (status == STATUS_DATA && !job_makes(told->job, strrchr(below, '/') + 1))
        status_set(status, "%s; the job does not ask for it now: remove it, or set export.to", why);
    return verify_found(v, below, kind == INSPECT_NONE ? "archive" : inspect_kind_name(kind), status, depth);
}

// One of which the events tell nothing: it may be the user's. What is whole is a line all the same; only of a name that
// the run gives is damage the run's.
static enum status other_item(struct verify *v, const struct verify_told *told, const char *below, const char *path) {
    const char *name = strrchr(below, '/') + 1;
    enum inspect_kind kind = INSPECT_NONE;
    enum verify_depth depth = VERIFY_HASHES;
    char text[1024];
    if (file_is_temporary(name) || inspect_kind_of(&kind, path) != STATUS_OK)
        return verify_note(v, below, "no artifact that is known: not looked at");
    snprintf(text, sizeof text, "a %s that this run did not make: not looked at", inspect_kind_name(kind));
    if (file_is_folder(path))
        return verify_note(v, below, text);
    enum status status = verify_one(&depth, kind, path);
    bool damaged = status == STATUS_DATA || status == STATUS_IO;
    if (!damaged || (told->job && job_makes(told->job, name)))
        return verify_found(v, below, inspect_kind_name(kind), status, depth);
    snprintf(text, sizeof text, "nothing that this run made, and not intact: %s", status_message());
    return verify_note(v, below, text);
}

static enum status artifact_item(struct verify *v, const struct verify_told *told, const char *name) {
    const char *wanted = json_string_value(json_object_get(told->exports, name));
    char *below = path_join("artifacts", name), *path = below ? path_join(v->path, below) : NULL;
    enum status status = !path    ? verify_no_memory(v)
                         : wanted ? told_item(v, told, below, path, wanted)
                                  : other_item(v, told, below, path);
    free(path);
    free(below);
    return status;
}

// One that an export event tells of and that is not there: what the job does not ask for any more may be gone.
static enum status artifact_lacking(struct verify *v, const struct verify_told *told, const char *name) {
    char *below = path_join("artifacts", name);
    enum status status = STATUS_OK;
    if (!below)
        return verify_no_memory(v);
    if (job_makes(told->job, name))
        status = verify_lacks(v, below, "archive", "the run's export event tells of it");
    else if (!verify_there(v, below))
        status = verify_note(v, below, "was made once; it is gone, and the job does not ask for it now");
    free(below);
    return status;
}

// ---- the model

// Its own list, and the weights' SHA-256 as the run published it.
static enum status model_item(struct verify *v, const struct verify_told *told) {
    enum verify_depth depth = VERIFY_STRUCTURE;
    char *path = path_join(v->path, "model");
    enum status status = path ? verify_one(&depth, INSPECT_MODEL, path) : verify_no_memory(v);
    if (status == STATUS_OK && depth != VERIFY_HASHES)
        status = status_set(STATUS_DATA, "%s/" SUMS_NAME ": is missing: a run writes it with its model", path);
    if (status == STATUS_OK)
        status = published_model_check(path, json_string_value(json_object_get(told->exports, WEIGHTS_NAME)));
    free(path);
    return verify_found(v, "model", "model", status, depth);
}

enum status verify_exports(struct verify *v, const struct verify_told *told) {
    const char *name;
    json_t *sha256;
    enum status status = STATUS_OK;
    if (verify_there(v, "model"))
        TRY(model_item(v, told));
    if (verify_there(v, "artifacts"))
        TRY(verify_each(v, "artifacts", "archive", told, artifact_item));
    json_object_foreach(told->exports, name, sha256) {
        if (status == STATUS_OK && strcmp(name, WEIGHTS_NAME) != 0)
            status = artifact_lacking(v, told, name);
    }
    return status;
}
