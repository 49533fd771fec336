// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include "base/file_parts.h"
#include "base/pulse.h"
#include "base/status.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h> // XXH3 by what the processor has, with the same results
#endif

#define READ_SIZE ((size_t)1 << 20)
#define BLOCK ((size_t)1 << 22) // bytes between two beats (base/pulse.h)

struct hash_stream {
    XXH3_state_t *state;
};

static void hash_hex(char *out, const unsigned char *bytes, size_t size) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * size] = '\0';
}

// Large ones in blocks, with the same result: a mapped file may come slowly. Without memory in one piece.
static uint64_t hash64_blocks(const char *bytes, size_t size) {
    XXH3_state_t *state = XXH3_createState();
    if (!state || XXH3_64bits_reset(state) != XXH_OK) {
        XXH3_freeState(state);
        return XXH3_64bits(bytes, size);
    }
    for (size_t at = 0; at < size; at += BLOCK) {
        XXH3_64bits_update(state, bytes + at, size - at < BLOCK ? size - at : BLOCK);
        pulse_beat();
    }
    uint64_t hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return hash;
}

uint64_t hash64(const void *bytes, size_t size) {
    return size <= BLOCK ? XXH3_64bits(bytes, size) : hash64_blocks(bytes, size);
}

enum status hash_begin(struct hash_stream **out) {
    *out = NULL;
    struct hash_stream *stream = malloc(sizeof *stream);
    if (stream)
        stream->state = XXH3_createState();
    if (!stream || !stream->state || XXH3_128bits_reset(stream->state) != XXH_OK) {
        if (stream)
            XXH3_freeState(stream->state);
        free(stream);
        return status_set(STATUS_SYSTEM, "hash: no memory");
    }
    *out = stream;
    return STATUS_OK;
}

void hash_add(struct hash_stream *stream, const void *bytes, size_t size) {
    for (size_t at = 0; at < size; at += BLOCK) {
        XXH3_128bits_update(stream->state, (const char *)bytes + at, size - at < BLOCK ? size - at : BLOCK);
        pulse_beat();
    }
}

void hash_add_string(struct hash_stream *stream, const char *string) {
    size_t size = strlen(string);
    unsigned char length[8]; // little-endian on every host, since keys are compared between hosts
    for (unsigned i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)size >> 8 * i);
    hash_add(stream, length, sizeof length);
    hash_add(stream, string, size);
}

void hash_end(struct hash_stream *stream, char out[33]) {
    XXH128_canonical_t canonical; // big-endian on every host
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(stream->state));
    hash_hex(out, canonical.digest, sizeof canonical.digest);
    XXH3_freeState(stream->state);
    free(stream);
}

// An EVP_MD_CTX under our name: whoever hashes need not know OpenSSL.
static EVP_MD_CTX *sha256_context(struct sha256_stream *stream) {
    return (EVP_MD_CTX *)stream;
}

enum status sha256_begin(struct sha256_stream **out) {
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    *out = (struct sha256_stream *)context;
    if (!context)
        return status_set(STATUS_SYSTEM, "hash: no memory");
    if (EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1)
        return STATUS_OK;
    sha256_drop(*out);
    *out = NULL;
    return status_set(STATUS_SYSTEM, "hash: SHA-256 is not available in OpenSSL");
}

enum status sha256_add(struct sha256_stream *stream, const void *bytes, size_t size) {
    return EVP_DigestUpdate(sha256_context(stream), bytes, size) == 1
               ? STATUS_OK
               : status_set(STATUS_SYSTEM, "hash: SHA-256 failed");
}

enum status sha256_end(struct sha256_stream *stream, char out[65]) {
    unsigned char digest[32];
    bool done = EVP_DigestFinal_ex(sha256_context(stream), digest, NULL) == 1;
    sha256_drop(stream);
    if (!done)
        return status_set(STATUS_SYSTEM, "hash: SHA-256 failed");
    hash_hex(out, digest, sizeof digest);
    return STATUS_OK;
}

void sha256_drop(struct sha256_stream *stream) {
    EVP_MD_CTX_free(sha256_context(stream));
}

static enum status hash_sha256_fd(struct sha256_stream *stream, int fd, char *buffer, const char *path) {
    for (;;) {
        ssize_t n = read(fd, buffer, READ_SIZE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return status_errno(STATUS_IO, "read %s", path);
        if (n == 0)
            return STATUS_OK;
        pulse_beat();
        TRY(sha256_add(stream, buffer, (size_t)n));
    }
}

enum status hash_sha256_file(char out[65], const char *path) {
    struct sha256_stream *stream = NULL;
    int fd;
    struct stat info;
    TRY(file_open_read(&fd, &info, path, false)); // a pipe or a device may have no end
    char *buffer = malloc(READ_SIZE);
    enum status status = buffer ? sha256_begin(&stream) : status_set(STATUS_SYSTEM, "hash: no memory");
    if (status == STATUS_OK)
        status = hash_sha256_fd(stream, fd, buffer, path);
    if (status == STATUS_OK)
        status = sha256_end(stream, out);
    else
        sha256_drop(stream);
    free(buffer);
    close(fd);
    return status;
}
