// SPDX-License-Identifier: Apache-2.0
#include "daemon/verify/published.h"

#include "base/file.h"
#include "export/sums.h"
#include "model/weight_files.h"
#include "train/told_sum.h"

#include <stdlib.h>
#include <string.h>

enum status published_model_check(const char *folder, const char *wanted) {
    struct sums sums;
    TRY(sums_read(&sums, folder));
    const struct sum *sum = sums_find(&sums, WEIGHTS_NAME);
    bool same = !wanted || !*wanted || (sum && strcmp(sum->sha256, wanted) == 0);
    sums_release(&sums);
    char *path = same ? NULL : path_join(folder, WEIGHTS_NAME);
    enum status status = same ? STATUS_OK : told_sum_differs(path ? path : folder, "export");
    free(path);
    return status;
}
