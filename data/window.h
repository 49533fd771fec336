// SPDX-License-Identifier: Apache-2.0
// Windows of a question and its context, as Hugging Face's run_qa.py makes them with a fast tokenizer: the question in
// full and first, of the context as many tokens as fit, neighbours sharing `doc_stride` context tokens (truncation
// "only_second", stride = doc_stride, return_overflowing_tokens). RoBERTa: <s> Q </s></s> C </s>; BERT: [CLS] Q [SEP] C
// [SEP] with token types. As there, white space in front of the question is left out.
#ifndef FINETUNED_DATA_WINDOW_H
#define FINETUNED_DATA_WINDOW_H

#include "base/status.h"
#include "data/tokenizer.h"

#include <stddef.h>
#include <stdint.h>

struct window_options {
    enum tokenizer_special special;
    uint32_t max_length; // tokens of a window, special ones included; 0: one window, whatever its length
    uint32_t doc_stride; // context tokens that neighbours share
    enum tokenizer_normalize normalize;
};

// The windows of one question; buffers grow and are reused from call to call. Starts as {0}.
struct windows {
    struct encoding encoding; // question and context uncut; begin and end: bytes of the one or the other
    uint32_t context;         // first context token, in the encoding and in every window
    uint32_t n;               // windows, at least 1 (a context without tokens has one, too)
    uint32_t room;            // context tokens of a window; the last one may have fewer
    uint32_t step;            // context tokens from a window's first to the next one's first
};
void windows_release(struct windows *windows);

// Texts are valid UTF-8. Where the context must be cut and max_length leaves no more than doc_stride tokens for it, no
// window would get further: STATUS_USAGE if that is so for any question, STATUS_DATA if this one is too long.
enum status windows_encode(struct windows *out, const struct tokenizer *tokenizer, const char *question,
                           size_t question_size, const char *context, size_t context_size,
                           const struct window_options *options);

// Window i: context tokens [first, first + n) of the encoding follow its first `context` tokens, then its last one.
struct window {
    uint32_t first, n;
};
struct window windows_at(const struct windows *windows, uint32_t i);
// Tokens of window i: context + n + 1.
uint32_t windows_length(const struct windows *windows, uint32_t i);
// Writes its tokens, windows_length of each; `begin` and `end` may be NULL.
void windows_copy(const struct windows *windows, uint32_t i, int32_t *ids, uint8_t *types, uint32_t *begin,
                  uint32_t *end);

// The tokens of window i, counted from its first, that hold bytes [begin, end) of the context; 0 and 0 if not all of
// them stand in the window. run_qa.py's rule: `start` is the last token that begins at or before `begin`, `last` the
// first that ends at or behind `end`. Two differences: the search for `start` ends with the context (there it runs on
// over the padding if the answer begins in the window's last context token), and where a character has several tokens
// and `start` would lie behind `last`, the two change places.
void windows_label(const struct windows *windows, uint32_t i, uint32_t begin, uint32_t end, int32_t *start,
                   int32_t *last);

#endif
