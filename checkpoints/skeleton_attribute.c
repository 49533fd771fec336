// SPDX-License-Identifier: Apache-2.0
// Attributes, version 1, and the global heap that holds the texts among them (sections IV.A.2.m and III.E).
//
//     0 1  version, 1     1 1  reserved     2 2  bytes of the name, its NUL counted     4 2  of the type     6 2  of
//     the space
//
// then name, type and space, each filled up to a multiple of 8, and the value: 8 bytes of a number; of a text 4 of its
// length, 8 of the heap's address, 4 of its number there. HDF5 reads as many bytes as the heap says into room for as
// many as the attribute says: they must agree.
#include "checkpoints/skeleton.h"

#include <string.h>

#define HEAP_HEAD 16
#define HEAP_OBJECT 16 // bytes in front of each object: 2 number, 2 references, 4 zeros, 8 size

static uint64_t filled(uint64_t size) {
    return (size + 7) / 8 * 8;
}

// Walks the heap's objects up to `wanted`: its size, or SKELETON_NONE. HDF5 walks them all, so all must be right.
static enum status heap_walk(uint64_t *size, struct skeleton *s, uint64_t at, const unsigned char *bytes, uint64_t room,
                             uint64_t wanted) {
    uint64_t before = 0;
    *size = SKELETON_NONE;
    while (room >= HEAP_OBJECT) {
        uint64_t number = skeleton_number(bytes, 2), length = skeleton_number(bytes + 8, 8);
        TRY(skeleton_visit(s, at));
        if (number == 0) // what is free is the last, and takes its own head and all the rest
            return length == room ? STATUS_OK : skeleton_bad(s, at, "a global heap's free space");
        if (number <= before || length > room - HEAP_OBJECT || filled(length) > room - HEAP_OBJECT)
            return skeleton_bad(s, at, "a global heap's object");
        if (number == wanted)
            *size = length;
        before = number;
        bytes += HEAP_OBJECT + filled(length);
        room -= HEAP_OBJECT + filled(length);
    }
    return STATUS_OK;
}

static enum status text_check(struct skeleton *s, uint64_t at, const unsigned char *value) {
    uint64_t length = skeleton_number(value, 4), heap = skeleton_number(value + 4, 8), size;
    uint64_t number = skeleton_number(value + 12, 4);
    if (length == 0 && heap == 0 && number == 0) // none; an empty one is an object of no bytes
        return STATUS_OK;
    const unsigned char *head = skeleton_at(s, heap, HEAP_HEAD);
    if (!head || memcmp(head, "GCOL\1\0\0\0", 8) != 0)
        return skeleton_bad(s, at, "a text's heap");
    uint64_t whole = skeleton_number(head + 8, 8);
    if (whole < HEAP_HEAD || whole % 8 || !skeleton_at(s, heap, whole))
        return skeleton_bad(s, heap, "a global heap");
    TRY(heap_walk(&size, s, heap, head + HEAP_HEAD, whole - HEAP_HEAD, number));
    return size == length ? STATUS_OK : skeleton_bad(s, at, "a text's length");
}

// The three types that attributes.c writes: the size of a value, 0 for any other.
static size_t type_size(const unsigned char *type, size_t size) {
    static const unsigned char u64[] = {0x10, 0, 0, 0, 8, 0, 0, 0, 0, 0, 64, 0};
    static const unsigned char f64[] = {0x11, 0x20, 0x3f, 0,    8, 0,    0,    0, 0, 0,
                                        64,   0,    0x34, 0x0b, 0, 0x34, 0xff, 3, 0, 0};
    static const unsigned char text[] = {0x19, 1, 1, 0, 16, 0, 0, 0, 0x10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0}; // UTF-8
    if ((size == sizeof u64 && memcmp(type, u64, size) == 0) || (size == sizeof f64 && memcmp(type, f64, size) == 0))
        return 8;
    return size == sizeof text && memcmp(type, text, size) == 0 ? 16 : 0;
}

enum status skeleton_attribute(struct skeleton *skeleton, uint64_t at, const unsigned char *bytes, size_t size) {
    static const unsigned char scalar[8] = {1};
    uint64_t name = skeleton_number(bytes + 2, 2), type = skeleton_number(bytes + 4, 2);
    uint64_t space = skeleton_number(bytes + 6, 2), value = 8 + filled(name) + filled(type) + filled(space);
    if (bytes[0] != 1 || bytes[1] != 0 || space != sizeof scalar || value > size)
        return skeleton_bad(skeleton, at, "an attribute");
    size_t wanted = type_size(bytes + 8 + filled(name), type);
    if (name < 2 || memchr(bytes + 8, 0, name) != bytes + 8 + name - 1 ||
        memcmp(bytes + value - sizeof scalar, scalar, sizeof scalar) != 0 || wanted == 0 || size - value != wanted)
        return skeleton_bad(skeleton, at, "an attribute");
    return wanted == 16 ? text_check(skeleton, at, bytes + value) : STATUS_OK;
}
