// SPDX-License-Identifier: Apache-2.0
// Files of torch.save by hand, for the tests of their readers: a pickle opcode by opcode, and a zip of stored entries.
#ifndef FINETUNED_TESTS_TORCH_SUPPORT_H
#define FINETUNED_TESTS_TORCH_SUPPORT_H

#include "support.h"

struct bytes {
    char *at;
    size_t size;
};

static inline void bytes_put(struct bytes *bytes, const void *at, size_t size) {
    bytes->at = realloc(bytes->at, bytes->size + size + 1);
    assert_non_null(bytes->at);
    if (size)
        memcpy(bytes->at + bytes->size, at, size);
    bytes->size += size;
}

static inline void bytes_release(struct bytes *bytes) {
    free(bytes->at);
    *bytes = (struct bytes){0};
}

static inline void put_u16(struct bytes *bytes, unsigned value) {
    bytes_put(bytes, &(uint16_t){(uint16_t)value}, 2);
}

static inline void put_u32(struct bytes *bytes, uint32_t value) {
    bytes_put(bytes, &value, 4);
}

static inline void put_text(struct bytes *bytes, const char *text) { // opcodes whose bytes hold no NUL
    bytes_put(bytes, text, strlen(text));
}

static inline void put_string(struct bytes *bytes, const char *text) {
    put_text(bytes, "X");
    put_u32(bytes, (uint32_t)strlen(text));
    put_text(bytes, text);
}

static inline void put_number(struct bytes *bytes, int32_t value) {
    put_text(bytes, "J");
    put_u32(bytes, (uint32_t)value);
}

static inline void put_numbers(struct bytes *bytes, const int32_t *values, unsigned n) { // a tuple
    put_text(bytes, "(");
    for (unsigned i = 0; i < n; i++)
        put_number(bytes, values[i]);
    put_text(bytes, "t");
}

// _rebuild_tensor_v2(("storage", torch.<type>, key, "cpu", elements), offset, size, stride, False, OrderedDict())
struct view {
    const char *name, *type, *key;
    int32_t elements, offset;
    unsigned rank;
    int32_t size[5], stride[5];
};

static inline void put_storage(struct bytes *bytes, const struct view *view) {
    put_text(bytes, "(");
    put_string(bytes, "storage");
    put_text(bytes, "ctorch\n");
    put_text(bytes, view->type);
    put_text(bytes, "\n");
    put_string(bytes, view->key);
    put_string(bytes, "cpu");
    put_number(bytes, view->elements);
    put_text(bytes, "tQ");
}

static inline void put_tensor(struct bytes *bytes, const struct view *view) {
    put_text(bytes, "ctorch._utils\n_rebuild_tensor_v2\n(");
    put_storage(bytes, view);
    put_number(bytes, view->offset);
    put_numbers(bytes, view->size, view->rank);
    put_numbers(bytes, view->stride, view->rank);
    put_text(bytes, "\x89"
                    "ccollections\nOrderedDict\n)RtR");
}

// An OrderedDict of tensors, with the _metadata that Module.state_dict() leaves on it.
static inline void put_state_dict(struct bytes *bytes, const struct view *views, size_t n) {
    put_text(bytes, "\x80\x02"
                    "ccollections\nOrderedDict\n)R(");
    for (size_t i = 0; i < n; i++) {
        put_string(bytes, views[i].name);
        put_tensor(bytes, &views[i]);
    }
    put_text(bytes, "u}");
    put_string(bytes, "_metadata");
    put_text(bytes, "ccollections\nOrderedDict\n)R");
    put_string(bytes, "");
    put_text(bytes, "}");
    put_string(bytes, "version");
    put_text(bytes, "K\x01sssb.");
}

// ---- zip: local headers, data, a central directory and its end, as PKWARE's APPNOTE.TXT has them

struct zip_writer {
    struct bytes file, directory;
    unsigned n;
};

// CRC-32 of IEEE 802.3, bit by bit.
static inline uint32_t crc32_of(const char *at, size_t size) {
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= (unsigned char)at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
    }
    return ~crc;
}

// Version, flags, method, time, date, CRC and sizes: what both headers share.
static inline void zip_about(struct bytes *out, const char *at, size_t size) {
    put_u16(out, 20);
    put_u16(out, 0);
    put_u16(out, 0);
    put_u32(out, 0);
    put_u32(out, crc32_of(at, size));
    put_u32(out, (uint32_t)size);
    put_u32(out, (uint32_t)size);
}

static inline void zip_add(struct zip_writer *w, const char *name, const void *at, size_t size) {
    uint32_t offset = (uint32_t)w->file.size;
    put_text(&w->file, "PK\x03\x04");
    zip_about(&w->file, at, size);
    put_u16(&w->file, (unsigned)strlen(name));
    put_u16(&w->file, 0);
    put_text(&w->file, name);
    bytes_put(&w->file, at, size);
    put_text(&w->directory, "PK\x01\x02");
    put_u16(&w->directory, 20);
    zip_about(&w->directory, at, size);
    put_u16(&w->directory, (unsigned)strlen(name));
    bytes_put(&w->directory, (char[12]){0}, 12); // extra, comment, disk, attributes
    put_u32(&w->directory, offset);
    put_text(&w->directory, name);
    w->n++;
}

// The whole archive; the writer is empty again.
static inline struct bytes zip_end(struct zip_writer *w) {
    struct bytes file = w->file;
    uint32_t offset = (uint32_t)file.size;
    bytes_put(&file, w->directory.at, w->directory.size);
    put_text(&file, "PK\x05\x06");
    put_u32(&file, 0);
    put_u16(&file, w->n);
    put_u16(&file, w->n);
    put_u32(&file, (uint32_t)w->directory.size);
    put_u32(&file, offset);
    put_u16(&file, 0);
    bytes_release(&w->directory);
    *w = (struct zip_writer){0};
    return file;
}

#endif
