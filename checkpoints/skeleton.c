// SPDX-License-Identifier: Apache-2.0
// Superblock and groups: a B-tree of symbol nodes, whose names lie in a local heap (sections II.A, III.A.1, III.B,
// III.C, III.D of the specification).
#include "checkpoints/skeleton.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SUPERBLOCK 96
#define DEPTH 3     // groups inside one another, the root counted
#define LEVELS 4    // of a group's B-tree
#define CHILDREN 32 // of a node: twice the superblock's internal K
#define SYMBOLS 8   // of a symbol node: twice the superblock's leaf K
#define ENTRY 40    // bytes of a symbol
#define HEAP_END 1  // the last free block's "next"

void skeleton_release(struct skeleton *skeleton) {
    for (size_t i = 0; i < skeleton->n; i++)
        free(skeleton->parts[i].bytes);
    free(skeleton->parts);
    *skeleton = (struct skeleton){0};
}

const unsigned char *skeleton_at(const struct skeleton *skeleton, uint64_t at, uint64_t size) {
    size_t low = 0, high = skeleton->n; // the last part that begins at or before `at`
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (skeleton->parts[middle].offset <= at)
            low = middle;
        else
            high = middle;
    }
    const struct skeleton_part *part = &skeleton->parts[low];
    if (!skeleton->n || at < part->offset || at - part->offset > part->size || size > part->size - (at - part->offset))
        return NULL;
    return part->bytes + (at - part->offset);
}

uint64_t skeleton_number(const unsigned char *at, unsigned bytes) {
    uint64_t number = 0;
    for (unsigned i = 0; i < bytes; i++)
        number |= (uint64_t)at[i] << 8 * i;
    return number;
}

enum status skeleton_bad(const struct skeleton *skeleton, uint64_t at, const char *what) {
    return status_set(STATUS_DATA, "%s: HDF5's own bytes at %" PRIu64 ": %s is not as this program writes it",
                      skeleton->path, at, what);
}

enum status skeleton_visit(struct skeleton *skeleton, uint64_t at) {
    if (skeleton->left == 0)
        return skeleton_bad(skeleton, at, "a structure that leads back to itself");
    skeleton->left--;
    return STATUS_OK;
}

// ---- the heap that holds a group's names

struct heap {
    uint64_t at;
    const unsigned char *bytes; // its data segment
    uint64_t size;
};

// Its free blocks are a list: the next one's place, the size of this one.
static enum status heap_free_blocks(struct skeleton *s, const struct heap *heap, uint64_t at) {
    while (at != HEAP_END) {
        TRY(skeleton_visit(s, heap->at));
        if (at > heap->size || heap->size - at < 16)
            return skeleton_bad(s, heap->at, "a heap's free list");
        uint64_t size = skeleton_number(heap->bytes + at + 8, 8);
        if (size < 16 || size > heap->size - at)
            return skeleton_bad(s, heap->at, "a heap's free block");
        at = skeleton_number(heap->bytes + at, 8);
    }
    return STATUS_OK;
}

static enum status heap_open(struct heap *out, struct skeleton *s, uint64_t at) {
    const unsigned char *head = skeleton_at(s, at, 32);
    TRY(skeleton_visit(s, at));
    if (!head || memcmp(head, "HEAP\0\0\0\0", 8) != 0)
        return skeleton_bad(s, at, "a heap");
    *out = (struct heap){.at = at, .size = skeleton_number(head + 8, 8)};
    out->bytes = skeleton_at(s, skeleton_number(head + 24, 8), out->size);
    if (!out->bytes || out->size < 8)
        return skeleton_bad(s, at, "a heap's segment");
    return heap_free_blocks(s, out, skeleton_number(head + 16, 8));
}

// A name that ends inside the segment.
static bool heap_has(const struct heap *heap, uint64_t at) {
    return at < heap->size && memchr(heap->bytes + at, 0, heap->size - at) != NULL;
}

// ---- groups

static enum status group_check(struct skeleton *s, uint64_t tree, uint64_t heap, unsigned depth);

// A symbol: of a group its tree and heap are repeated here, and HDF5 may use either.
static enum status symbol_check(struct skeleton *s, const struct heap *heap, uint64_t at, const unsigned char *entry,
                                unsigned depth) {
    static const unsigned char zeros[16];
    struct skeleton_object object;
    uint64_t name = skeleton_number(entry, 8), cached = skeleton_number(entry + 16, 8);
    if (!heap_has(heap, name) || heap->bytes[name] == '\0')
        return skeleton_bad(s, at, "a name");
    TRY(skeleton_object(&object, s, skeleton_number(entry + 8, 8)));
    if (cached != object.group) // cache type 1: a group's, 0: nothing; four zeros behind it
        return skeleton_bad(s, at, "a symbol's kind");
    if (!object.group)
        return memcmp(entry + 24, zeros, sizeof zeros) == 0 ? STATUS_OK : skeleton_bad(s, at, "a dataset's symbol");
    if (skeleton_number(entry + 24, 8) != object.tree || skeleton_number(entry + 32, 8) != object.heap)
        return skeleton_bad(s, at, "a group's symbol");
    return group_check(s, object.tree, object.heap, depth + 1);
}

