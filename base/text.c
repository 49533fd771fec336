// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_release(struct text *text) {
    free(text->at);
    *text = (struct text){0};
}

void text_clear(struct text *text) {
    text->size = 0;
    text->failed = false;
    if (text->at)
        text->at[0] = '\0';
}

// Makes room for `size` more bytes and a NUL; false (and failed) if it can't be.
static bool text_reserve(struct text *text, size_t size) {
    if (text->failed || size > TEXT_MAX - text->size) {
        text->failed = true;
        return false;
    }
    size_t needed = text->size + size + 1;
    if (needed <= text->room)
        return true;
    size_t room = text->room ? text->room : 64;
    while (room < needed)
        room *= 2;
    char *at = realloc(text->at, room);
    if (!at) {
        text->failed = true;
        return false;
    }
    text->at = at;
    text->room = room;
    return true;
}

void text_add(struct text *text, const void *bytes, size_t size) {
    if (!text_reserve(text, size))
        return;
    if (size > 0)
        memcpy(text->at + text->size, bytes, size);
    text->size += size;
    text->at[text->size] = '\0';
}

void text_puts(struct text *text, const char *string) {
    text_add(text, string, strlen(string));
}

void text_unsigned(struct text *text, uint64_t value) {
    char digits[20]; // of 2^64
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + value % 10);
    while (value /= 10);
    text_add(text, digits + at, sizeof digits - at);
}

void text_word(struct text *text, const char *word) {
    const char *plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
    if (*word && !word[strspn(word, plain)]) {
        text_puts(text, word);
        return;
    }
    text_puts(text, "'");
    for (; *word; word++)
        if (*word == '\'')
            text_puts(text, "'\\''"); // ends the quotes, one of its own, begins them again
        else
            text_add(text, word, 1);
    text_puts(text, "'");
}

void text_printf(struct text *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (size < 0) {
        text->failed = true;
        return;
    }
    if (!text_reserve(text, (size_t)size))
        return;
    va_start(args, format);
    vsnprintf(text->at + text->size, (size_t)size + 1, format, args);
    va_end(args);
    text->size += (size_t)size;
}

const char *text_string(const struct text *text) {
    if (text->failed)
        return NULL;
    return text->at ? text->at : "";
}

