// SPDX-License-Identifier: Apache-2.0
#include "data/vocabulary.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define TRIE_NODES_MAX (1u << 24) // node << 8 fits 32 bits
#define TRIE_START 1024u

static enum status no_memory(void) {
    return status_set(STATUS_SYSTEM, "tokenizer: no memory for the vocabulary");
}

const char *vocabulary_quote(const char *text, size_t size) {
    static _Thread_local char buffers[4][48];
    static _Thread_local unsigned turn;
    char *out = buffers[turn++ % 4];
    size_t n = size < 40 ? size : 40;
    while (n && n < size && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    for (size_t i = 0; i < n; i++)
        out[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i];
    memcpy(out + n, n < size ? "..." : "", n < size ? 4 : 1);
    return out;
}

static enum status trie_init(struct trie *trie) {
    trie->slots = calloc(2 * TRIE_START, sizeof *trie->slots);
    trie->ids = malloc(TRIE_START * sizeof *trie->ids);
    if (!trie->slots || !trie->ids)
        return no_memory();
    trie->mask = 2 * TRIE_START - 1;
    trie->room = TRIE_START;
    trie->nodes = 1;
    trie->ids[0] = -1;
    return STATUS_OK;
}

static void trie_put(struct trie *trie, uint64_t edge) {
    uint32_t at = trie_slot(trie, (uint32_t)(edge >> 32));
    while (trie->slots[at])
        at = (at + 1) & trie->mask;
    trie->slots[at] = edge;
}

// Twice the nodes; the table of edges stays at most half full.
static enum status trie_grow(struct trie *trie) {
    if (trie->room >= TRIE_NODES_MAX)
        return status_set(STATUS_DATA, "the vocabulary is above %u bytes of text", VOCABULARY_BYTES);
    uint32_t room = trie->room * 2;
    int32_t *ids = realloc(trie->ids, room * sizeof *ids);
    if (!ids)
        return no_memory();
    trie->ids = ids;
    uint64_t *old = trie->slots, *slots = calloc((size_t)room * 2, sizeof *slots);
    if (!slots)
        return no_memory();
    uint32_t old_slots = trie->mask + 1;
    trie->slots = slots;
    trie->mask = room * 2 - 1;
    trie->room = room;
    for (uint32_t i = 0; i < old_slots; i++)
        if (old[i])
            trie_put(trie, old[i]);
    free(old);
    return STATUS_OK;
}

static enum status trie_add(struct trie *trie, const char *text, size_t size, int32_t id) {
    uint32_t node = 0;
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)text[i];
        uint32_t child = trie_step(trie, node, byte);
        if (!child) {
            if (trie->nodes == trie->room)
                TRY(trie_grow(trie));
            child = trie->nodes++;
            trie->ids[child] = -1;
            trie_put(trie, (uint64_t)(node << 8 | byte) << 32 | child);
        }
        node = child;
    }
    trie->ids[node] = id;
    return STATUS_OK;
}

enum status vocabulary_init(struct vocabulary *vocabulary) {
    *vocabulary = (struct vocabulary){0};
    return trie_init(&vocabulary->trie);
}

void vocabulary_release(struct vocabulary *vocabulary) {
    free(vocabulary->trie.slots);
    free(vocabulary->trie.ids);
    free(vocabulary->bytes);
    free(vocabulary->begins);
    *vocabulary = (struct vocabulary){0};
}

static enum status token_check(const struct vocabulary *vocabulary, const char *text, size_t size, int64_t id) {
    const char *quoted = vocabulary_quote(text, size);
    if (id < 0 || id >= VOCABULARY_MAX)
        return status_set(STATUS_DATA, "token \"%s\": id %lld is not in 0..%u", quoted, (long long)id,
                          VOCABULARY_MAX - 1);
    if (!size || size > VOCABULARY_TOKEN_MAX)
        return status_set(STATUS_DATA, "token \"%s\" (id %lld): %zu bytes, not 1..%u", quoted, (long long)id, size,
                          VOCABULARY_TOKEN_MAX);
    if (utf8_check(text, size) != size || memchr(text, 0, size))
        return status_set(STATUS_DATA, "token of id %lld is not UTF-8 without NUL", (long long)id);
    int32_t other = vocabulary_find(vocabulary, text, size);
    if (other >= 0)
        return status_set(STATUS_DATA, "token \"%s\" is there twice, with ids %d and %lld", quoted, other,
                          (long long)id);
    const char *taken = vocabulary_text(vocabulary, id);
    if (taken)
        return status_set(STATUS_DATA, "id %lld is there twice, for \"%s\" and \"%s\"", (long long)id,
                          vocabulary_quote(taken, strlen(taken)), quoted);
    return STATUS_OK;
}

static enum status ids_reserve(struct vocabulary *vocabulary, uint32_t size) {
    if (size <= vocabulary->ids_room)
        return STATUS_OK;
    uint32_t room = vocabulary->ids_room ? vocabulary->ids_room : 1024;
    while (room < size)
        room *= 2;
    uint32_t *begins = realloc(vocabulary->begins, room * sizeof *begins);
    if (!begins)
        return no_memory();
    memset(begins + vocabulary->ids_room, 0, (room - vocabulary->ids_room) * sizeof *begins);
    vocabulary->begins = begins;
    vocabulary->ids_room = room;
    return STATUS_OK;
}

static enum status bytes_reserve(struct vocabulary *vocabulary, size_t more) {
    if (more > VOCABULARY_BYTES - vocabulary->used)
        return status_set(STATUS_DATA, "the vocabulary is above %u bytes of text", VOCABULARY_BYTES);
    if (vocabulary->used + more <= vocabulary->room)
        return STATUS_OK;
    size_t room = vocabulary->room ? vocabulary->room : 4096;
    while (room < vocabulary->used + more)
        room *= 2;
    char *bytes = realloc(vocabulary->bytes, room);
    if (!bytes)
        return no_memory();
    vocabulary->bytes = bytes;
    vocabulary->room = room;
    return STATUS_OK;
}

enum status vocabulary_add_outside(struct vocabulary *vocabulary, const char *text, size_t size, int64_t id) {
    TRY(token_check(vocabulary, text, size, id));
    TRY(ids_reserve(vocabulary, (uint32_t)id + 1));
    TRY(bytes_reserve(vocabulary, size + 1));
    memcpy(vocabulary->bytes + vocabulary->used, text, size);
    vocabulary->bytes[vocabulary->used + size] = 0;
    vocabulary->begins[id] = (uint32_t)vocabulary->used + 1;
    vocabulary->used += size + 1;
    vocabulary->count++;
    if (vocabulary->size <= id)
        vocabulary->size = (uint32_t)id + 1;
    return STATUS_OK;
}

enum status vocabulary_add(struct vocabulary *vocabulary, const char *text, size_t size, int64_t id) {
    TRY(vocabulary_add_outside(vocabulary, text, size, id));
    return trie_add(&vocabulary->trie, text, size, (int32_t)id);
}

int32_t vocabulary_find(const struct vocabulary *vocabulary, const char *text, size_t size) {
    uint32_t node = 0;
    for (size_t i = 0; i < size; i++) {
        node = trie_step(&vocabulary->trie, node, (unsigned char)text[i]);
        if (!node)
            return -1;
    }
    return vocabulary->trie.ids[node];
}

const char *vocabulary_text(const struct vocabulary *vocabulary, int64_t id) {
    if (id < 0 || id >= vocabulary->size || !vocabulary->begins[id])
        return NULL;
    return vocabulary->bytes + vocabulary->begins[id] - 1;
}
