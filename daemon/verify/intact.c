// SPDX-License-Identifier: Apache-2.0
#include "daemon/verify/intact.h"

#include "base/file.h"
#include "export/sums.h"
#include "train/base.h"

#include <stdlib.h>

// One that was not downloaded was not changed on purpose.
static bool intact_pointers(const char *folder) {
    char **names;
    size_t n;
    bool any = false;
    if (file_list(&names, &n, folder) != STATUS_OK)
        return false;
    for (size_t i = 0; i < n && !any; i++) {
        char *path = path_join(folder, names[i]);
        any = path && file_is_pointer(path);
        free(path);
    }
    file_list_free(names, n);
    return any;
}

enum status intact_check(const char *key, const char *folder) {
    bool listed;
    enum status status = sums_usable(&listed, folder);
    if (status != STATUS_DATA)
        return status;
    char why[900];
    snprintf(why, sizeof why, "%s", status_message());
    if (intact_pointers(folder))
        return status_set(STATUS_DATA, "%s: %s", key, why);
    return status_set(STATUS_DATA,
                      "%s: %s: restore it, or, if it was changed on purpose, remove " SUMS_NAME " there first", key,
                      why);
}

enum status intact_base(const struct job *job, struct comm *comm) {
    bool asks = comm->rank == 0 && !base_random(job->model.base);
    return comm_agree(comm, asks ? intact_check("model.base", job->model.base) : STATUS_OK);
}
