// SPDX-License-Identifier: Apache-2.0
#include "data/special.h"

#include "data/unicode.h"
#include "data/vocabulary.h"

#include <stdlib.h>
#include <string.h>

void specials_release(struct specials *specials) {
    for (uint32_t i = 0; i < specials->n; i++)
        free((char *)specials->list[i].text);
    free(specials->list);
    *specials = (struct specials){0};
}

static size_t space_before(const char *text, size_t begin, size_t at) {
    while (at > begin) {
        uint32_t code;
        size_t before = at - 1;
        while (unicode_is_inside(text[before]))
            before--;
        unicode_next(text + before, &code);
        if (!(unicode_flags(code) & UNICODE_SPACE))
            break;
        at = before;
    }
    return at;
}

static size_t space_behind(const char *text, size_t at, size_t end) {
    while (at < end) {
        uint32_t code;
        unsigned size = unicode_next(text + at, &code);
        if (!(unicode_flags(code) & UNICODE_SPACE))
            break;
        at += size;
    }
    return at;
}

// What is derived from the list.
static void specials_index(struct specials *specials) {
    specials->plain = false;
    memset(specials->passes, 0, sizeof specials->passes);
    memset(specials->firsts, 0, sizeof specials->firsts);
    for (uint32_t i = 0; i < specials->n; i++) {
        const struct special *special = &specials->list[i];
        specials->plain |= !special->special;
        specials->passes[special->normalized] = true;
        specials->firsts[special->normalized][(unsigned char)special->text[0]] = true;
    }
}

static enum status specials_reserve(struct specials *specials) {
    if (specials->n < specials->room)
        return STATUS_OK;
    if (specials->n == SPECIALS_MAX)
        return status_set(STATUS_DATA, "more than %u added tokens", SPECIALS_MAX);
    uint32_t room = specials->room ? specials->room * 2 : 8;
    struct special *list = realloc(specials->list, room * sizeof *list);
    if (!list)
        return status_set(STATUS_SYSTEM, "tokenizer: no memory for %u added tokens", room);
    specials->list = list;
    specials->room = room;
    return STATUS_OK;
}

enum status specials_set(struct specials *specials, const struct special *wanted) {
    if (space_behind(wanted->text, 0, wanted->size))
        return status_set(STATUS_DATA, "added token \"%s\": begins with white space, which is not supported",
                          vocabulary_quote(wanted->text, wanted->size));
    struct special *special = (struct special *)specials_find(specials, wanted->id);
    const char *text = special ? special->text : NULL;
    if (!special) {
        TRY(specials_reserve(specials));
        text = strndup(wanted->text, wanted->size);
        if (!text)
            return status_set(STATUS_SYSTEM, "tokenizer: no memory for an added token");
        special = &specials->list[specials->n++];
    }
    *special = *wanted;
    special->text = text;
    specials_index(specials);
    return STATUS_OK;
}

const struct special *specials_find(const struct specials *specials, int32_t id) {
    for (uint32_t i = 0; i < specials->n; i++)
        if (specials->list[i].id == id)
            return &specials->list[i];
    return NULL;
}

// The longest string of this pass that stands at `at`.
static const struct special *special_at(const struct specials *specials, bool normalized, const char *at, size_t left) {
    const struct special *best = NULL;
    for (uint32_t i = 0; i < specials->n; i++) {
        const struct special *special = &specials->list[i];
        if (special->normalized == normalized && special->size <= left && (!best || special->size > best->size) &&
            !memcmp(special->text, at, special->size))
            best = special;
    }
    return best;
}

bool specials_next(const struct specials *specials, bool normalized, bool literal, const char *text, size_t begin,
                   size_t end, size_t *scan, struct special_match *match) {
    size_t at = *scan;
    while (at < end) {
        const struct special *found = NULL;
        if (specials->firsts[normalized][(unsigned char)text[at]])
            found = special_at(specials, normalized, text + at, end - at);
        if (!found) {
            at++;
            continue;
        }
        size_t start = at, stop = at + found->size;
        at = stop;
        if (literal && found->special)
            continue; // ordinary text, but nothing else is found inside it
        *match = (struct special_match){found->id, start, stop, start, stop};
        if (found->lstrip)
            match->taken = space_before(text, begin, start);
        if (found->rstrip)
            match->after = space_behind(text, stop, end);
        *scan = at;
        return true;
    }
    *scan = at;
    return false;
}
