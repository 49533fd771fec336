// SPDX-License-Identifier: Apache-2.0
// Object headers, version 1, and their messages (sections IV.A.1.a and IV.A.2 of the specification).
//
//     0 1  version, 1     1 1  reserved     2 2  messages     4 4  references, 1     8 4  bytes of messages     12 4
//     zeros
//
// and messages: 2 type, 2 bytes of data, 1 flags, 3 reserved, data. A message may say where more of them lie.
#include "checkpoints/skeleton.h"

#include <string.h>

#define CHUNKS 256 // stretches of messages of one object

enum message { // those that we write
    MESSAGE_NIL = 0x00,
    MESSAGE_DATASPACE = 0x01,
    MESSAGE_DATATYPE = 0x03,
    MESSAGE_FILL = 0x05,
    MESSAGE_LAYOUT = 0x08,
    MESSAGE_ATTRIBUTE = 0x0c,
    MESSAGE_CONTINUATION = 0x10,
    MESSAGE_SYMBOLS = 0x11,
};

struct object {
    struct skeleton *skeleton;
    uint64_t at;
    struct {
        uint64_t at, size;
    } chunks[CHUNKS];
    size_t n_chunks;
    uint64_t messages; // still to come
    unsigned seen[MESSAGE_SYMBOLS + 1];
    uint64_t bytes, place, room; // of the dataspace; where the layout says that they are, and how many
    struct skeleton_object found;
};

static enum status object_bad(const struct object *o, const char *what) {
    return skeleton_bad(o->skeleton, o->at, what);
}

// Version 1, one or two dimensions, with the largest sizes, which are the same.
static enum status dataspace_read(struct object *o, const unsigned char *data, size_t size) {
    size_t rank = data[1];
    static const unsigned char zeros[5];
    o->bytes = sizeof(float);
    if (data[0] != 1 || rank < 1 || rank > 2 || data[2] != 1 || size != 8 + 16 * rank ||
        memcmp(data + 3, zeros, sizeof zeros) != 0 || memcmp(data + 8, data + 8 + 8 * rank, 8 * rank) != 0)
        return object_bad(o, "a dataspace");
    for (size_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(o->bytes, skeleton_number(data + 8 + 8 * i, 8), &o->bytes))
            return object_bad(o, "a dataspace's size");
    return STATUS_OK;
}

// IEEE float32, little-endian.
static enum status datatype_read(struct object *o, const unsigned char *data, size_t size) {
    static const unsigned char f32[24] = {0x11, 0x20, 0x1f, 0, 4, 0, 0, 0, 0, 0, 0x20, 0, 0x17, 8, 0, 0x17, 0x7f};
    return size == sizeof f32 && memcmp(data, f32, size) == 0 ? STATUS_OK : object_bad(o, "a datatype");
}

// Version 2, space taken early, never filled.
static enum status fill_read(struct object *o, const unsigned char *data, size_t size) {
    static const unsigned char fill[8] = {2, 1, 1, 1};
    return size == sizeof fill && memcmp(data, fill, size) == 0 ? STATUS_OK : object_bad(o, "a fill value");
}

// Version 3, contiguous.
static enum status layout_read(struct object *o, const unsigned char *data, size_t size) {
    if (size != 24 || data[0] != 3 || data[1] != 1)
        return object_bad(o, "a dataset's layout");
    o->place = skeleton_number(data + 2, 8);
    o->room = skeleton_number(data + 10, 8);
    return STATUS_OK;
}

static enum status symbols_read(struct object *o, const unsigned char *data, size_t size) {
    if (size != 16)
        return object_bad(o, "a group's message");
    o->found = (struct skeleton_object){true, skeleton_number(data, 8), skeleton_number(data + 8, 8)};
    return STATUS_OK;
}

static enum status continuation_read(struct object *o, const unsigned char *data, size_t size) {
    if (size != 16 || o->n_chunks == CHUNKS)
        return object_bad(o, "a continuation");
    o->chunks[o->n_chunks].at = skeleton_number(data, 8);
    o->chunks[o->n_chunks++].size = skeleton_number(data + 8, 8);
    return STATUS_OK;
}

