// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"
#include "model/config.h"

#include <stddef.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What is accepted has room for a text, and is printed and read again as a model of the same sizes.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct model_config config, again;
    char *text;
    log_setup(LOG_ERROR, 0, 1);
    if (model_config_parse(&config, (const char *)data, size, "fuzz") != STATUS_OK)
        return 0;
    if (model_usable_length(&config) == 0 || config.hidden % config.heads != 0 ||
        (uint32_t)config.pad_id >= config.vocab)
        __builtin_trap();
    if (config.labels < 1000 && model_config_print(&text, &config) == STATUS_OK) { // more would only be slow
        if (model_config_parse(&again, text, strlen(text), "again") != STATUS_OK || again.labels != config.labels)
            __builtin_trap();
        model_config_release(&again);
        free(text);
    }
    model_config_release(&config);
    return 0;
}
