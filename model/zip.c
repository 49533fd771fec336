// SPDX-License-Identifier: Apache-2.0
#include "model/zip.h"

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// libarchive sums CRC-32 over at most 4 GiB of a block, whatever its size, so it is given the archive in blocks of
// less. (A test builds this file with small ones.)
#ifndef ZIP_BLOCK
#define ZIP_BLOCK ((size_t)1 << 30)
#endif

struct reader {
    struct zip *out;
    struct archive *archive;
    const char *bytes;
    size_t size, used; // used: bytes of the entries read so far
    const char *name;
};

static const char *reason(const struct reader *r) {
    const char *why = archive_error_string(r->archive);
    return why ? why : "damaged";
}

static enum status refuse(const struct reader *r) {
    return status_set(STATUS_DATA, "%s: not a whole zip archive: %s", r->name, reason(r));
}

// Where `block` lies in the archive's own bytes. libarchive hands out a buffer of its own for what it had to unpack.
static bool is_inside(const struct reader *r, const void *block, size_t size) {
    uintptr_t at = (uintptr_t)block, begin = (uintptr_t)r->bytes;
    return at >= begin && at - begin <= r->size && size <= r->size - (at - begin);
}

// Adds a block to the entry it continues.
static enum status block_take(struct reader *r, struct zip_entry *entry, const void *block, size_t size) {
    bool next = entry->size == 0 || entry->data + entry->size == block;
    if (!is_inside(r, block, size) || !next)
        return status_set(STATUS_DATA,
                          "%s: entry %.80s is not stored as it is (%s): torch.save compresses nothing; save it again",
                          r->name, entry->name, archive_format_name(r->archive));
    if (size > r->size - r->used)
        return status_set(STATUS_DATA, "%s: entry %.80s overlaps others", r->name, entry->name);
    entry->data = entry->size ? entry->data : block;
    entry->size += size;
    r->used += size;
    return STATUS_OK;
}

// Reads to the entry's end, where its CRC-32 is checked.
static enum status entry_read(struct reader *r, struct zip_entry *entry) {
    const void *block;
    size_t size;
    la_int64_t offset;
    int rc;
    while ((rc = archive_read_data_block(r->archive, &block, &size, &offset)) == ARCHIVE_OK)
        if (size > 0)
            TRY(block_take(r, entry, block, size));
    if (rc == ARCHIVE_EOF)
        return STATUS_OK;
    return status_set(STATUS_DATA, "%s: entry %.80s: %s", r->name, entry->name, reason(r));
}

static enum status entry_add(struct reader *r, struct archive_entry *header) {
    struct zip *zip = r->out;
    const char *name = archive_entry_pathname_utf8(header);
    name = name ? name : archive_entry_pathname(header);
    if (!name)
        return status_set(STATUS_DATA, "%s: an entry's name is not readable", r->name);
    if (zip->n == ZIP_ENTRIES_MAX)
        return status_set(STATUS_DATA, "%s: more than %zu entries", r->name, ZIP_ENTRIES_MAX);
    if (zip->n == zip->room) {
        size_t room = zip->room ? zip->room * 2 : 64;
        struct zip_entry *grown = realloc(zip->at, room * sizeof *grown);
        if (!grown)
            return status_set(STATUS_SYSTEM, "%s: no memory for %zu entries", r->name, room);
        zip->at = grown;
        zip->room = room;
    }
    struct zip_entry *entry = &zip->at[zip->n];
    *entry = (struct zip_entry){.name = strdup(name)};
    if (!entry->name)
        return status_set(STATUS_SYSTEM, "%s: no memory", r->name);
    zip->n++;
    return entry_read(r, entry);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct zip_entry *)a)->name, ((const struct zip_entry *)b)->name);
}

static enum status entries_read(struct reader *r) {
    struct archive_entry *header;
    int rc;
    // A warning is about a name in no known charset.
    while ((rc = archive_read_next_header(r->archive, &header)) == ARCHIVE_OK || rc == ARCHIVE_WARN)
        TRY(entry_add(r, header));
    if (rc != ARCHIVE_EOF)
        return refuse(r);
    if (r->out->n)
        qsort(r->out->at, r->out->n, sizeof *r->out->at, by_name);
    for (size_t i = 1; i < r->out->n; i++)
        if (strcmp(r->out->at[i - 1].name, r->out->at[i].name) == 0)
            return status_set(STATUS_DATA, "%s: two entries are called %.80s", r->name, r->out->at[i].name);
    return STATUS_OK;
}

static enum status archive_scan(struct reader *r) {
    enum status status;
    r->archive = archive_read_new();
    if (!r->archive)
        return status_set(STATUS_SYSTEM, "%s: no memory", r->name);
    if (archive_read_support_format_zip_seekable(r->archive) != ARCHIVE_OK)
        status = status_set(STATUS_SYSTEM, "%s: libarchive: %s", r->name, reason(r));
    else
        status = archive_read_open_memory2(r->archive, r->bytes, r->size, ZIP_BLOCK) == ARCHIVE_OK ? entries_read(r)
                                                                                                   : refuse(r);
    archive_read_free(r->archive);
    return status;
}

// libarchive gives names in the locale's charset: for this thread that is UTF-8 meanwhile, so that every name has one.
enum status zip_parse(struct zip *out, const char *bytes, size_t size, const char *name) {
    *out = (struct zip){0};
    struct reader r = {.out = out, .bytes = bytes, .size = size, .name = name};
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0), before = utf8 ? uselocale(utf8) : (locale_t)0;
    enum status status = archive_scan(&r);
    if (utf8) {
        uselocale(before);
        freelocale(utf8);
    }
    if (status != STATUS_OK)
        zip_release(out);
    return status;
}

void zip_release(struct zip *zip) {
    for (size_t i = 0; i < zip->n; i++)
        free(zip->at[i].name);
    free(zip->at);
    *zip = (struct zip){0};
}

const struct zip_entry *zip_find(const struct zip *zip, const char *name) {
    struct zip_entry key = {.name = (char *)(uintptr_t)name};
    return zip->n ? bsearch(&key, zip->at, zip->n, sizeof *zip->at, by_name) : NULL;
}
