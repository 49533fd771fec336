// SPDX-License-Identifier: Apache-2.0
#include "model/safetensors.h"

#include <stddef.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What is accepted can be read to its last element.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct safetensors file;
    if (safetensors_parse(&file, (const char *)data, size, "fuzz") != STATUS_OK)
        return 0;
    for (size_t i = 0; i < file.n; i++) {
        const struct tensor *tensor = safetensors_find(&file, file.at[i].name);
        double last;
        if (tensor != &file.at[i])
            __builtin_trap();
        for (uint64_t k = 0; k < tensor->elements; k++)
            tensor_doubles(&last, tensor, k, 1);
    }
    safetensors_close(&file);
    return 0;
}
