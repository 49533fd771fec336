// SPDX-License-Identifier: Apache-2.0
// A file of predictions, as `score` reads it and `eval` writes it: the first byte is how many classes there are (0: any
// number), the rest is the file. What is taken has a row a line and only ids of a class; written again it is the file.
#include "base/text.h"
#include "data/labels.h"
#include "data/row.h"
#include "data/source.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void again(const int32_t *ids, size_t n, uint32_t classes, const char *bytes, size_t size) {
    struct text text = {0};
    if (n != row_count(bytes, size))
        abort();
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || (uint32_t)ids[i] >= (classes ? classes : LABELS_MAX))
            abort();
        text_printf(&text, "%d\n", ids[i]);
    }
    size_t missing = size && bytes[size - 1] != '\n'; // the last line's newline
    if (text.size != size + missing || (size && memcmp(text.at, bytes, size) != 0))
        abort();
    text_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int32_t *ids;
    size_t n;
    if (size == 0)
        return 0;
    const char *bytes = (const char *)data + 1;
    if (source_label_parse(&ids, &n, "fuzz", bytes, size - 1, data[0]) == STATUS_OK)
        again(ids, n, data[0], bytes, size - 1);
    else if (ids || n)
        abort();
    free(ids);
    return 0;
}
