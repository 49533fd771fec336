// SPDX-License-Identifier: Apache-2.0
#include "data/unicode.h"

// Hangul syllables fall apart by arithmetic (The Unicode Standard, section 3.12), all others by table.
static unsigned hangul_lower(uint32_t code, uint32_t out[3]) {
    uint32_t i = code - 0xac00;
    out[0] = 0x1100 + i / 588;
    out[1] = 0x1161 + i % 588 / 28;
    out[2] = 0x11a7 + i % 28;
    return i % 28 ? 3 : 2;
}

unsigned unicode_lower(uint32_t code, uint32_t out[3]) {
    if (code >= 0xac00 && code <= 0xd7a3)
        return hangul_lower(code, out);
    unsigned row = unicode_lower_blocks[unicode_lower_index[code >> 7] * 128u + (code & 127)];
    if (!row) {
        out[0] = code;
        return 1;
    }
    unsigned n = 0;
    while (n < 3 && unicode_lower_results[row][n]) {
        out[n] = unicode_lower_results[row][n];
        n++;
    }
    return n;
}
