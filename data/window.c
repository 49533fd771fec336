// SPDX-License-Identifier: Apache-2.0
#include "data/window.h"

#include "base/text.h"
#include "data/unicode.h"

#include <string.h>

void windows_release(struct windows *windows) {
    encoding_release(&windows->encoding);
    *windows = (struct windows){0};
}

// Bytes of white space in front, as Python's str.lstrip() sees it: Unicode's and U+001C to U+001F.
static size_t blank_size(const char *text, size_t size) {
    size_t at = 0;
    uint32_t code;
    while (at < size) {
        unsigned bytes = utf8_decode(text + at, text + size, &code);
        if (!bytes || !((unicode_flags(code) & UNICODE_SPACE) || (code >= 0x1c && code <= 0x1f)))
            break;
        at += bytes;
    }
    return at;
}

// How the context is cut; `fixed`: tokens of a window that are not the context's.
static enum status windows_cut(struct windows *out, uint32_t fixed, uint32_t special,
                               const struct window_options *options) {
    uint32_t tokens = out->encoding.n - fixed, most = options->max_length, stride = options->doc_stride;
    *out = (struct windows){out->encoding, .context = fixed - 1, .n = 1, .room = tokens, .step = tokens};
    if (most == 0 || out->encoding.n <= most)
        return STATUS_OK;
    if (most <= special || most - special <= stride)
        return status_set(STATUS_USAGE,
                          "data.max_length %u less %u special tokens leaves no question and context more than "
                          "data.doc_stride, %u: raise data.max_length or lower data.doc_stride (384 and 128 are usual)",
                          most, special, stride);
    if (most <= fixed || most - fixed <= stride)
        return status_set(STATUS_DATA,
                          "a question of %u tokens (and %u special ones) leaves %u of data.max_length %u for its "
                          "context of %u tokens, which must be more than data.doc_stride, %u: raise data.max_length, "
                          "lower data.doc_stride or shorten the question",
                          fixed - special, special, most > fixed ? most - fixed : 0, most, tokens, stride);
    out->room = most - fixed;
    out->step = out->room - stride;
    out->n = 1 + (tokens - out->room + out->step - 1) / out->step;
    return STATUS_OK;
}

enum status windows_encode(struct windows *out, const struct tokenizer *tokenizer, const char *question,
                           size_t question_size, const char *context, size_t context_size,
                           const struct window_options *options) {
    struct encoding *encoding = &out->encoding;
    struct tokenizer_options how = {.special = options->special, .normalize = options->normalize};
    size_t blank = blank_size(question, question_size);
    uint32_t special = tokenizer_info(tokenizer).kind == TOKENIZER_BPE ? 4 : 3, asked = 0;
    TRY(tokenizer_encode(tokenizer, encoding, question + blank, question_size - blank, context ? context : "",
                         context_size, &how));
    for (uint32_t i = 1; encoding->sequence[i] == 0; i++, asked++) {
        encoding->begin[i] += (uint32_t)blank;
        encoding->end[i] += (uint32_t)blank;
    }
    return windows_cut(out, asked + special, special, options);
}

struct window windows_at(const struct windows *windows, uint32_t i) {
    uint32_t behind = windows->encoding.n - 1, first = windows->context + i * windows->step;
    return (struct window){first, behind - first < windows->room ? behind - first : windows->room};
}

uint32_t windows_length(const struct windows *windows, uint32_t i) {
    return windows->context + windows_at(windows, i).n + 1;
}

// Front, context tokens and last token of an array of the encoding.
static void pieces_copy(void *to, const void *from, size_t size, const struct windows *windows, struct window window) {
    char *out = to;
    const char *in = from;
    size_t front = windows->context * size, middle = window.n * size;
    memcpy(out, in, front);
    if (middle)
        memcpy(out + front, in + window.first * size, middle);
    memcpy(out + front + middle, in + (windows->encoding.n - 1) * size, size);
}

void windows_copy(const struct windows *windows, uint32_t i, int32_t *ids, uint8_t *types, uint32_t *begin,
                  uint32_t *end) {
    const struct encoding *encoding = &windows->encoding;
    struct window window = windows_at(windows, i);
    pieces_copy(ids, encoding->ids, sizeof *ids, windows, window);
    pieces_copy(types, encoding->types, sizeof *types, windows, window);
    if (begin)
        pieces_copy(begin, encoding->begin, sizeof *begin, windows, window);
    if (end)
        pieces_copy(end, encoding->end, sizeof *end, windows, window);
}

void windows_label(const struct windows *windows, uint32_t i, uint32_t begin, uint32_t end, int32_t *start,
                   int32_t *last) {
    struct window window = windows_at(windows, i);
    const uint32_t *begins = windows->encoding.begin + window.first, *ends = windows->encoding.end + window.first;
    uint32_t a = 0, b = window.n;
    *start = *last = 0;
    if (window.n == 0 || begins[0] > begin || ends[window.n - 1] < end)
        return;
    while (a + 1 < window.n && begins[a + 1] <= begin)
        a++;
    while (b > 0 && ends[b - 1] >= end)
        b--;
    *start = (int32_t)(windows->context + (a < b ? a : b));
    *last = (int32_t)(windows->context + (a < b ? b : a));
}
