// SPDX-License-Identifier: Apache-2.0
// A record of a TFRecord file (TensorFlow's tensorflow/core/lib/io/record_writer.h), little-endian:
//
//     8  length of the data
//     4  masked CRC-32C of these 8 bytes
//     n  data
//     4  masked CRC-32C of the data
#ifndef FINETUNED_TRAIN_TFRECORD_H
#define FINETUNED_TRAIN_TFRECORD_H

#include "base/text.h"

// Adds one record to `out`.
void tfrecord_add(struct text *out, const void *data, size_t size);

// CRC-32C (Castagnoli), RFC 3720, section 12.1 and appendix B.4: polynomial 0x1edc6f41, reflected.
uint32_t crc32c(const void *bytes, size_t size);

#endif
