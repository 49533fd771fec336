// SPDX-License-Identifier: Apache-2.0
#include "train/told_sum.h"

#include "base/hash.h"

#include <string.h>

enum status told_sum_differs(const char *path, const char *event) {
    return status_set(STATUS_DATA,
                      "%s: its SHA-256 is not the one of the run's %s event (damaged, edited or another's)", path,
                      event);
}

enum status told_sum_check(const char *path, const char *wanted, const char *event) {
    char sha256[65];
    TRY(hash_sha256_file(sha256, path));
    return !wanted || !*wanted || strcmp(sha256, wanted) == 0 ? STATUS_OK : told_sum_differs(path, event);
}
