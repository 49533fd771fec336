// SPDX-License-Identifier: Apache-2.0
// The format: header in and out, and the check of everything before any of it is believed.
#include "data/shard.h"

#include "base/hash.h"
#include "data/shard_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "shards are mapped as they are: little-endian hosts only");

static const char magic[8] = "FTSHARD\n";

struct header {
    char magic[8];
    uint32_t version, header_size;
    uint64_t n, tokens;
    uint32_t longest, n_labels, vocab_size, max_length;
    char key[32];
    uint64_t payload_size, payload_hash;
    uint32_t flags, doc_stride, questions, zero;
    uint64_t header_hash;
    char zeros[8];
};
_Static_assert(sizeof(struct header) == SHARD_HEADER, "the layout in shard.h");
#define HEADER_HASHED offsetof(struct header, header_hash)
#define HEADER_SPANS 1u

bool shard_layout_make(struct shard_layout *out, uint64_t n, uint64_t tokens, bool spans) {
    const uint64_t ceiling = UINT64_C(1) << 44; // tokens and bytes; nothing below can overflow
    uint64_t each = spans ? 4 * n : 0, token = spans ? 4 * tokens : 0;
    if (n > SOURCE_ROWS_MAX || tokens > ceiling)
        return false;
    out->offsets = SHARD_HEADER;
    out->ids = out->offsets + 8 * (n + 1);
    out->labels = out->ids + 4 * tokens;
    out->full = out->labels + 4 * n;
    out->ends = out->full + 4 * n;
    out->rows = out->ends + each;
    out->context = out->rows + each;
    out->begin = out->context + each;
    out->end = out->begin + token;
    out->types = out->end + token;
    out->size = (out->types + tokens + 7) / 8 * 8;
    return out->size <= SIZE_MAX / 2;
}

void shard_seal(char *image, const struct shard_layout *layout, const struct shard_facts *facts) {
    struct header header = {
        .version = SHARD_VERSION,
        .header_size = SHARD_HEADER,
        .n = facts->n,
        .tokens = facts->tokens,
        .longest = facts->longest,
        .n_labels = facts->n_labels,
        .vocab_size = facts->vocab_size,
        .max_length = facts->max_length,
        .payload_size = layout->size - SHARD_HEADER,
        .payload_hash = hash64(image + SHARD_HEADER, layout->size - SHARD_HEADER),
        .flags = facts->spans ? HEADER_SPANS : 0,
        .doc_stride = facts->doc_stride,
        .questions = facts->questions,
    };
    memcpy(header.magic, magic, sizeof magic);
    memcpy(header.key, facts->key, sizeof header.key);
    header.header_hash = hash64(&header, HEADER_HASHED);
    memcpy(image, &header, sizeof header);
}

static enum status spans_header_check(const struct header *header, const char *name) {
    bool spans = header->flags == HEADER_SPANS;
    if (header->flags & ~HEADER_SPANS)
        return status_set(STATUS_DATA, "%s: unknown flags 0x%" PRIx32, name, header->flags);
    if (spans ? header->n_labels != 0 || header->doc_stride == 0 : header->doc_stride != 0)
        return status_set(STATUS_DATA, "%s: %" PRIu32 " classes and a doc_stride of %" PRIu32 " do not go together",
                          name, header->n_labels, header->doc_stride);
    if (spans ? header->questions > header->n || (header->questions == 0 && header->n > 0)
              : header->questions != header->n)
        return status_set(STATUS_DATA, "%s: %" PRIu32 " source rows do not go with %" PRIu64 " examples", name,
                          header->questions, header->n);
    return STATUS_OK;
}

static enum status header_check(const struct header *header, const char *name, size_t size) {
    if (size < sizeof magic || memcmp(header, magic, sizeof magic) != 0)
        return status_set(STATUS_DATA, "%s: not a token shard", name);
    if (size < SHARD_HEADER)
        return status_set(STATUS_DATA, "%s: cut off after %zu bytes", name, size);
    if (header->version != SHARD_VERSION)
        return status_set(STATUS_DATA, "%s: shard format %" PRIu32 "; this program reads %d", name, header->version,
                          SHARD_VERSION);
    if (header->header_size != SHARD_HEADER || header->header_hash != hash64(header, HEADER_HASHED))
        return status_set(STATUS_DATA, "%s: the header is damaged", name);
    if (header->n_labels > LABELS_MAX)
        return status_set(STATUS_DATA, "%s: %" PRIu32 " classes", name, header->n_labels);
    for (size_t i = 0; i < sizeof header->zeros; i++)
        if (header->zeros[i] || header->zero)
            return status_set(STATUS_DATA, "%s: the header is damaged", name);
    for (size_t i = 0; i < sizeof header->key; i++)
        if (!memchr("0123456789abcdef", header->key[i], 16))
            return status_set(STATUS_DATA, "%s: the header's key is damaged", name);
    return spans_header_check(header, name);
}

