// SPDX-License-Identifier: Apache-2.0
// Credentials in any text: what is masked does not grow, and is masked once for all.
#include "base/secret.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = strndup((const char *)data, size), *once = NULL;
    if (!text)
        return 0;
    size_t before = strlen(text);
    bool found = secret_is_in(text);
    once = strdup(text);
    if (once) {
        secret_mask(once);
        if (strlen(once) > before || (!found && strcmp(once, text) != 0))
            abort();
        memcpy(text, once, strlen(once) + 1);
        secret_mask(text);
        if (strcmp(once, text) != 0)
            abort();
    }
    free(once);
    free(text);
    return 0;
}
