// SPDX-License-Identifier: Apache-2.0
#include "model/pickle.h"

#include <stddef.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Strings lie within the input; a tensor's storage is one.
static void value_check(const struct pickle_value *value, const char *begin, const char *end) {
    if (value->kind > PICKLE_TENSOR || pickle_kind_name(value->kind) == NULL)
        __builtin_trap();
    if (value->kind == PICKLE_STRING && (value->string.at < begin || value->string.at + value->string.size > end))
        __builtin_trap();
    if (value->kind == PICKLE_TENSOR)
        if (value->tensor.rank > TENSOR_RANK_MAX ||
            value->tensor.storage->key.at + value->tensor.storage->key.size > end)
            __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *bytes = (const char *)data;
    struct pickle pickle;
    if (pickle_parse(&pickle, bytes, size, "fuzz") != STATUS_OK)
        return 0;
    const struct pickle_value *root = pickle.root;
    value_check(root, bytes, bytes + size);
    for (size_t i = 0; root->kind >= PICKLE_TUPLE && root->kind <= PICKLE_ORDERED && i < root->items.n; i++)
        value_check(root->items.at[i], bytes, bytes + size);
    pickle_release(&pickle);
    return 0;
}