// Table 3-7 of the Unicode standard: what the second byte may be depends on the first.
unsigned utf8_decode(const char *at, const char *end, uint32_t *code) {
    if (at >= end)
        return 0;
    const unsigned char *byte = (const unsigned char *)at;
    size_t rest = (size_t)(end - at);
    unsigned lead = byte[0];
    if (lead < 0x80) {
        *code = lead;
        return 1;
    }
    unsigned length = lead >= 0xc2 && lead <= 0xdf   ? 2
                      : (lead & 0xf0) == 0xe0        ? 3
                      : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                     : 0;
    if (length == 0 || length > rest)
        return 0;
    unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (byte[1] < low || byte[1] > high)
        return 0;
    uint32_t value = (lead & (0x7fu >> length)) << 6 | (byte[1] & 0x3fu);
    for (unsigned i = 2; i < length; i++) {
        if ((byte[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (byte[i] & 0x3fu);
    }
    *code = value;
    return length;
}

unsigned utf8_encode(uint32_t code, char out[4]) {
    static const unsigned char leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    unsigned length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (unsigned i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    out[0] = (char)(leads[length] | code);
    return length;
}

size_t utf8_check(const char *bytes, size_t size) {
    const char *at = bytes, *end = size ? bytes + size : bytes; // an empty file is mapped to NULL
    while (at < end) {
        uint32_t code;
        uint64_t eight;
        if (end - at >= 8 && (memcpy(&eight, at, 8), !(eight & UINT64_C(0x8080808080808080)))) { // ASCII alone
            at += 8;
            continue;
        }
        unsigned length = utf8_decode(at, end, &code);
        if (length == 0)
            break;
        at += length;
    }
    return (size_t)(at - bytes);
}

bool text_to_u64(const char *string, uint64_t *out) {
    uint64_t value = 0;
    if (!*string)
        return false;
    for (const char *at = string; *at; at++) {
        if (*at < '0' || *at > '9')
            return false;
        if (__builtin_mul_overflow(value, 10u, &value) || __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return false;
    }
    *out = value;
    return true;
}

bool text_to_i64(const char *string, int64_t *out) {
    bool negative = *string == '-';
    uint64_t size;
    if (!text_to_u64(string + negative, &size) || size > (uint64_t)INT64_MAX + negative)
        return false;
    *out = negative ? (int64_t)-size : (int64_t)size;
    return true;
}

bool text_to_size(const char *string, int64_t *out) {
    static const char *const units[] = {"", "KiB", "MiB", "GiB", "TiB"};
    const size_t digits = strspn(string, "0123456789");
    char number[20];
    int64_t value;
    if (digits >= sizeof number)
        return false;
    memcpy(number, string, digits);
    number[digits] = '\0';
    for (int i = 0; i < 5; i++)
        if (strcmp(string + digits, units[i]) == 0 && text_to_i64(number, &value))
            return !__builtin_mul_overflow(value, (int64_t)1 << (10 * i), out);
    return false;
}

static locale_t text_locale;
static pthread_once_t text_locale_once = PTHREAD_ONCE_INIT;

static void text_locale_make(void) {
    text_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

bool text_to_double(const char *string, double *out) {
    // strtod would also take blanks before, a plus sign, hex, infinities and NaNs
    const char *first = string + (*string == '-');
    if (!(*first >= '0' && *first <= '9') && *first != '.')
        return false;
    if (string[strspn(string, "0123456789.eE+-")] != '\0')
        return false;
    pthread_once(&text_locale_once, text_locale_make);
    if (!text_locale)
        return false;
    char *end;
    double value = strtod_l(string, &end, text_locale);
    if (end == string || *end || !isfinite(value))
        return false;
    *out = value;
    return true;
}

#define NEAREST_MAX 64 // bytes of a name; longer ones are not compared

static unsigned text_least(unsigned a, unsigned b) {
    return a < b ? a : b;
}

// Edit distance with swaps of neighbours (optimal string alignment), three rows of the table at a time.
static unsigned text_distance(const char *a, size_t n, const char *b, size_t m) {
    unsigned rows[3][NEAREST_MAX + 1];
    unsigned *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++)
        last[j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = text_least(last[j - 1] + (a[i - 1] != b[j - 1]), text_least(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = text_least(row[j], before[j - 2] + 1);
        }
        unsigned *spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[m];
}

// True if `name` is "….wanted": a key given without its section.
static bool text_is_section_key(const char *name, size_t n, const char *wanted, size_t m) {
    return m > 0 && n > m && name[n - m - 1] == '.' && strcmp(name + n - m, wanted) == 0;
}

const char *text_nearest(const char *wanted, const char *const *names, size_t n) {
    size_t length = strlen(wanted);
    const char *best = NULL;
    if (length == 0 || length > NEAREST_MAX)
        return NULL;
    unsigned bound = text_least(1 + (unsigned)length / 4, (unsigned)length - 1) + 1; // the first that is too far
    for (size_t i = 0; i < n; i++) {
        size_t size = strlen(names[i]);
        if (text_is_section_key(names[i], size, wanted, length))
            return names[i];
        if (size > NEAREST_MAX)
            continue;
        unsigned distance = text_distance(wanted, length, names[i], size);
        if (distance < bound) {
            bound = distance;
            best = names[i];
        }
    }
    return best;
}

char *text_format(const char *format, ...) {
    char *out = NULL;
    va_list args;
    va_start(args, format);
    int size = vasprintf(&out, format, args);
    va_end(args);
    return size < 0 ? NULL : out;
}
