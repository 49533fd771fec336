// SPDX-License-Identifier: Apache-2.0
// events.jsonl: whole lines are counted, names end, and the whole lines alone give the same again.
#include "train/history.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct history h, again;
    size_t whole, same;
    if (history_parse(&h, &whole, (const char *)data, size) != STATUS_OK)
        return 0;
    if (whole > size || (whole && data[whole - 1] != '\n') ||
        (whole < size && memchr(data + whole, '\n', size - whole)))
        abort();
    for (size_t i = 0; i < h.n; i++)
        if (memchr(h.evaluations[i].split, 0, sizeof h.evaluations[i].split) == NULL)
            abort();
    if (history_parse(&again, &same, (const char *)data, whole) != STATUS_OK || same != whole || again.n != h.n ||
        again.step != h.step || again.starts != h.starts || strcmp(again.ended, h.ended) != 0)
        abort();
    history_release(&again);
    history_release(&h);
    return 0;
}
