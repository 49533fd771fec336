// SPDX-License-Identifier: Apache-2.0
// FINETUNED_FAULT as arbitrary bytes.
#include "comm/comm.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *string = malloc(size + 1);
    if (!string)
        return 0;
    memcpy(string, data, size);
    string[size] = 0;
    struct comm_fault faults[COMM_FAULTS];
    unsigned n = 0;
    if (comm_faults_parse(faults, &n, string) == STATUS_OK && n > COMM_FAULTS)
        abort();
    free(string);
    return 0;
}
