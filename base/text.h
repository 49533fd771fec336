// SPDX-License-Identifier: Apache-2.0
// A growing byte string with a ceiling: builds lines, paths and files without fixed buffers.
#ifndef FINETUNED_BASE_TEXT_H
#define FINETUNED_BASE_TEXT_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char *at; // always ends in a NUL that is not counted, NULL while nothing was added
    size_t size;
    size_t room;
    bool failed; // no memory, or above TEXT_MAX: what was added since is missing
};

#define TEXT_MAX ((size_t)1 << 31)

void text_release(struct text *text);
void text_clear(struct text *text);
void text_add(struct text *text, const void *bytes, size_t size);
void text_puts(struct text *text, const char *string);
void text_unsigned(struct text *text, uint64_t value); // in decimal; many times as fast as text_printf
void text_word(struct text *text, const char *word);   // as a POSIX shell reads it back as one word
void text_printf(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The string ("" if empty), or NULL if it failed. Borrowed.
const char *text_string(const struct text *text);

// UTF-8, RFC 3629 (no surrogates, no overlong forms, up to U+10FFFF).
// Decodes one code point at `at`; returns its length in bytes 1..4, or 0 if it is not valid.
unsigned utf8_decode(const char *at, const char *end, uint32_t *code);
// Encodes; returns the length in bytes.
unsigned utf8_encode(uint32_t code, char out[4]);
// The offset of the first invalid byte, or `size` if all is valid.
size_t utf8_check(const char *bytes, size_t size);

// Whole-string numbers: false if `string` is empty, has anything before or behind the number, or is out of range.
bool text_to_i64(const char *string, int64_t *out);
bool text_to_u64(const char *string, uint64_t *out);
bool text_to_size(const char *string, int64_t *out);  // bytes, or with a unit: 512MiB (KiB, MiB, GiB, TiB)
bool text_to_double(const char *string, double *out); // finite only; independent of the locale

// Of `names` (`n` of them) the one nearest to `wanted` (edit distance), NULL if none is near. Borrowed.
const char *text_nearest(const char *wanted, const char *const *names, size_t n);

// malloc'ed "printf", NULL if there is no memory.
char *text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
