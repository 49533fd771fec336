// SPDX-License-Identifier: Apache-2.0
// finetuned.json of a model directory: what is taken is in range.
#include "model/model.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct model_settings settings;
    if (model_settings_parse(&settings, (const char *)data, size, "fuzz") != STATUS_OK)
        return 0;
    if ((settings.max_length && settings.max_length < 3) || settings.max_length > 1 << 20 ||
        settings.doc_stride > 1 << 20)
        abort();
    if (settings.special != TOKENIZER_LITERAL && settings.special != TOKENIZER_PARSE)
        abort();
    if (settings.normalize != NORMALIZE_NONE && settings.normalize != NORMALIZE_TWEET)
        abort();
    return 0;
}
