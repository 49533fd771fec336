// SPDX-License-Identifier: Apache-2.0
// Hashes: XXH3 (64 and 128 bits) for our own files and keys, SHA-256 for what is published.
#ifndef FINETUNED_BASE_HASH_H
#define FINETUNED_BASE_HASH_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

uint64_t hash64(const void *bytes, size_t size);

// A stream of bytes into one 128-bit XXH3 key, as 32 lower-case hex digits.
struct hash_stream;
enum status hash_begin(struct hash_stream **out);
void hash_add(struct hash_stream *stream, const void *bytes, size_t size);
// Adds the length and then the bytes, so that neighbouring strings can't run into one another.
void hash_add_string(struct hash_stream *stream, const char *string);
void hash_end(struct hash_stream *stream, char out[33]); // frees the stream

// SHA-256, as 64 lower-case hex digits: of a stream of bytes, of a file.
struct sha256_stream;
enum status sha256_begin(struct sha256_stream **out);
enum status sha256_add(struct sha256_stream *stream, const void *bytes, size_t size);
enum status sha256_end(struct sha256_stream *stream, char out[65]); // frees the stream, as does
void sha256_drop(struct sha256_stream *stream);                     // NULL is fine
enum status hash_sha256_file(char out[65], const char *path);

#endif
