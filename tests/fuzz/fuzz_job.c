// SPDX-License-Identifier: Apache-2.0
// Any bytes as a job file: taken or refused with 64 and a message; what is taken prints as a file that is the same job.
#include "base/job.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct job *job, *again;
    char *yaml, *second;
    enum status status = job_parse(&job, (const char *)data, size, "fuzz.yaml", NULL, 0, JOB_NEED_NOTHING);
    if (status != STATUS_OK) {
        if (status != STATUS_USAGE || !*status_message())
            abort();
        return 0;
    }
    if (job_print_yaml(&yaml, job, true) != STATUS_OK ||
        job_parse(&again, yaml, strlen(yaml), "fuzz.yaml", NULL, 0, JOB_NEED_NOTHING) != STATUS_OK ||
        job_print_yaml(&second, again, true) != STATUS_OK || strcmp(yaml, second) != 0)
        abort();
    free(yaml);
    free(second);
    job_free(job);
    job_free(again);
    return 0;
}
