// SPDX-License-Identifier: Apache-2.0
#include "daemon/verify/published.h"

#include "base/file.h"
#include "base/hash.h"
#include "export/sums.h"

#include <stdlib.h>
#include <string.h>

#define WEIGHTS "model.safetensors"

static enum status published_differs(const char *path, const char *event) {
    return status_set(STATUS_DATA,
                      "%s: its SHA-256 is not the one of the run's %s event (damaged, edited or another's)", path,
                      event);
}

enum status published_check(const char *path, const char *wanted, const char *event) {
    char sha256[65];
    TRY(hash_sha256_file(sha256, path));
    return !wanted || !*wanted || strcmp(sha256, wanted) == 0 ? STATUS_OK : published_differs(path, event);
}

enum status published_check_model(const char *folder, const char *wanted) {
    struct sums sums;
    TRY(sums_read(&sums, folder));
    const struct sum *sum = sums_find(&sums, WEIGHTS);
    bool same = !wanted || !*wanted || (sum && strcmp(sum->sha256, wanted) == 0);
    sums_release(&sums);
    char *path = same ? NULL : path_join(folder, WEIGHTS);
    enum status status = same ? STATUS_OK : published_differs(path ? path : folder, "export");
    free(path);
    return status;
}
