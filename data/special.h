// SPDX-License-Identifier: Apache-2.0
// Added tokens: strings that are found in a text before anything else is done to it, as Hugging Face's added vocabulary
// does.
#ifndef FINETUNED_DATA_SPECIAL_H
#define FINETUNED_DATA_SPECIAL_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPECIALS_MAX 4096u

struct special {
    int32_t id;
    const char *text; // the vocabulary's, or malloc'ed: see specials_set
    uint32_t size;
    bool special;    // ordinary text in literal mode
    bool lstrip;     // takes in white space to its left
    bool rstrip;     // and to its right
    bool normalized; // found in a second pass
};

struct specials {
    struct special *list; // [n]
    uint32_t n;
    uint32_t room;
    bool plain;          // some are found in literal mode too
    bool passes[2];      // some are found in the first, the second pass
    bool firsts[2][256]; // by pass: bytes that one begins with
};

struct special_match {
    int32_t id;
    size_t begin, end;   // the string itself
    size_t taken, after; // with the white space that it takes in; `taken` may lie before the last match's `after`
};

void specials_release(struct specials *specials);
// Adds one, or replaces the one of the same id. The text is copied. STATUS_DATA if there are too many or it is
// unusable.
enum status specials_set(struct specials *specials, const struct special *special);
const struct special *specials_find(const struct specials *specials, int32_t id);

// The next match of pass `normalized` in text[begin, end): leftmost, then longest. `scan` is where to look from
// (advanced here). False if there is none.
bool specials_next(const struct specials *specials, bool normalized, bool literal, const char *text, size_t begin,
                   size_t end, size_t *scan, struct special_match *match);

#endif
