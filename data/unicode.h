// SPDX-License-Identifier: Apache-2.0
// How the reference tokenizers class and map every code point: generated tables (unicode_generate.py), two lookups
// each.
#ifndef FINETUNED_DATA_UNICODE_H
#define FINETUNED_DATA_UNICODE_H

#include <stdint.h>

enum unicode_flag {
    UNICODE_LETTER = 1,        // \p{L} of the byte-level pre-tokenizer
    UNICODE_NUMBER = 2,        // \p{N}
    UNICODE_SPACE = 4,         // \s: Unicode White_Space
    UNICODE_CONTROL = 8,       // BERT: removed, cased too (controls, formats, private use, U+FFFD)
    UNICODE_MARK = 16,         // BERT: removed together with accents
    UNICODE_BLANK = 32,        // BERT: becomes U+0020
    UNICODE_CJK = 64,          // BERT: a word of its own, judged before lower case
    UNICODE_PUNCTUATION = 128, // BERT: a word of its own, judged after lower case
};

extern const uint16_t unicode_flag_index[];       // [code / 128] block
extern const uint8_t unicode_flag_blocks[];       // [block * 128 + code % 128]
extern const uint16_t unicode_lower_index[];      // [code / 128] block
extern const uint16_t unicode_lower_blocks[];     // [block * 128 + code % 128] row of the results, 0 = maps to itself
extern const uint32_t unicode_lower_results[][3]; // ends with 0 if shorter

// `code` <= 0x10FFFF.
static inline unsigned unicode_flags(uint32_t code) {
    return unicode_flag_blocks[unicode_flag_index[code >> 7] * 128u + (code & 127)];
}

// The same of a byte below 0x80: the generator meets its block first.
static inline unsigned unicode_ascii_flags(char byte) {
    return unicode_flag_blocks[(unsigned char)byte];
}

// BERT's lower case + NFD + accents removed, for one code point that is not removed as a whole: 1 to 3 code points.
unsigned unicode_lower(uint32_t code, uint32_t out[3]);

// Decodes one code point of valid UTF-8, any of 1 to 4 bytes; returns the bytes. The text was checked before
// (utf8_check).
static inline unsigned unicode_next(const char *at, uint32_t *code) {
    const unsigned char *b = (const unsigned char *)at;
    if (b[0] < 0x80) {
        *code = b[0];
        return 1;
    }
    if (b[0] < 0xe0) {
        *code = (b[0] & 0x1fu) << 6 | (b[1] & 0x3fu);
        return 2;
    }
    if (b[0] < 0xf0) {
        *code = (b[0] & 0x0fu) << 12 | (b[1] & 0x3fu) << 6 | (b[2] & 0x3fu);
        return 3;
    }
    *code = (b[0] & 0x07u) << 18 | (b[1] & 0x3fu) << 12 | (b[2] & 0x3fu) << 6 | (b[3] & 0x3fu);
    return 4;
}

// A byte inside a character, not its first.
static inline int unicode_is_inside(char byte) {
    return ((unsigned char)byte & 0xc0) == 0x80;
}

#endif
