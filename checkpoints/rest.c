// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/rest.h"

#include "base/file.h"
#include "base/hash.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void rest_release(struct rest *rest) {
    free(rest->at);
    *rest = (struct rest){0};
}

static int rest_order(const void *a, const void *b) {
    const struct piece *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static enum status rest_bytes(char **out, const struct store *store, const struct manifest_piece *piece) {
    *out = malloc(piece->size);
    if (!*out)
        return status_set(STATUS_SYSTEM, "checkpoint: no memory for %" PRIu64 " bytes", piece->size);
    store_read(*out, store, piece->offset, piece->size);
    return STATUS_OK;
}

static enum status rest_add(struct rest *rest, const struct store *store, uint64_t offset, uint64_t end) {
    struct manifest_piece piece = {.offset = offset, .size = end - offset, .dataset = MANIFEST_REST};
    char *bytes;
    if (end < offset || piece.size > MANIFEST_PIECE_MAX)
        return status_set(STATUS_SYSTEM, "checkpoint: HDF5 put datasets over or far from one another at byte %" PRIu64,
                          end);
    if (piece.size == 0)
        return STATUS_OK;
    TRY(rest_bytes(&bytes, store, &piece));
    piece.hash = hash64(bytes, piece.size);
    free(bytes);
    rest->at[rest->n++] = piece;
    return STATUS_OK;
}

// `sorted`: by offset.
static enum status rest_find(struct rest *rest, const struct store *store, const struct piece *sorted, size_t n) {
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        TRY(rest_add(rest, store, at, sorted[i].offset));
        at = sorted[i].offset + sorted[i].size;
    }
    return rest_add(rest, store, at, rest->size);
}

enum status rest_plan(struct rest *out, const struct store *store, const struct pieces *pieces) {
    struct piece *sorted = calloc(pieces->n + 1, sizeof *sorted);
    *out = (struct rest){.at = calloc(pieces->n + 1, sizeof *out->at), .size = store->size};
    enum status status = STATUS_OK;
    if (!sorted || !out->at) {
        status = status_set(STATUS_SYSTEM, "checkpoint: no memory for %zu pieces", pieces->n);
    } else {
        memcpy(sorted, pieces->at, pieces->n * sizeof *sorted);
        qsort(sorted, pieces->n, sizeof *sorted, rest_order);
        status = rest_find(out, store, sorted, pieces->n);
    }
    free(sorted);
    return status;
}

enum status rest_write(const struct rest *rest, const struct store *store, int fd, const char *path) {
    for (size_t i = 0; i < rest->n; i++) {
        const struct manifest_piece *piece = &rest->at[i];
        char *bytes;
        TRY(rest_bytes(&bytes, store, piece));
        enum status status = file_pwrite_all(fd, bytes, piece->size, piece->offset, path);
        free(bytes);
        TRY(status);
    }
    return STATUS_OK;
}