static enum status size_check(const struct header *header, const char *name, size_t size, struct shard_layout *layout) {
    if (!shard_layout_make(layout, header->n, header->tokens, header->flags & HEADER_SPANS) || layout->size != size ||
        header->payload_size != size - SHARD_HEADER)
        return status_set(STATUS_DATA, "%s: %zu bytes do not go with %" PRIu64 " examples and %" PRIu64 " tokens", name,
                          size, header->n, header->tokens);
    return STATUS_OK;
}

static enum status offsets_check(const struct shard *shard, const char *name) {
    uint32_t longest = 0;
    if (shard->offsets[0] != 0 || shard->offsets[shard->n] != shard->tokens)
        return status_set(STATUS_DATA, "%s: the offsets do not span the tokens", name);
    for (uint32_t i = 0; i < shard->n; i++) {
        uint64_t begin = shard->offsets[i], end = shard->offsets[i + 1];
        if (end < begin || end > shard->tokens || end - begin > UINT32_MAX)
            return status_set(STATUS_DATA, "%s: offset of example %" PRIu32 " is out of order", name, i);
        uint32_t length = (uint32_t)(end - begin);
        if (shard->full[i] < length || (shard->max_length && length > shard->max_length))
            return status_set(STATUS_DATA, "%s: example %" PRIu32 " has an impossible length", name, i);
        longest = length > longest ? length : longest;
    }
    if (longest != shard->longest)
        return status_set(STATUS_DATA, "%s: the longest example has %" PRIu32 " tokens, the header says %" PRIu32, name,
                          longest, shard->longest);
    return STATUS_OK;
}

static enum status values_check(const struct shard *shard, const char *name) {
    for (uint32_t i = 0; i < shard->n && !shard->spans; i++)
        if (shard->labels[i] < -1 || (shard->labels[i] >= 0 && (uint32_t)shard->labels[i] >= shard->n_labels))
            return status_set(STATUS_DATA, "%s: label %" PRId32 " of example %" PRIu32 " is none of %" PRIu32, name,
                              shard->labels[i], i, shard->n_labels);
    for (uint64_t i = 0; i < shard->tokens; i++)
        if (shard->ids[i] < 0 || (uint32_t)shard->ids[i] >= shard->vocab_size || shard->types[i] > 1)
            return status_set(STATUS_DATA, "%s: token %" PRIu64 " (id %" PRId32 ", type %u) is out of range", name, i,
                              shard->ids[i], shard->types[i]);
    return STATUS_OK;
}

// A window's answer: in its context, at its first token (none), or unlabelled.
static bool span_good(int64_t start, int64_t last, int64_t context, int64_t length) {
    return start == last && (start == 0 || start == -1) ? true : context <= start && start <= last && last < length - 1;
}

static enum status window_check(const struct shard *shard, const char *name, uint32_t i) {
    uint64_t first = shard->offsets[i], length = shard->offsets[i + 1] - first;
    uint32_t before = i ? shard->rows[i - 1] : 0, row = shard->rows[i];
    if (i ? row < before || row - before > 1 : row != 0)
        return status_set(STATUS_DATA, "%s: window %" PRIu32 " is of question %" PRIu32 ", out of order", name, i, row);
    if (length < 3 || shard->context[i] < 2 || shard->context[i] > length - 1)
        return status_set(STATUS_DATA, "%s: the context of window %" PRIu32 " begins outside it", name, i);
    if (!span_good(shard->labels[i], shard->ends[i], shard->context[i], (int64_t)length))
        return status_set(STATUS_DATA, "%s: the answer of window %" PRIu32 ", %" PRId32 " to %" PRId32 ", is none",
                          name, i, shard->labels[i], shard->ends[i]);
    for (uint64_t j = first; j < first + length; j++)
        if (shard->begin[j] > shard->end[j])
            return status_set(STATUS_DATA, "%s: token %" PRIu64 " ends before it begins", name, j);
    if (shard->end[first] || shard->end[first + shard->context[i] - 1] || shard->end[first + length - 1])
        return status_set(STATUS_DATA, "%s: a special token of window %" PRIu32 " has a range", name, i);
    return STATUS_OK;
}

static enum status spans_check(const struct shard *shard, const char *name) {
    if (!shard->spans)
        return STATUS_OK;
    for (uint32_t i = 0; i < shard->n; i++)
        TRY(window_check(shard, name, i));
    if (shard->n && shard->rows[shard->n - 1] != shard->questions - 1)
        return status_set(STATUS_DATA, "%s: windows of %" PRIu32 " questions, the header says %" PRIu32, name,
                          shard->rows[shard->n - 1] + 1, shard->questions);
    return STATUS_OK;
}

