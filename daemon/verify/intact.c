// SPDX-License-Identifier: Apache-2.0
#include "daemon/verify/intact.h"

#include "export/sums.h"
#include "train/base.h"

enum status intact_check(const char *key, const char *folder) {
    bool listed;
    enum status status = sums_usable(&listed, folder);
    if (status != STATUS_DATA)
        return status;
    char why[900];
    snprintf(why, sizeof why, "%s", status_message());
    return status_set(STATUS_DATA,
                      "%s: %s: restore it, or, if it was changed on purpose, remove " SUMS_NAME " there first", key,
                      why);
}

enum status intact_base(const struct job *job, struct comm *comm) {
    bool asks = comm->rank == 0 && !base_random(job->model.base);
    return comm_agree(comm, asks ? intact_check("model.base", job->model.base) : STATUS_OK);
}
