// SPDX-License-Identifier: Apache-2.0
// A SQuAD file, once as train and once as another split. What is taken: ids differ, every answer is what its context
// holds there, and a question without one is unlabelled only where that is allowed.
#include "data/squad.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void answers_walk(const struct example *row) {
    for (uint32_t i = 0; i < row->n_answers; i++) {
        const struct source_answer *answer = &row->answers[i];
        if (answer->size == 0 || answer->begin >= answer->end || answer->end > row->pair_size ||
            answer->end - answer->begin != answer->size)
            abort();
        if (memcmp(row->pair + answer->begin, answer->text, answer->size) != 0)
            abort();
    }
}

static void rows_walk(const struct source *source, bool answered) {
    if (source->n == 0)
        abort();
    for (size_t i = 0; i < source->n; i++) {
        const struct example *row = &source->rows[i];
        if (utf8_check(row->text, row->text_size) != row->text_size ||
            utf8_check(row->pair, row->pair_size) != row->pair_size)
            abort();
        if (row->label < -1 || row->label > 0 || (row->label < 0 && (answered || row->n_answers)))
            abort();
        if (!*row->id || (i && strcmp(row->id, row[-1].id) == 0))
            abort();
        answers_walk(row);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t rows[2] = {0, 0};
    for (int answered = 0; answered < 2; answered++) {
        struct source source = {0};
        if (squad_parse(&source, "fuzz.json", (const char *)data, size, answered) == STATUS_OK) {
            rows_walk(&source, answered);
            rows[answered] = source.n;
        }
        source_close(&source);
    }
    if (rows[1] && rows[0] != rows[1])
        abort();
    return 0;
}
