// SPDX-License-Identifier: Apache-2.0
// Answers as SQuAD compares them: what is normalised is valid UTF-8, has single blanks between words only, normalises
// to itself, and agrees with what it came from.
#include "base/text.h"
#include "model/squad_metrics.h"
#include "model/squad_text.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void blanks_check(const struct text *text) {
    for (size_t i = 0; i < text->size; i++)
        if (text->at[i] == ' ' && (i == 0 || i + 1 == text->size || text->at[i + 1] == ' '))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *bytes = (const char *)data;
    struct text once = {0}, twice = {0};
    struct squad_score score;
    if (squad_normalize(&once, bytes, size) != STATUS_OK) {
        if (utf8_check(bytes, size) == size)
            abort();
        text_release(&once);
        return 0;
    }
    blanks_check(&once);
    const char *normal = text_string(&once);
    if (utf8_check(normal, once.size) != once.size || squad_normalize(&twice, normal, once.size) != STATUS_OK ||
        twice.size != once.size || memcmp(text_string(&twice), normal, once.size) != 0)
        abort();
    const struct source_answer gold = {normal, once.size, 0, 0};
    if (squad_score(&score, SQUAD_V2, bytes, size, &gold, 1) != STATUS_OK || score.exact != 1 || score.f1 != 1)
        abort();
    text_release(&once);
    text_release(&twice);
    return 0;
}
