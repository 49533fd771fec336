// SPDX-License-Identifier: Apache-2.0
#include "daemon/intact.h"

#include "export/sums.h"
#include "train/base.h"

#include <string.h>

// The card is text for people, who may edit it.
static enum status intact_files(const struct sums *sums, const char *folder) {
    for (size_t i = 0; i < sums->n; i++)
        if (strcmp(sums->at[i].name, "README.md") != 0)
            TRY(sums_check_file(&sums->at[i], folder));
    return STATUS_OK;
}

enum status intact_check(const char *key, const char *folder) {
    struct sums sums;
    enum status status = sums_read(&sums, folder);
    if (status == STATUS_OK)
        status = intact_files(&sums, folder);
    sums_release(&sums);
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
