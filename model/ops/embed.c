// SPDX-License-Identifier: Apache-2.0
#include "model/ops/declare.h"

void ISA_NAME(embed_row)(float *out, const float *word, const float *position, const float *type, size_t c) {
    for (size_t i = 0; i < c; i++)
        out[i] = word[i] + type[i] + position[i];
}
