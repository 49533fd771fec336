// SPDX-License-Identifier: Apache-2.0
// MANIFEST.json from bytes. A fuzzer can't guess the check at its end, so each input is also tried with the right one;
// what is accepted must cover the file exactly and come back the same from what is written of it.
#include "base/hash.h"
#include "base/text.h"
#include "checkpoints/manifest.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(int right) {
    if (!right)
        abort();
}

static void manifest_walk(const struct manifest *manifest) {
    uint64_t at = 0;
    for (size_t i = 0; i < manifest->n_pieces; i++) {
        need(manifest->pieces[i].offset == at && manifest->pieces[i].size > 0);
        need(manifest->pieces[i].dataset == MANIFEST_REST || manifest->pieces[i].dataset < manifest->n_datasets);
        at += manifest->pieces[i].size;
    }
    need(at == manifest->size);
}

static void manifest_again(const struct manifest *manifest) {
    struct manifest again;
    char *bytes;
    size_t size;
    need(manifest_format(&bytes, &size, manifest) == STATUS_OK);
    if (manifest_parse(&again, bytes, size, "again") == STATUS_OK) {
        need(again.n_pieces == manifest->n_pieces && again.step == manifest->step && again.size == manifest->size);
        need(memcmp(again.pieces, manifest->pieces, manifest->n_pieces * sizeof *again.pieces) == 0 || !again.n_pieces);
        manifest_release(&again);
    } else {
        abort();
    }
    free(bytes);
}

static void manifest_try(const char *bytes, size_t size) {
    struct manifest manifest;
    if (manifest_parse(&manifest, bytes, size, "manifest") != STATUS_OK)
        return;
    manifest_walk(&manifest);
    manifest_again(&manifest);
    manifest_release(&manifest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const size_t tail = sizeof "\"check\": \"0123456789abcdef\"}\n" - 1;
    manifest_try((const char *)data, size);
    if (size < tail)
        return 0;
    struct text text = {0};
    text_add(&text, data, size - tail);
    text_printf(&text, "\"check\": \"%016" PRIx64 "\"}\n", hash64(data, size - tail));
    if (!text.failed)
        manifest_try(text.at, text.size);
    text_release(&text);
    return 0;
}
