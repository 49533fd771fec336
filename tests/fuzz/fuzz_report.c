// SPDX-License-Identifier: Apache-2.0
// report.json as Markdown: any JSON object is shown as far as it goes, with its tables whole.
#include "train/report_text.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    json_t *report = json_loadb((const char *)data, size, 0, NULL);
    struct text text = {0};
    report_markdown(&text, report);
    report_scores(&text, json_object_get(report, "test"));
    if (!text_string(&text) && text.size < TEXT_MAX / 2)
        abort();
    text_release(&text);
    json_decref(report);
    return 0;
}
