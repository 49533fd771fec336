// SPDX-License-Identifier: Apache-2.0
#include "train/tfrecord.h"

// Four bits at a time: entry i is i followed by four zero bits, modulo the reflected polynomial 0x82f63b78.
static const uint32_t crc_table[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

uint32_t crc32c(const void *bytes, size_t size) {
    const unsigned char *at = bytes;
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= at[i];
        crc = crc >> 4 ^ crc_table[crc & 15];
        crc = crc >> 4 ^ crc_table[crc & 15];
    }
    return ~crc;
}

static void little_endian(unsigned char *out, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++)
        out[i] = (unsigned char)(value >> (8 * i));
}

// A checksum is masked so that one of data that holds checksums says something (TensorFlow's crc32c.h).
static void checksum_add(struct text *out, const void *bytes, size_t size) {
    uint32_t crc = crc32c(bytes, size);
    unsigned char masked[4];
    little_endian(masked, (crc >> 15 | crc << 17) + 0xa282ead8u, 4);
    text_add(out, masked, sizeof masked);
}

void tfrecord_add(struct text *out, const void *data, size_t size) {
    unsigned char length[8];
    little_endian(length, size, 8);
    text_add(out, length, sizeof length);
    checksum_add(out, length, sizeof length);
    text_add(out, data, size);
    checksum_add(out, data, size);
}