static enum status message_read(struct object *o, unsigned type, const unsigned char *data, size_t size) {
    switch (type) {
    case MESSAGE_NIL:
        return STATUS_OK;
    case MESSAGE_DATASPACE:
        return dataspace_read(o, data, size);
    case MESSAGE_DATATYPE:
        return datatype_read(o, data, size);
    case MESSAGE_FILL:
        return fill_read(o, data, size);
    case MESSAGE_LAYOUT:
        return layout_read(o, data, size);
    case MESSAGE_ATTRIBUTE:
        return skeleton_attribute(o->skeleton, o->at, data, size);
    case MESSAGE_CONTINUATION:
        return continuation_read(o, data, size);
    case MESSAGE_SYMBOLS:
        return symbols_read(o, data, size);
    default:
        return object_bad(o, "a message");
    }
}

// A dataset's type, fill value and place are marked as constant (1); nothing is shared.
static bool message_flags_are_right(unsigned type, unsigned flags) {
    return flags == (type == MESSAGE_DATATYPE || type == MESSAGE_FILL || type == MESSAGE_LAYOUT);
}

static enum status chunk_read(struct object *o, uint64_t at, uint64_t size) {
    const unsigned char *bytes = size ? skeleton_at(o->skeleton, at, size) : NULL;
    TRY(skeleton_visit(o->skeleton, at));
    if (!bytes || size % 8)
        return object_bad(o, "an object's messages");
    while (size > 0) {
        TRY(skeleton_visit(o->skeleton, at));
        if (o->messages == 0 || size < 8)
            return object_bad(o, "the number of messages");
        unsigned type = (unsigned)skeleton_number(bytes, 2), length = (unsigned)skeleton_number(bytes + 2, 2);
        if (length % 8 || length > size - 8 || type > MESSAGE_SYMBOLS || (length < 8 && type != MESSAGE_NIL) ||
            !message_flags_are_right(type, bytes[4]) || bytes[5] || bytes[6] || bytes[7])
            return object_bad(o, "a message");
        o->seen[type]++;
        o->messages--;
        TRY(message_read(o, type, bytes + 8, length));
        bytes += 8 + length;
        size -= 8 + length;
    }
    return STATUS_OK;
}

// A group has one symbol table and nothing of a dataset; a dataset one each of its four and no attributes.
static enum status object_whole(const struct object *o) {
    static const unsigned char of_datasets[] = {MESSAGE_DATASPACE, MESSAGE_DATATYPE, MESSAGE_FILL, MESSAGE_LAYOUT};
    bool group = o->seen[MESSAGE_SYMBOLS] == 1;
    if (o->messages || o->seen[MESSAGE_SYMBOLS] > 1 || (!group && o->seen[MESSAGE_ATTRIBUTE]))
        return object_bad(o, "an object");
    for (size_t i = 0; i < sizeof of_datasets; i++)
        if (o->seen[of_datasets[i]] != !group)
            return object_bad(o, group ? "a group" : "a dataset");
    if (!group && (o->bytes == 0 || o->room != o->bytes || o->place > o->skeleton->file_size ||
                   o->room > o->skeleton->file_size - o->place))
        return object_bad(o, "a dataset's place");
    return STATUS_OK;
}

enum status skeleton_object(struct skeleton_object *out, struct skeleton *skeleton, uint64_t at) {
    struct object o = {.skeleton = skeleton, .at = at, .n_chunks = 1};
    const unsigned char *head = skeleton_at(skeleton, at, 16);
    TRY(skeleton_visit(skeleton, at));
    if (!head || head[0] != 1 || head[1] != 0 || skeleton_number(head + 4, 4) != 1 || skeleton_number(head + 12, 4))
        return skeleton_bad(skeleton, at, "an object's header");
    o.messages = skeleton_number(head + 2, 2);
    o.chunks[0].at = at + 16;
    o.chunks[0].size = skeleton_number(head + 8, 4);
    for (size_t i = 0; i < o.n_chunks; i++)
        TRY(chunk_read(&o, o.chunks[i].at, o.chunks[i].size));
    TRY(object_whole(&o));
    *out = o.found;
    return STATUS_OK;
}
