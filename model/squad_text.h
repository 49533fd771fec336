// SPDX-License-Identifier: Apache-2.0
// An answer as SQuAD's scripts compare it (normalize_answer of evaluate-v1.1.py and evaluate-v2.0.py): lower case, no
// ASCII punctuation, without the words "a", "an" and "the", words one blank apart. As Python does it: str.lower (final
// sigma included), re's \b, str.split, by Unicode 14.
#ifndef FINETUNED_MODEL_SQUAD_TEXT_H
#define FINETUNED_MODEL_SQUAD_TEXT_H

#include "base/status.h"
#include "base/text.h"

#include <stddef.h>

// Adds the normalised answer to `out`. STATUS_DATA where `answer` is not valid UTF-8.
enum status squad_normalize(struct text *out, const char *answer, size_t size);

#endif
