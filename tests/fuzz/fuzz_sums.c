// SPDX-License-Identifier: Apache-2.0
// finetuned.sha256: what is read must be found again by name, and no name leads out of the folder.
#include "export/sums.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    struct sums sums;
    if (sums_parse(&sums, (const char *)bytes, size, "fuzz") != STATUS_OK)
        return 0;
    for (size_t i = 0; i < sums.n; i++)
        if (sums_find(&sums, sums.at[i].name) != &sums.at[i] || sums.at[i].name[0] == '/' ||
            strncmp(sums.at[i].name, "../", 3) == 0 || strstr(sums.at[i].name, "/../"))
            abort();
    sums_release(&sums);
    return 0;
}