static enum status symbols_check(struct skeleton *s, const struct heap *heap, uint64_t at, unsigned depth) {
    const unsigned char *node = skeleton_at(s, at, 8 + SYMBOLS * ENTRY);
    TRY(skeleton_visit(s, at));
    if (!node || memcmp(node, "SNOD\1\0", 6) != 0)
        return skeleton_bad(s, at, "a symbol node");
    uint64_t n = skeleton_number(node + 6, 2);
    if (n == 0 || n > SYMBOLS)
        return skeleton_bad(s, at, "a symbol node's count");
    for (uint64_t i = 0; i < n; i++)
        TRY(symbol_check(s, heap, at, node + 8 + i * ENTRY, depth));
    return STATUS_OK;
}

// A walk through a group's B-tree, from left to right.
struct walk {
    const struct heap *heap;
    unsigned depth;
    uint64_t last[LEVELS], next[LEVELS]; // of each level: the node before, and whom it named as its right neighbour
};

static enum status node_neighbours(struct skeleton *s, struct walk *walk, uint64_t at, const unsigned char *node,
                                   unsigned level) {
    bool first = walk->last[level] == SKELETON_NONE;
    if (skeleton_number(node + 8, 8) != walk->last[level] || (!first && walk->next[level] != at))
        return skeleton_bad(s, at, "a group node's neighbour");
    walk->last[level] = at;
    walk->next[level] = skeleton_number(node + 16, 8);
    return STATUS_OK;
}

static enum status node_check(struct skeleton *s, struct walk *walk, uint64_t at, unsigned level, bool root) {
    const unsigned char *node = skeleton_at(s, at, 24 + (2 * CHILDREN + 1) * 8);
    TRY(skeleton_visit(s, at));
    if (!node || memcmp(node, "TREE\0", 5) != 0 || node[5] != level)
        return skeleton_bad(s, at, "a group node");
    uint64_t n = skeleton_number(node + 6, 2);
    if (n > CHILDREN || (n == 0 && !(root && level == 0)))
        return skeleton_bad(s, at, "a group node's count");
    TRY(node_neighbours(s, walk, at, node, level));
    for (uint64_t i = 0; i < n; i++) {
        const unsigned char *key = node + 24 + i * 16;
        uint64_t child = skeleton_number(key + 8, 8);
        if (!heap_has(walk->heap, skeleton_number(key, 8)) || !heap_has(walk->heap, skeleton_number(key + 16, 8)))
            return skeleton_bad(s, at, "a group node's key");
        TRY(level ? node_check(s, walk, child, level - 1, false) : symbols_check(s, walk->heap, child, walk->depth));
    }
    return STATUS_OK;
}

static enum status group_check(struct skeleton *s, uint64_t tree, uint64_t heap, unsigned depth) {
    struct heap names;
    if (depth == DEPTH)
        return skeleton_bad(s, tree, "a group so deep");
    TRY(heap_open(&names, s, heap));
    struct walk walk = {.heap = &names, .depth = depth};
    for (unsigned i = 0; i < LEVELS; i++)
        walk.last[i] = walk.next[i] = SKELETON_NONE;
    const unsigned char *root = skeleton_at(s, tree, 24);
    if (!root || root[5] >= LEVELS)
        return skeleton_bad(s, tree, "a group's tree");
    TRY(node_check(s, &walk, tree, root[5], true));
    for (unsigned i = 0; i < LEVELS; i++)
        if (walk.next[i] != SKELETON_NONE)
            return skeleton_bad(s, tree, "a group's last node");
    return STATUS_OK;
}

// ---- superblock

//     0  8  signature        8 5  versions, a reserved byte     13 3  bytes of an address, of a length, reserved
//    16  4  leaf and internal K              20 4  flags        24 8  base address           32 8  free space: none
//    40  8  end of the file                  48 8  driver: none
//    56 40  the root group's symbol
static enum status superblock_check(struct skeleton *s) {
    static const unsigned char head[32] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n', 0, 0,
                                           0,    0,   0,   8,   8,    0,    4,    0,    16};
    const unsigned char *block = skeleton_at(s, 0, SUPERBLOCK);
    struct skeleton_object root;
    if (!block || memcmp(block, head, sizeof head) != 0 || skeleton_number(block + 32, 8) != SKELETON_NONE ||
        skeleton_number(block + 48, 8) != SKELETON_NONE)
        return skeleton_bad(s, 0, "the superblock");
    if (skeleton_number(block + 40, 8) != s->file_size)
        return skeleton_bad(s, 40, "the end of the file");
    if (skeleton_number(block + 56, 8) != 0 || skeleton_number(block + 72, 8) != 1)
        return skeleton_bad(s, 56, "the root group");
    TRY(skeleton_object(&root, s, skeleton_number(block + 64, 8)));
    if (!root.group || root.tree != skeleton_number(block + 80, 8) || root.heap != skeleton_number(block + 88, 8))
        return skeleton_bad(s, 56, "the root group");
    return group_check(s, root.tree, root.heap, 0);
}

enum status skeleton_check(struct skeleton *skeleton) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < skeleton->n; i++)
        bytes += skeleton->parts[i].size;
    skeleton->left = bytes / 8 + 64; // no structure is smaller
    return superblock_check(skeleton);
}
