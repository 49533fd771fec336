// SPDX-License-Identifier: Apache-2.0
// The file .owner from bytes. What is accepted has a token that can be part of a file's name, and texts that end.
#include "checkpoints/owner.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct owner_record record;
    if (owner_parse(&record, (const char *)data, size) != STATUS_OK)
        return 0;
    if (strspn(record.token, "0123456789abcdef") != 32 || record.token[32] || record.pid <= 0 ||
        strlen(record.host) >= sizeof record.host)
        abort();
    return 0;
}
