// SPDX-License-Identifier: Apache-2.0
// A zip archive in memory whose entries are stored, not compressed: their bytes are used where they lie. libarchive
// reads the archive's directory (zip64 too) and checks every entry's CRC-32.
#ifndef FINETUNED_MODEL_ZIP_H
#define FINETUNED_MODEL_ZIP_H

#include "base/status.h"

#include <stddef.h>

#define ZIP_ENTRIES_MAX ((size_t)1 << 17)

struct zip_entry {
    char *name;
    const char *data; // NULL if it is empty
    size_t size;
};

struct zip {
    struct zip_entry *at; // sorted by name
    size_t n, room;
};

// A pure function of bytes; `out` borrows them. STATUS_DATA: damaged, cut short, compressed, encrypted, a name twice,
// entries that overlap.
enum status zip_parse(struct zip *out, const char *bytes, size_t size, const char *name);
void zip_release(struct zip *zip);
// NULL if there is none of that name.
const struct zip_entry *zip_find(const struct zip *zip, const char *name);

#endif
