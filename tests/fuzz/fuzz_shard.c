// SPDX-License-Identifier: Apache-2.0
// A token shard: as it is, and once more with both hashes made right, so that the checks behind them are reached too.
// Whatever is taken can be read in full.
#include "base/hash.h"
#include "data/shard.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// A window's answer is made of context tokens, and its question is one of the source.
static void window_walk(const struct shard *shard, uint32_t i) {
    uint64_t first = shard->offsets[i], length = shard->offsets[i + 1] - first;
    int32_t start = shard->labels[i], last = shard->ends[i];
    if (shard->rows[i] >= shard->questions || shard->context[i] >= length)
        abort();
    if (start < -1 || (start <= 0) != (last <= 0) || last < start || last > (int64_t)length - 2)
        abort();
    if (start > 0 && shard->begin[first + (uint32_t)start] > shard->end[first + (uint32_t)start])
        abort();
}

static void shard_walk(const struct shard *shard) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < shard->n; i++) {
        if (shard->spans)
            window_walk(shard, i);
        else if (shard->labels[i] >= (int32_t)shard->n_labels && shard->labels[i] != -1)
            abort();
        for (uint64_t j = shard->offsets[i]; j < shard->offsets[i + 1]; j++) {
            if (shard->ids[j] < 0 || (uint32_t)shard->ids[j] >= shard->vocab_size)
                abort();
            sum += shard->types[j] + 1u;
        }
    }
    if (sum < shard->tokens || sum > 2 * shard->tokens)
        abort();
    struct shard_report report = shard_report(shard);
    if (report.n != shard->n || report.longest < shard->longest)
        abort();
}

static void image_parse(const char *image, size_t size) {
    struct shard shard;
    if (shard_parse(&shard, "fuzz", image, size) == STATUS_OK)
        shard_walk(&shard);
}

static void image_seal(char *image, size_t size) {
    uint64_t payload = size - SHARD_HEADER, hash = hash64(image + SHARD_HEADER, size - SHARD_HEADER);
    memcpy(image + 80, &payload, 8);
    memcpy(image + 88, &hash, 8);
    hash = hash64(image, 112);
    memcpy(image + 112, &hash, 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *image = malloc(size ? size : 1); // aligned
    if (!image)
        return 0;
    memcpy(image, data, size);
    image_parse(image, size);
    if (size >= SHARD_HEADER) {
        image_seal(image, size);
        image_parse(image, size);
    }
    free(image);
    return 0;
}
