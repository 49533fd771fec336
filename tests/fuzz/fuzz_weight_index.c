// SPDX-License-Identifier: Apache-2.0
// The index of weights in several files: every file that it names lies in its own folder, and each tensor has one.
#include "model/weight_index.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void name_walk(const char *name) {
    if (*name == '\0' || strlen(name) > 255 || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        abort();
    for (; *name; name++)
        if ((unsigned char)*name < 0x20 || *name == 0x7f)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct weight_index index;
    const char *name;
    json_t *value;
    if (weight_index_parse(&index, (const char *)data, size, "fuzz") != STATUS_OK)
        return 0;
    if (json_object_size(index.shards) == 0 || json_object_size(index.shards) > WEIGHT_SHARDS_MAX)
        abort();
    json_object_foreach((json_t *)(uintptr_t)index.map, name, value) {
        const char *file = weight_index_file(&index, name);
        if (!file || !json_object_get(index.shards, file))
            abort();
    }
    json_object_foreach(index.shards, name, value) name_walk(name);
    weight_index_release(&index);
    return 0;
}