static void spans_point(struct shard *shard, const char *at, const struct shard_layout *layout) {
    shard->ends = (const int32_t *)(at + layout->ends);
    shard->rows = (const uint32_t *)(at + layout->rows);
    shard->context = (const uint32_t *)(at + layout->context);
    shard->begin = (const uint32_t *)(at + layout->begin);
    shard->end = (const uint32_t *)(at + layout->end);
}

enum status shard_parse(struct shard *out, const char *name, const void *bytes, size_t size) {
    const struct header *header = bytes;
    struct shard_layout layout = {0};
    *out = (struct shard){0};
    if ((uintptr_t)bytes % 8 != 0)
        return status_set(STATUS_ARGUMENT, "%s: a shard's bytes start at a multiple of 8", name);
    TRY(header_check(header, name, size));
    TRY(size_check(header, name, size, &layout));
    const char *at = bytes;
    if (header->payload_hash != hash64(at + SHARD_HEADER, size - SHARD_HEADER))
        return status_set(STATUS_DATA, "%s: the content does not match its hash: the file is damaged", name);
    struct shard shard = {
        .n = (uint32_t)header->n,
        .offsets = (const uint64_t *)(at + layout.offsets),
        .ids = (const int32_t *)(at + layout.ids),
        .types = (const uint8_t *)(at + layout.types),
        .labels = (const int32_t *)(at + layout.labels),
        .full = (const uint32_t *)(at + layout.full),
        .spans = header->flags & HEADER_SPANS,
        .questions = header->questions,
        .doc_stride = header->doc_stride,
        .tokens = header->tokens,
        .longest = header->longest,
        .n_labels = header->n_labels,
        .vocab_size = header->vocab_size,
        .max_length = header->max_length,
    };
    memcpy(shard.key, header->key, sizeof header->key);
    if (shard.spans)
        spans_point(&shard, at, &layout);
    TRY(offsets_check(&shard, name));
    TRY(values_check(&shard, name));
    TRY(spans_check(&shard, name));
    *out = shard;
    return STATUS_OK;
}

enum status shard_open(struct shard *out, const char *path) {
    struct file_map map;
    *out = (struct shard){0};
    TRY(file_map_open(&map, path));
    enum status status = shard_parse(out, path, map.at, map.size);
    if (status != STATUS_OK)
        file_map_close(&map);
    else
        out->map = map;
    return status;
}

static enum status window_check_source(const struct shard *shard, const char *name, const struct source *source,
                                       uint32_t i) {
    const struct example *row = &source->rows[shard->rows[i]];
    uint64_t first = shard->offsets[i], context = first + shard->context[i];
    for (uint64_t j = first; j < shard->offsets[i + 1]; j++)
        if (shard->end[j] > (j < context ? row->text_size : row->pair_size))
            return status_set(STATUS_DATA, "%s: token %" PRIu64 " ends behind its text", name, j);
    return STATUS_OK;
}

enum status shard_check_source(const struct shard *shard, const char *name, const struct source *source) {
    if (shard->questions != source->n)
        return status_set(STATUS_DATA, "%s: of %" PRIu32 " rows, the source has %zu", name, shard->questions,
                          source->n);
    for (uint32_t i = 0; i < shard->n && shard->spans; i++)
        TRY(window_check_source(shard, name, source, i));
    return STATUS_OK;
}

void shard_close(struct shard *shard) {
    if (shard->map.at)
        file_map_close(&shard->map);
    *shard = (struct shard){0};
}

static int length_compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

// Nearest rank: the value of rank ceil(percent / 100 * n).
static uint32_t percentile(const uint32_t *sorted, uint32_t n, unsigned percent) {
    uint64_t rank = ((uint64_t)n * percent + 99) / 100;
    return sorted[rank ? rank - 1 : 0];
}

struct shard_report shard_report(const struct shard *shard) {
    struct shard_report report = {.tokens = shard->tokens};
    uint32_t *sorted = shard->n ? malloc(shard->n * sizeof *sorted) : NULL;
    uint64_t full = 0;
    if (!sorted)
        return report;
    memcpy(sorted, shard->full, shard->n * sizeof *sorted);
    qsort(sorted, shard->n, sizeof *sorted, length_compare);
    for (uint32_t i = 0; i < shard->n; i++) {
        full += shard->full[i];
        report.cut += shard->full[i] > shard->offsets[i + 1] - shard->offsets[i];
        report.answered += shard->spans && shard->ends[i] > 0;
    }
    report.n = shard->n;
    report.questions = shard->spans ? shard->questions : shard->n;
    report.longest = sorted[shard->n - 1];
    report.p50 = percentile(sorted, shard->n, 50);
    report.p99 = percentile(sorted, shard->n, 99);
    report.mean = (double)full / shard->n;
    report.tokens_cut = full - shard->tokens;
    free(sorted);
    return report;
}
