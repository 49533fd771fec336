// SPDX-License-Identifier: Apache-2.0
// mapping.txt: what is taken has as many distinct names as it says, and each is found by its id.
#include "data/labels.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct labels labels;
    if (labels_parse(&labels, "fuzz", (const char *)data, size) != STATUS_OK) {
        if (labels.n || labels.names)
            abort();
        return 0;
    }
    if (labels.n == 0 || labels.n > LABELS_MAX)
        abort();
    for (uint32_t i = 0; i < labels.n && i < 100; i++)
        if (!labels.names[i][0] || labels_find(&labels, labels.names[i]) != (int32_t)i)
            abort();
    labels_release(&labels);
    return 0;
}
