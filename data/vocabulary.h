// SPDX-License-Identifier: Apache-2.0
// A tokenizer's vocabulary: texts by id, and a trie of bytes from text to id (longest matches without hashing
// substrings).
#ifndef FINETUNED_DATA_VOCABULARY_H
#define FINETUNED_DATA_VOCABULARY_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define VOCABULARY_MAX (1u << 20)       // ids are below it
#define VOCABULARY_BYTES (1u << 24)     // of all texts, a NUL each included
#define VOCABULARY_TOKEN_MAX 1024u      // bytes of one text
#define VOCABULARY_FILE_MAX (64u << 20) // bytes of one tokenizer file

// Edges in an open-addressing table: slot = (node << 8 | byte) << 32 | child. Node 0 is the root and nobody's child, so
// an empty slot is 0.
struct trie {
    uint64_t *slots;
    uint32_t mask; // slots - 1, a power of two less one
    uint32_t nodes;
    uint32_t room;
    int32_t *ids; // [nodes] token that ends here, -1 = none
};

struct vocabulary {
    char *bytes; // all texts, each with a NUL behind it
    size_t used, room;
    uint32_t *begins; // [size] offset into bytes + 1; 0 = no such id
    uint32_t size;    // highest id + 1
    uint32_t ids_room;
    uint32_t count; // tokens
    struct trie trie;
};

enum status vocabulary_init(struct vocabulary *vocabulary);
void vocabulary_release(struct vocabulary *vocabulary);

// Adds a token. STATUS_DATA if text or id is there already, the text is empty, too long or not UTF-8, or a ceiling is
// passed; the message names text and id, the caller adds the file.
enum status vocabulary_add(struct vocabulary *vocabulary, const char *text, size_t size, int64_t id);

// The same for an added token: it has an id and a text, but no word of a text is ever matched with it.
enum status vocabulary_add_outside(struct vocabulary *vocabulary, const char *text, size_t size, int64_t id);

// The id of a text, or -1; not of those outside.
int32_t vocabulary_find(const struct vocabulary *vocabulary, const char *text, size_t size);

// The text of an id, or NULL. Borrowed.
const char *vocabulary_text(const struct vocabulary *vocabulary, int64_t id);

// For messages: the text cut to 40 bytes, control characters as '?'. Four static buffers a thread, in turn.
const char *vocabulary_quote(const char *text, size_t size);

static inline uint32_t trie_slot(const struct trie *trie, uint32_t key) {
    return (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & trie->mask;
}

// The node behind `byte`, or 0.
static inline uint32_t trie_step(const struct trie *trie, uint32_t node, unsigned char byte) {
    uint32_t key = node << 8 | byte;
    for (uint32_t at = trie_slot(trie, key);; at = (at + 1) & trie->mask) {
        uint64_t slot = trie->slots[at];
        if (!slot || slot >> 32 == key)
            return (uint32_t)slot;
    }
}

#endif
